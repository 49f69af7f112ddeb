"""The traffic of a ranker over time: by minutes of a day, by hours and days of 92 days, part of the state.

Folded from the records of impressions and of their ends at the times that these have, never from the clock or from the
state of a query, so it is the same after any restart and on every node. Periods lie in arrays of fixed size that wrap:
a record is a few increments, and the memory is bounded (:attr:`Series.nbytes`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.monitoring.metrics import DELAYS, POSITIONS

MINUTE, HOUR, DAY = 60, 3_600, 86_400
#: periods that are kept
MINUTES, HOURS, DAYS = 1_440, 2_208, 92
#: the counts of an arm in a period: lists that were made, those with an item that was explored, the ends of lists
#: (late: after the end of the feedback window), lists with a click, and clicks
COUNTS = ("lists", "explored", "feedback", "silence", "dropped", "withdrawn", "late", "clicked", "clicks")
#: its sums: of the values of clicks, and of the squares of the clicks of each list
SUMS = ("value", "squares")
_COUNTS = len(COUNTS)
_EXPLORED, _CLICKED, _CLICKS = (COUNTS.index(name) for name in ("explored", "clicked", "clicks"))
_HOW = {name: COUNTS.index(name) for name in ("feedback", "silence", "dropped", "withdrawn", "late")}
#: the counts of a ranker on a day: lists by the positions above them, lists by their last position, items shown below
#: the positions that are counted by themselves, items explored and clicked by position (the last of them for all that
#: follow), and clicks by the time since the list was shown (the last of them for all that are longer)
_PLACES = POSITIONS + 1
_FROM, _TO, _BELOW, _EXPLORED_AT = 0, _PLACES, 2 * _PLACES, 2 * _PLACES + 1
_CLICKED_AT, _DELAYED = _EXPLORED_AT + _PLACES, _EXPLORED_AT + 2 * _PLACES
_OF_DAY = _DELAYED + len(DELAYS) + 1
#: arms that are kept, also those that are gone: more than a ranker may have at a time
_ARMS = 16
#: of the saved form
_VERSION = 1


class SavedRing(Struct, array_like=True):
    """The periods of a ring that have counts. The order of the fields is a promise."""

    first: int
    last: int
    rows: bytes
    counts: bytes
    sums: bytes
    before: list[int]
    sums_before: list[float]


class SavedSeries(Struct):
    """The names in the stored bytes are a promise."""

    version: int
    arms: dict[str, tuple[SavedRing, SavedRing]]
    days: SavedRing


class Periods(NamedTuple):
    """Counts and sums of consecutive periods, one row each, and of all those before them."""

    counts: NDArray[np.uint32]
    sums: NDArray[np.float64]
    counts_before: NDArray[np.int64]
    sums_before: NDArray[np.float64]


class Ring:
    """Counts and sums of the latest periods of equal length."""

    __slots__ = ("_counts_before", "_sums_before", "counts", "first", "last", "size", "sums", "wide", "width")

    def __init__(self, size: int, width: int, wide: int) -> None:
        self.size, self.width, self.wide = size, width, wide
        self.first = self.last = 0  #: the numbers of the first period ever, and of the latest
        self.counts, self.sums = array("I"), array("d")  #: made with the first record; a period is a row of each
        self._counts_before, self._sums_before = np.zeros(width, np.int64), np.zeros(wide)

    def row(self, at: int) -> int:
        """The row of a period, by its number; -1 if it is too long ago."""
        if at > self.last or not self.counts:
            self._advance(at)
        elif at <= self.last - self.size:
            return -1
        elif at < self.first:  # clocks of several nodes differ
            self.first = at
        return at % self.size

    def _advance(self, at: int) -> None:
        if not self.counts:
            self.first = self.last = at
            self.counts = array("I", bytes(4 * self.size * self.width))
            self.sums = array("d", bytes(8 * self.size * self.wide))
            return
        for period in range(self.last + 1, min(at, self.last + self.size) + 1):
            self._empty(period % self.size)
        self.last = at

    def _empty(self, row: int) -> None:
        """Move a row to those before."""
        counts, sums = self._rows()
        self._counts_before += counts[row]
        self._sums_before += sums[row]
        counts[row], sums[row] = 0, 0.0

    def between(self, first: int, last: int) -> Periods:
        """The periods with these numbers, both included; those that are not kept are empty."""
        counts, sums = np.zeros((last - first + 1, self.width), np.uint32), np.zeros((last - first + 1, self.wide))
        counts_before, sums_before = self._counts_before.copy(), self._sums_before.copy()
        if self.counts:
            kept = np.arange(max(self.first, self.last - self.size + 1), self.last + 1)
            all_counts, all_sums = self._rows()
            inside, earlier = kept[(kept >= first) & (kept <= last)], kept[kept < first]
            counts[inside - first], sums[inside - first] = all_counts[inside % self.size], all_sums[inside % self.size]
            counts_before += all_counts[earlier % self.size].sum(0, dtype=np.int64)
            sums_before += all_sums[earlier % self.size].sum(0)
        return Periods(counts, sums, counts_before, sums_before)

    def _rows(self) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        counts = np.frombuffer(self.counts, np.uint32).reshape(-1, self.width)
        return counts, np.frombuffer(self.sums, np.float64).reshape(len(counts), self.wide)

    @property
    def nbytes(self) -> int:
        return 4 * len(self.counts) + 8 * len(self.sums)

    def saved(self) -> SavedRing:
        counts, sums = self._rows()
        rows = np.flatnonzero(counts.any(1))
        return SavedRing(
            self.first, self.last, rows.astype("<u2").tobytes(), counts[rows].astype("<u4").tobytes(),
            sums[rows].astype("<f8").tobytes(), self._counts_before.tolist(), self._sums_before.tolist(),
        )  # fmt: skip

    def restore(self, saved: SavedRing) -> None:
        if not saved.last:
            return
        self._advance(saved.last)
        self.first = saved.first
        rows = np.frombuffer(saved.rows, "<u2")
        counts, sums = self._rows()
        counts[rows] = np.frombuffer(saved.counts, "<u4").reshape(len(rows), self.width)
        sums[rows] = np.frombuffer(saved.sums, "<f8").reshape(len(rows), self.wide)
        self._counts_before, self._sums_before = np.array(saved.before), np.array(saved.sums_before)


class ArmSeries:
    """The lists of an arm. A page after the first is not a list of its own, as in an experiment."""

    __slots__ = ("hours", "minutes")

    def __init__(self) -> None:
        self.minutes, self.hours = Ring(MINUTES, _COUNTS, len(SUMS)), Ring(HOURS, _COUNTS, len(SUMS))


class Series:
    """The traffic of a ranker over time. Changed only by folding records."""

    def __init__(self) -> None:
        self.arms: dict[str, ArmSeries] = {}
        self.days = Ring(DAYS, _OF_DAY, 0)

    def ranked(self, ranked: Ranked) -> None:
        """Count an impression."""
        why, offset = ranked.why, ranked.offset
        explored = "e" in why
        minute = int(ranked.time // MINUTE)
        if not offset:
            its = self._arm(ranked.arm)
            for ring, period in ((its.minutes, minute), (its.hours, minute // 60)):
                row = ring.row(period)
                if row >= 0:
                    at, counts = row * _COUNTS, ring.counts
                    counts[at] += 1
                    if explored:
                        counts[at + _EXPLORED] += 1
        row = self.days.row(minute // 1_440)
        if row < 0:
            return
        at, counts, end = row * _OF_DAY, self.days.counts, offset + len(why)
        if end > POSITIONS:
            counts[at + _BELOW] += end - max(offset, POSITIONS)
            end = POSITIONS
        if offset < end:
            counts[at + offset] += 1
            counts[at + _TO + end] += 1
        if explored:
            for n, letter in enumerate(why, offset):
                if letter == "e":
                    counts[at + _EXPLORED_AT + min(n, POSITIONS)] += 1

    def ended(self, ranked: Ranked, final: Final, *, waited: bool) -> None:
        """Count the end of an impression; ``waited``: its feedback window was open until then."""
        minute = int(final.time // MINUTE)
        clicks = final.clicks if waited and final.how in ("feedback", "silence") else []
        value = final.value if clicks or (waited and final.values) else 0.0
        if not ranked.offset:
            how = _HOW[final.how if waited or final.how == "withdrawn" else "late"]
            its = self._arm(ranked.arm)
            for ring, period in ((its.minutes, minute), (its.hours, minute // 60)):
                row = ring.row(period)
                if row >= 0:
                    at, counts = row * _COUNTS, ring.counts
                    counts[at + how] += 1
                    if clicks:
                        counts[at + _CLICKED] += 1
                        counts[at + _CLICKS] += len(clicks)
                        ring.sums[2 * row + 1] += len(clicks) ** 2
                    if value:
                        ring.sums[2 * row] += value
        if clicks and (row := self.days.row(minute // 1_440)) >= 0:
            at, counts = row * _OF_DAY + _CLICKED_AT, self.days.counts
            for position in clicks:
                counts[at + min(ranked.offset + position - 1, POSITIONS)] += 1

    def clicked(self, time: float, delay: float) -> None:
        """Count the time from a list to a click."""
        row = self.days.row(int(time // DAY))
        if row >= 0:
            self.days.counts[row * _OF_DAY + _DELAYED + bisect_left(DELAYS, delay)] += 1

    def _arm(self, name: str) -> ArmSeries:
        found = self.arms.get(name)
        if found is None:
            if len(self.arms) == _ARMS:
                del self.arms[min(self.arms, key=lambda arm: self.arms[arm].minutes.last)]
            found = self.arms[name] = ArmSeries()
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the arrays: 190 kB for each arm and 29 kB for the ranker."""
        return self.days.nbytes + sum(arm.minutes.nbytes + arm.hours.nbytes for arm in self.arms.values())

    def saved(self) -> SavedSeries:
        arms = {name: (arm.minutes.saved(), arm.hours.saved()) for name, arm in self.arms.items()}
        return SavedSeries(_VERSION, arms, self.days.saved())

    @classmethod
    def restored(cls, saved: SavedSeries) -> Self:
        """The series that was saved; empty if it has the form of another version."""
        out = cls()
        if saved.version != _VERSION:
            return out
        for name, (minutes, hours) in saved.arms.items():
            its = out._arm(name)
            its.minutes.restore(minutes)
            its.hours.restore(hours)
        out.days.restore(saved.days)
        return out


class OfDays(NamedTuple):
    """Counts of some days, summed."""

    shown: list[int]
    explored: list[int]
    clicked: list[int]
    delays: list[int]


def of_days(series: Series, first: int, last: int) -> OfDays:
    """The counts by position, and by the time to a click, of the days with these numbers."""
    total = series.days.between(first, last).counts.sum(0, dtype=np.int64)
    shown = np.cumsum(total[_FROM:_TO] - total[_TO:_BELOW])  # lists that begin above a position and do not end there
    shown[POSITIONS] = total[_BELOW]
    explored, clicked = total[_EXPLORED_AT:_CLICKED_AT], total[_CLICKED_AT:_DELAYED]
    return OfDays(shown.tolist(), explored.tolist(), clicked.tolist(), total[_DELAYED:].tolist())
