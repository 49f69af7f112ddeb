"""A circuit breaker: a service that is down costs one page, not every page."""

from __future__ import annotations

import time

#: seconds without a call after the first failure; doubled by each further one
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


class Breaker:
    """After a call without an answer, calls with a fallback are not made for a while; then one tries again."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    def allows(self) -> bool:
        """True if a call may be made. While the service is down, only one per pause may."""
        if not self._failures:
            return True
        now = time.monotonic()
        if now < self._until:
            return False
        self._until = now + self._pause()  # others wait for the outcome of this one
        return True

    def failed(self) -> None:
        self._failures += 1
        self._until = time.monotonic() + self._pause()

    def succeeded(self) -> None:
        self._failures = 0

    def _pause(self) -> float:
        return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10)))
