"""The value of the lists that a policy in the shadow would have shown, from the lists that were shown instead.

The caller's order is shown through a softmax by rank (:mod:`driftrank.serve.ranking.explore`), so the probability of
every list is known, and the record of a list has the one that the policy would have shown. The value is the mean of

    psi = 1 - S_1 + sum over k <= min(f, K) of W_k (c_k - h_k) S_{k+1}

over lists (:class:`driftrank.evaluation.estimators.cascade_dr.CascadeDR`): W_k is 1 over the probability of the first k
items if they are those of the policy, else 0; h_k the chance of a click at position k of its lists if there was none
above, by the lists before this one only; and S_{k+1} that of no click below k. It is right whatever h if users read
from the top. Sums are kept by buckets of subjects.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from driftrank.evaluation.sequences import BUCKETS, CLICKS, bucket_error
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.state.after_prefix import Estimate, estimate

#: clicks and lists that are added to those of a position
_PRIOR = (0.5, 2.0)
#: an interval is given from so many effective lists on, of so many buckets
_ENOUGH, _BUCKETS = 100, 50
#: the largest share of all weights that one list may have, and limits of the mean weight, which is 1
_LARGEST, _LOW, _HIGH = 0.05, 0.8, 1.25


def _zeros() -> list[float]:
    return [0.0] * BUCKETS


class Shadow(Struct):
    """Sums over the lists of a ranker in the shadow that explores."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)  #: lists by bucket
    values: list[float] = field(default_factory=_zeros)  #: sums of psi
    rewards: list[float] = field(default_factory=_zeros)  #: lists with a click, of those that were shown
    weights: list[float] = field(default_factory=_zeros)  #: sums of the weight down to the first click; its mean is 1
    squares: float = 0.0  #: of these weights, summed
    largest: float = 0.0  #: of them
    at_risk: list[float] = []  #: by position: weights of lists without a click above
    clicked: list[float] = []  #: and of those with the first click there

    def add(self, ranked: Ranked, final: Final, bucket: int) -> None:
        """Count a list that has ended."""
        wanted, chances = ranked.policy_list, ranked.propensity
        if wanted is None or chances is None:
            return
        seen = len(ranked.shown) if final.shown is None else min(final.shown, len(ranked.shown))
        first = min(final.clicks, default=seen + 1)
        hazards = self._hazards(seen)
        left = [1.0] * (seen + 1)  # the chance of no click below k
        for k in range(seen - 1, -1, -1):
            left[k] = left[k + 1] * (1.0 - hazards[k])
        psi, weight = 1.0 - left[0], 1.0
        for k in range(min(first, seen)):
            weight = weight / chances[k] if ranked.shown[k] == wanted[k] else 0.0
            if not weight:
                break
            click = k + 1 == first
            psi += weight * (click - hazards[k]) * left[k + 1]
            self.at_risk[k] += weight
            self.clicked[k] += weight * click
        self.counts[bucket] += 1
        self.values[bucket] += psi
        self.rewards[bucket] += first <= seen
        self.weights[bucket] += weight
        self.squares += weight * weight
        self.largest = max(self.largest, weight)

    def _hazards(self, seen: int) -> list[float]:
        while len(self.at_risk) < seen:
            self.at_risk.append(0.0)
            self.clicked.append(0.0)
        pairs = zip(self.clicked[:seen], self.at_risk[:seen], strict=True)
        return [(clicked + _PRIOR[0]) / (at_risk + _PRIOR[1]) for clicked, at_risk in pairs]

    @property
    def lists(self) -> int:
        return sum(self.counts)

    @property
    def effective(self) -> float:
        """The number of lists by their weights."""
        return math.fsum(self.weights) ** 2 / self.squares if self.squares else 0.0

    @property
    def few(self) -> bool:
        """True if there are too few lists or clicks for an interval, or one list has too much weight."""
        if self.effective < _ENOUGH or sum(map(bool, self.counts)) < _BUCKETS:
            return True
        value = math.fsum(self.values) / self.lists
        rare = self.effective * min(value, 1.0 - value) < CLICKS
        return rare or self.largest > _LARGEST * math.fsum(self.weights)

    @property
    def apart(self) -> bool:
        """True if the policy's lists were not shown as often as their probabilities say."""
        mean = math.fsum(self.weights) / self.lists
        return not _LOW <= mean <= _HIGH or abs(mean - 1.0) > 3.0 * bucket_error(self.weights, self.counts)

    def value(self, planned: int) -> Estimate:
        """The value of the policy's lists."""
        return estimate(self.values, self.counts, planned)

    def gain(self, planned: int) -> Estimate:
        """The value of the policy's lists less that of the lists that were shown, list by list."""
        differences = [psi - reward for psi, reward in zip(self.values, self.rewards, strict=True)]
        return estimate(differences, self.counts, planned)
