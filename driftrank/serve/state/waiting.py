"""Impressions that wait for feedback, in the order in which their feedback windows end."""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain

import numpy as np

#: impressions of a part
_TOGETHER = 50_000


class _Part:
    """Impressions that follow each other; those that have ended stay, until all of them have."""

    __slots__ = ("done", "head", "seqs", "times", "waiting")

    def __init__(self, seqs: array[int], times: array[float], done: bytearray, waiting: int) -> None:
        self.seqs, self.times, self.done = seqs, times, done
        self.waiting = waiting
        self.head = 0  # all before it are done

    @property
    def is_full(self) -> bool:
        return len(self.seqs) >= _TOGETHER

    def copy(self) -> _Part:
        # of a full part only the marks change
        seqs, times = (self.seqs, self.times) if self.is_full else (self.seqs[:], self.times[:])
        out = _Part(seqs, times, self.done[:], self.waiting)
        out.head = self.head
        return out

    def find(self, seq: int) -> int:
        """The place of an impression that waits; -1 if it does not."""
        at = bisect_left(self.seqs, seq, self.head)
        return at if at < len(self.seqs) and self.seqs[at] == seq and not self.done[at] else -1

    def remove(self, at: int) -> None:
        self.done[at] = 1
        self.waiting -= 1
        while self.head < len(self.done) and self.done[self.head]:
            self.head += 1


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
        self._parts: list[_Part] = []  # the last one grows
        self._firsts: list[int] = []  # the first number of each
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def __contains__(self, seq: int) -> bool:
        part = self._part(seq)
        return part is not None and part.find(seq) >= 0

    @property
    def nbytes(self) -> int:
        return 17 * sum(len(part.seqs) for part in self._parts)

    @property
    def first(self) -> int | None:
        """The smallest number."""
        return self._parts[0].seqs[self._parts[0].head] if self._waiting else None

    def add(self, seq: int, time: float) -> None:
        """Numbers and times must ascend, as they do in the log."""
        last = self._parts[-1] if self._parts else None
        assert last is None or seq > last.seqs[-1], "records are folded in the order of the log"
        if last is None or last.is_full:
            last = self._append(_Part(array("q"), array("d"), bytearray(), 0), seq)
        last.seqs.append(seq)
        last.times.append(time)
        last.done.append(0)
        last.waiting += 1
        self._waiting += 1

    def remove(self, seq: int) -> bool:
        """Remove a number; True if it was there."""
        part = self._part(seq)
        at = -1 if part is None else part.find(seq)
        if part is None or at < 0:
            return False
        part.remove(at)
        self._waiting -= 1
        if not part.waiting and (part.is_full or not self._waiting):
            which = self._parts.index(part)
            del self._parts[which], self._firsts[which]
        return True

    def due(self, until: float, limit: int = 1000) -> list[int]:
        """Those opened at ``until`` or before, oldest first, at most ``limit``."""
        out: list[int] = []
        for part in self._parts:
            for at in range(part.head, len(part.seqs)):
                if len(out) == limit or part.times[at] > until:
                    return out
                if not part.done[at]:
                    out.append(part.seqs[at])
        return out

    def copy(self) -> WaitingImpressions:
        """Quick, unlike ``to_bytes``."""
        out = WaitingImpressions()
        out._parts, out._firsts = [part.copy() for part in self._parts], self._firsts[:]
        out._waiting = self._waiting
        return out

    def to_bytes(self) -> bytes:
        """Not at the same time as changes; in pieces, so that other threads may run in between."""
        packer, out = zlib.compressobj(1), []
        seqs = ((np.frombuffer(part.seqs, np.int64).astype("<i8"), part) for part in self._parts)
        times = ((np.frombuffer(part.times, np.float64).astype("<f8"), part) for part in self._parts)
        for values, part in chain(seqs, times):
            out.append(packer.compress(values[np.frombuffer(part.done, np.uint8) == 0].tobytes()))
        return b"".join(out) + packer.flush()

    @classmethod
    def from_bytes(cls, body: bytes) -> WaitingImpressions:
        raw = zlib.decompress(body)
        half, out = len(raw) // 2, cls()
        for at in range(0, half, 8 * _TOGETHER):
            seqs, times = array("q"), array("d")
            seqs.frombytes(np.frombuffer(raw[at : min(half, at + 8 * _TOGETHER)], "<i8").astype(np.int64).tobytes())
            times.frombytes(np.frombuffer(raw[half + at :][: 8 * len(seqs)], "<f8").astype(np.float64).tobytes())
            out._append(_Part(seqs, times, bytearray(len(seqs)), len(seqs)), seqs[0])
            out._waiting += len(seqs)
        return out

    def _append(self, part: _Part, first: int) -> _Part:
        self._parts.append(part)
        self._firsts.append(first)
        return part

    def _part(self, seq: int) -> _Part | None:
        """The part that may have a number."""
        at = bisect_right(self._firsts, seq) - 1
        return self._parts[at] if at >= 0 else None
