"""Time slices: long work lets other requests run, so that none waits for a batch of somebody else."""

from __future__ import annotations

import asyncio
from time import perf_counter

#: seconds of one slice
SLICE = 0.005


class Slices:
    """The slices of one piece of work."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = SLICE if seconds is None else seconds
        self._end = perf_counter() + self._seconds

    @property
    def over(self) -> bool:
        """True if the slice is used up: time for a ``pause``."""
        return perf_counter() >= self._end

    async def pause(self) -> None:
        """Let others run, then begin the next slice."""
        await asyncio.sleep(0)
        self._end = perf_counter() + self._seconds
