"""The choice of a node: the same one for the same query, as long as it answers."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

#: seconds for which a node that did not answer is the last choice
_PAUSE = 1.0


class Nodes:
    """Rendezvous hashing: for each route the nodes have an order, so that one that is gone moves only its own queries.

    >>> nodes = Nodes(["http://a", "http://b", "http://c"])
    >>> first = nodes.choose("4f2a", set())
    >>> nodes.failed(first)
    >>> nodes.choose("4f2a", set()) == first
    False
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)
        self._down: dict[str, float] = {}
        self._order = lru_cache(65_536)(self._sorted)

    def __len__(self) -> int:
        return len(self.urls)

    def choose(self, route: str, tried: set[str]) -> str:
        """The best node for a route; those tried before come last, then those that did not answer lately."""
        if len(self.urls) == 1:
            return self.urls[0]
        order = self._order(route) if route else tuple(random.sample(self.urls, len(self.urls)))
        now = time.monotonic()
        return min(order, key=lambda url: (url in tried, self._down.get(url, 0.0) > now))

    def failed(self, url: str) -> None:
        self._down[url] = time.monotonic() + _PAUSE

    def _sorted(self, route: str) -> tuple[str, ...]:
        weights = {url: blake2b(f"{route} {url}".encode(), digest_size=8).digest() for url in self.urls}
        return tuple(sorted(self.urls, key=weights.__getitem__, reverse=True))
