"""Counters of failures that do not flood the log."""

from __future__ import annotations

import logging

logger = logging.getLogger("driftrank.client")


class Tally:
    """A count that is logged at 1, 2, 4, 8 and so on."""

    def __init__(self, what: str) -> None:
        self.count = 0
        self._what = what

    def add(self, n: int, why: object) -> None:
        before, self.count = self.count, self.count + n
        if before.bit_length() != self.count.bit_length():
            logger.warning("%s, %d so far: %s", self._what, self.count, why)
