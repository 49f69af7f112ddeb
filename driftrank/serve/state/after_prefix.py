"""The difference of a ranker's own arm and the holdout, after the prefix that their lists share.

For every list of the two, what the other would have shown is in its record. If both begin with the same j items, clicks
on these tell nothing of the difference: users who read from the top click on them with the same probability. So of a
list's clicks only those below count, and

    psi_i = (r_i - g_i) (1{own} / p_own - 1{holdout} / p_holdout)

with r_i the clicks below the shared prefix, and g_i their mean over the lists before it that differ, with or without
a click in the prefix as this one. Lists of the same items in the same order count 0. The mean of psi is the difference
of clicks per list, with less noise. It assumes that users read from the top, which is checked: the clicks in the
shared prefixes must not differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from driftrank.evaluation.sequences import BUCKETS, bucket_error, mixture_width
from driftrank.serve.log.records import Final, Ranked


class Estimate(NamedTuple):
    """A difference with the half-width of its interval, and the standard deviation of a term."""

    difference: float
    half: float
    sd: float

    @property
    def side(self) -> int:
        """The side of 0 on which the interval lies; 0: it contains 0."""
        return (self.difference > self.half) - (self.difference < -self.half)


def estimate(sums: Sequence[float], counts: Sequence[int], planned: int, alpha: float = 0.05) -> Estimate:
    """The mean of terms that are summed and counted by bucket."""
    n = sum(counts)
    sd = bucket_error(sums, counts) * math.sqrt(n)
    return Estimate(math.fsum(sums) / n, sd * mixture_width(n, planned, alpha), sd)


def shared_prefix(ranked: Ranked) -> int:
    """The number of items at the top that the own arm and the holdout would both have shown; 0 if it is unknown."""
    other = ranked.policy_list if ranked.arm == "holdout" else ranked.baseline_list
    if other is None:
        return 0
    same = 0
    for one, two in zip(ranked.shown, other, strict=False):
        if one != two:
            break
        same += 1
    return same


class Centre(Struct):
    """Lists, and the clicks below their shared prefixes."""

    lists: int = 0
    clicks: int = 0


class AfterPrefix(Struct):
    """Sums by bucket of subjects. Begins with the first list after the service can tell."""

    of_own: int = 0
    of_holdout: int = 0
    differing: int = 0  #: of these lists
    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)  #: lists of all arms
    below: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)  #: sums of psi
    above: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)  #: of psi of all clicks, less these
    #: of lists that differ, without and with a click in the shared prefix
    centres: list[Centre] = field(default_factory=lambda: [Centre(), Centre()])

    def add(self, ranked: Ranked, final: Final, sign: float, bucket: int, clicks: float) -> None:
        """Count a list; ``sign`` is 1 for the own arm, -1 for the holdout, 0 for others, ``clicks`` the term of all
        its clicks.
        """
        self.counts[bucket] += 1
        if not sign:
            return
        if sign > 0:
            self.of_own += 1
        else:
            self.of_holdout += 1
        same, term = shared_prefix(ranked), 0.0
        if same < len(ranked.shown):
            self.differing += 1
            below = sum(click > same for click in final.clicks)
            centre = self.centres[below < len(final.clicks)]
            term = sign * (below - centre.clicks / max(1, centre.lists)) / ranked.share
            centre.lists += 1
            centre.clicks += below
        self.below[bucket] += term
        self.above[bucket] += sign * clicks - term
