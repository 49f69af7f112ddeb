"""Rate limits: requests per second of a key."""

from __future__ import annotations

import time
from collections.abc import Callable

from driftrank.serve.access.keys import hashed

#: seconds of the rate that a key may save up and use at once
_SAVED = 10.0


class Rates:
    """A token bucket for each key. ``rate`` returns the limit, which may change; None: there is none.

    The other requests of an array are owed if there are not enough tokens: then the next ones wait for longer.

    >>> now = [0.0]
    >>> rates = Rates(lambda: 2.0, lambda: now[0])
    >>> rates.take("key"), rates.owe("key", 39), rates.take("key"), rates.take("other")
    (0.0, None, 10.5, 0.0)
    >>> now[0] = 11.0
    >>> rates.take("key")
    0.0
    """

    def __init__(self, rate: Callable[[], float | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # by the hash of a key: tokens, and when

    def take(self, key: str | None) -> float:
        """Take the token of a request; return the seconds to wait if there is none."""
        rate = self._rate()
        if rate is None:
            return 0.0
        name, now = "" if key is None else hashed(key), self._clock()
        most = max(1.0, _SAVED * rate)
        tokens, since = self._buckets.get(name, (most, now))
        tokens = min(most, tokens + (now - since) * rate)
        wait = max(0.0, (1.0 - tokens) / rate)
        self._buckets[name] = tokens if wait else tokens - 1.0, now
        return wait

    def owe(self, key: str | None, n: int) -> None:
        """Take ``n`` tokens more, whether or not they are there."""
        name = "" if key is None else hashed(key)
        if name in self._buckets:
            tokens, since = self._buckets[name]
            self._buckets[name] = tokens - n, since
