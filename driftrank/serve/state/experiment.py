"""The sums of an experiment: what the arms of a ranker have earned, in all and by day, and how they compare.

An arm is compared with a baseline by the mean of

    psi_i = (r_i - g_i) (1{arm} / p_arm - 1{baseline} / p_baseline)

over the lists of all arms, with r_i the clicks on list i (or their values), g_i the mean of r over all lists before it,
and p the probability with which the list was assigned to its arm. Its mean is the difference of the arms; g, known
before the list, only makes it less variable. Lists of one subject depend on each other, so the sums are kept by buckets
of subjects (of events, where no subject was given), and the error comes from the differences between buckets.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct, field

from driftrank.evaluation.sequences import BUCKETS, lists_needed, mixture_width
from driftrank.kernels.rng import key_of
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.settings.ranker import OWN_MODES
from driftrank.serve.state.after_prefix import AfterPrefix, Estimate, estimate
from driftrank.serve.state.arms import Split
from driftrank.serve.state.shadow import Shadow

#: days, hours of a comparison, and comparisons that are no longer running, that are kept
_DAYS, _HOURS, _STOPPED = 90, 2_208, 8
#: an interval is given from so many lists of either arm on, of so many buckets
_FEW, _FEW_BUCKETS = 100, 50
#: the interval is looked at after so many lists, to note since when it is on one side of 0
_LOOK = 16
_SECONDS = 86_400
#: the half-width that is reported as a goal
GOAL = 0.01


class HourGain(NamedTuple):
    """A comparison as it was seen last in an hour."""

    hour: int  #: since 1970
    lists: int  #: of all arms, since it began
    difference: float  #: of clicks per list
    half: float  #: the half-width of its interval


class Sums(Struct):
    """Counts of the lists of an arm, and of their clicks."""

    lists: int = 0
    clicks: int = 0
    value: float = 0.0
    lost: int = 0  #: taken back, or dropped without feedback
    opened: int = 0  #: feedback windows, if they are counted

    def open(self) -> None:
        """A feedback window opens. Those that were open before they were counted are not known."""
        self.opened = max(self.opened, self.lists + self.lost) + 1

    @property
    def pending(self) -> int:
        """Lists whose feedback window is open."""
        return max(0, self.opened - self.lists - self.lost)

    def add(self, final: Final) -> None:
        if final.how in ("dropped", "withdrawn"):
            self.lost += 1
        else:
            self.lists += 1
            self.clicks += len(final.clicks)
            self.value += final.value


def _zeros() -> list[int]:
    return [0] * BUCKETS


def _no_sums() -> list[float]:
    return [0.0] * BUCKETS


class Pair(Struct):
    """An arm and its baseline, from when both had a share of the lists."""

    arm: str
    baseline: str
    planned: int
    first: int  #: lists from this record on count
    until: int = 0  #: and before this one; 0: it is running
    since: float = 0.0  #: the time of the first list; 0: there was none
    lists: int = 0  #: of all arms
    of_arm: list[int] = field(default_factory=_zeros)  #: lists of the arm by bucket
    of_baseline: list[int] = field(default_factory=_zeros)
    of_others: list[int] = field(default_factory=_zeros)
    clicks: list[float] = field(default_factory=_no_sums)  #: sums of psi by bucket
    value: list[float] = field(default_factory=_no_sums)
    square: float = 0.0  #: of psi of clicks, summed
    side: int = 0  #: of 0 on which the interval of clicks lies; 0: it contains 0
    certain: float = 0.0  #: since when it does so
    hours: list[HourGain] = []  #: the intervals of clicks over time, by the hours in which they were looked at
    after: AfterPrefix | None = None  #: the same after the shared prefix, of the ranker's own arm and the holdout

    def add(self, ranked: Ranked, final: Final, bucket: int, clicks: float, value: float) -> None:
        """Count a list with its terms, which are those of its own arm, divided by its share."""
        name = ranked.arm
        self.since = self.since or ranked.time
        self.lists += 1
        if name == self.arm:
            self.of_arm[bucket] += 1
            sign = 1.0
        elif name == self.baseline:
            self.of_baseline[bucket] += 1
            sign = -1.0
        else:
            self.of_others[bucket] += 1
            sign = 0.0
        if sign:
            self.clicks[bucket] += sign * clicks
            self.value[bucket] += sign * value
            self.square += clicks * clicks
        if self.baseline == "holdout" and self.arm in OWN_MODES:
            self.after = self.after or AfterPrefix()
            self.after.add(ranked, final, sign, bucket, clicks)
        if not self.lists % _LOOK:
            self._look(final.time)

    def _look(self, now: float) -> None:
        side = 0
        if not self.few:
            found = self.estimate(self.clicks)
            side = found.side
            self._note(HourGain(int(now // 3_600), self.lists, found.difference, found.half))
        if side != self.side:
            self.side, self.certain = side, now if side else 0.0

    def _note(self, gain: HourGain) -> None:
        if self.hours and self.hours[-1].hour >= gain.hour:
            self.hours[-1] = gain._replace(hour=self.hours[-1].hour)
        else:
            self.hours.append(gain)
            del self.hours[:-_HOURS]

    @property
    def few(self) -> bool:
        """True if there are too few lists for an interval, or those of too few subjects."""
        arms = self.of_arm, self.of_baseline
        return any(sum(lists) < _FEW or sum(map(bool, lists)) < _FEW_BUCKETS for lists in arms)

    def estimate(self, sums: list[float]) -> Estimate:
        """The mean of the terms with these sums by bucket."""
        counts = [sum(three) for three in zip(self.of_arm, self.of_baseline, self.of_others, strict=True)]
        return estimate(sums, counts, self.planned)

    def after_prefix(self, sums: list[float], alpha: float = 0.05) -> Estimate | None:
        """The mean of the terms after the shared prefix with these sums by bucket; None if there are too few."""
        after = self.after
        if self.few or after is None or min(after.of_own, after.of_holdout) < _FEW:
            return None
        return estimate(sums, after.counts, self.planned, alpha)

    def needed(self, found: Estimate) -> int | None:
        """Lists in all until the half-width is the goal; None if it is."""
        return None if found.half <= GOAL else lists_needed(GOAL, found.sd, self.planned)

    @property
    def design_effect(self) -> float:
        """The factor by which the variance is larger because lists of one subject are alike; at least 1."""
        mean = math.fsum(self.clicks) / self.lists
        single = self.square / self.lists - mean * mean
        return max(1.0, self.estimate(self.clicks).sd ** 2 / single) if single > 0 else 1.0


class DayPair(Struct):
    """The terms of a comparison on one day."""

    arm: str
    baseline: str
    lists: int = 0
    of_arm: int = 0
    of_baseline: int = 0
    total: float = 0.0
    square: float = 0.0

    def add(self, name: str, clicks: float) -> None:
        self.lists += 1
        if name == self.arm:
            self.of_arm += 1
            self.total += clicks
        elif name == self.baseline:
            self.of_baseline += 1
            self.total -= clicks
        else:
            return
        self.square += clicks * clicks

    @property
    def few(self) -> bool:
        return min(self.of_arm, self.of_baseline) < _FEW

    def estimate(self, pair: Pair) -> Estimate:
        """The mean of the day's terms, with the design effect of the whole comparison."""
        mean = self.total / self.lists
        sd = math.sqrt(max(0.0, self.square / self.lists - mean * mean) * pair.design_effect)
        return Estimate(mean, sd * mixture_width(self.lists, pair.planned), sd)


class DaySums(Struct):
    """The sums of a day."""

    arms: dict[str, Sums] = {}
    pairs: list[DayPair] = []


class Experiment(Struct):
    """The sums of a ranker. Empty, and without any cost, as long as it has one arm only that does not explore in the
    shadow.
    """

    arms: dict[str, Sums] = {}
    days: dict[int, DaySums] = {}  #: by the number of the day since 1970
    pairs: list[Pair] = []
    every: Sums = field(default_factory=Sums)  #: of all arms, also of those that are gone
    by_subject: int = 0  #: lists that were assigned by subject
    shadow: Shadow | None = None  #: of the ranker's own arm, if it has been in the shadow and explored

    def begin(self, split: Split, planned: int, seq: int) -> None:
        """The shares have changed: begin the comparisons that are possible now, end those that are not."""
        wanted = {(arm, split.baseline) for arm in split.shares if arm != split.baseline} if split else set()
        running = {(pair.arm, pair.baseline): pair for pair in self.pairs if not pair.until}
        for key, pair in running.items():
            if key not in wanted:
                pair.until = seq
        new = [Pair(*key, planned, seq) for key in sorted(wanted - running.keys())]
        again = {(pair.arm, pair.baseline) for pair in new}
        kept = [pair for pair in self.pairs if (pair.arm, pair.baseline) not in again]
        stopped = [pair for pair in kept if pair.until and pair.lists][-_STOPPED:]
        self.pairs = stopped + [pair for pair in kept if not pair.until] + new

    def is_new(self, created: int) -> bool:
        """True if it is that of a ranker whose settings have not changed since it was created, and has no sums."""
        return (
            not self.arms
            and self.shadow is None
            and all(pair.first == created and not pair.until for pair in self.pairs)
        )

    def forget(self, names: set[str]) -> None:
        """Drop the sums of arms that begin again or are gone."""
        self.pairs = [pair for pair in self.pairs if pair.arm not in names and pair.baseline not in names]
        self.arms = {name: sums for name, sums in self.arms.items() if name not in names}
        self.shadow = None if "shadow" in names else self.shadow
        for day in self.days.values():
            day.arms = {name: sums for name, sums in day.arms.items() if name not in names}
            day.pairs = [pair for pair in day.pairs if pair.arm not in names and pair.baseline not in names]

    def open(self, ranked: Ranked) -> None:
        """The feedback window of an impression opens."""
        if not ranked.offset:
            self.arms.setdefault(ranked.arm, Sums()).open()

    def count(self, seq: int, ranked: Ranked, final: Final) -> None:
        """Count the end of the impression of record ``seq``. Pages after the first are not lists of their own."""
        name = ranked.arm
        bucket = (ranked.subject or key_of(f"bucket/{ranked.event_id}")) % BUCKETS
        if name == "shadow" and ranked.instead is not None and final.how in ("feedback", "silence"):
            self.shadow = self.shadow or Shadow()
            self.shadow.add(ranked, final, bucket)
        if not ranked.share or ranked.offset:
            return
        day = self._day(int(final.time // _SECONDS))
        for sums in (self.arms, day.arms):
            sums.setdefault(name, Sums()).add(final)
        if final.how in ("dropped", "withdrawn"):
            return
        every = self.every
        before = max(1, every.lists)
        clicks = (len(final.clicks) - every.clicks / before) / ranked.share
        value = (final.value - every.value / before) / ranked.share
        every.add(final)
        self.by_subject += bool(ranked.subject)
        for pair in self.pairs:
            if pair.first <= seq and (not pair.until or seq < pair.until):
                pair.add(ranked, final, bucket, clicks, value)
                _day_pair(day, pair).add(name, clicks)

    def _day(self, number: int) -> DaySums:
        if number not in self.days:
            self.days[number] = DaySums()
            for old in sorted(self.days)[:-_DAYS]:
                del self.days[old]
            if number not in self.days:  # a late end: on the oldest day that is kept
                number = min(self.days)
        return self.days[number]


def _day_pair(day: DaySums, pair: Pair) -> DayPair:
    for its in day.pairs:
        if (its.arm, its.baseline) == (pair.arm, pair.baseline):
            return its
    day.pairs.append(DayPair(pair.arm, pair.baseline))
    return day.pairs[-1]
