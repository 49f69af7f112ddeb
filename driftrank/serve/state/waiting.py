"""Impressions that wait for feedback, in the order in which their feedback windows end."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left

import numpy as np


class WaitingImpressions:
    """The records that opened a feedback window that is still open, by number, with their times.

    17 bytes per impression, so that millions may wait (at 2,500 a second, a window of half an hour holds 4.5 million).

    >>> waiting = WaitingImpressions()
    >>> for seq, time in ((3, 0.0), (5, 1.0), (8, 2.0)):
    ...     waiting.add(seq, time)
    >>> waiting.remove(5), waiting.remove(5)
    (True, False)
    >>> waiting.due(2.0), len(waiting)
    ([3, 8], 2)
    """

    def __init__(self) -> None:
        self._seqs = array("q")
        self._times = array("d")
        self._done = bytearray()
        self._head = 0  # all before it are done
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def __contains__(self, seq: int) -> bool:
        at = bisect_left(self._seqs, seq, self._head)
        return at < len(self._seqs) and self._seqs[at] == seq and not self._done[at]

    @property
    def nbytes(self) -> int:
        return 17 * len(self._seqs)

    @property
    def first(self) -> int | None:
        """The smallest number."""
        return self._seqs[self._head] if self._waiting else None

    def add(self, seq: int, time: float) -> None:
        """Numbers and times must ascend, as they do in the log."""
        assert not self._seqs or seq > self._seqs[-1], "records are folded in the order of the log"
        self._seqs.append(seq)
        self._times.append(time)
        self._done.append(0)
        self._waiting += 1

    def remove(self, seq: int) -> bool:
        """Remove a number; True if it was there."""
        at = bisect_left(self._seqs, seq, self._head)
        if at == len(self._seqs) or self._seqs[at] != seq or self._done[at]:
            return False
        self._done[at] = 1
        self._waiting -= 1
        self._advance()
        return True

    def due(self, until: float, limit: int = 1000) -> list[int]:
        """Those opened at ``until`` or before, oldest first, at most ``limit``."""
        out: list[int] = []
        for at in range(self._head, len(self._seqs)):
            if len(out) == limit or self._times[at] > until:
                break
            if not self._done[at]:
                out.append(self._seqs[at])
        return out

    def to_bytes(self) -> bytes:
        rest = np.frombuffer(self._done, np.uint8)[self._head :] == 0
        seqs = np.frombuffer(self._seqs, np.int64)[self._head :][rest] if self._waiting else np.zeros(0, np.int64)
        times = np.frombuffer(self._times, np.float64)[self._head :][rest] if self._waiting else np.zeros(0)
        return zlib.compress(seqs.astype("<i8").tobytes() + times.astype("<f8").tobytes(), 1)

    @classmethod
    def from_bytes(cls, body: bytes) -> WaitingImpressions:
        raw = zlib.decompress(body)
        half = len(raw) // 2
        out = cls()
        out._seqs.frombytes(np.frombuffer(raw[:half], "<i8").astype(np.int64).tobytes())
        out._times.frombytes(np.frombuffer(raw[half:], "<f8").astype(np.float64).tobytes())
        out._waiting = len(out._seqs)
        out._done = bytearray(out._waiting)
        return out

    def _advance(self) -> None:
        while self._head < len(self._done) and self._done[self._head]:
            self._head += 1
        if self._head > 1024 and 2 * self._head > len(self._done):
            del self._seqs[: self._head], self._times[: self._head], self._done[: self._head]
            self._head = 0
