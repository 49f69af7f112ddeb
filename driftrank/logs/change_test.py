r"""A test for changes of an item's attraction, given how likely the ranks are to be read.

A label, clicked or not at rank k with nothing above clicked, is 1 with probability :math:`\theta e_k`: the attraction,
relative to the best rank of the item, times the examination of the rank. If :math:`\theta` is constant over n labels,

.. math:: E = \frac{\int p_\theta(x_1 .. x_s)\, d\theta \int p_\theta(x_{s+1} .. x_n)\, d\theta}
                   {\max_\theta p_\theta(x_1 .. x_n)}

has an expectation of at most 1 for every split s: with the true :math:`\theta` instead of the maximum it is exactly 1.
So has the mean of E over any set of segments and splits that is fixed beforehand, and by Markov's inequality it exceeds
:math:`1/\delta` with probability at most :math:`\delta`. This holds for every number of labels. The segments here are
all of lengths n, n/2, n/4, ..., each overlapping half of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import specialise
from driftrank.logs.examination import Examination
from driftrank.logs.templates import largest_likelihoods

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

#: labels are tested in at most so many groups; a change is then placed within them
_GROUPS = 256
#: groups of the shortest segment
_SHORTEST = 8
#: splits with a log-likelihood within this of the best are candidates for the true one
_NATS = 7.0
#: nodes and weights of the quadrature of a likelihood, and its reach in standard deviations
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_REACH = 8.0


@dataclass(frozen=True)
class ItemChange:
    """A change of an item."""

    after: int  #: the number of labels before it
    low: int  #: the least and the largest number that is about as likely
    high: int
    ratio: float  #: log-likelihood ratio
    certain: bool  #: False if other examination probabilities within their intervals explain it


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of an item in the order of time."""

    clicked: NDArray[np.bool_]
    rank: Integers  #: from 0

    def __len__(self) -> int:
        return len(self.clicked)

    def sums(self, cuts: Integers, k: int) -> Numbers:
        """(cuts, k + 1): the number of clicks, and of labels without one by rank, before every cut."""
        table = np.zeros((len(cuts), k + 1))
        table[:, 0] = np.concatenate([[0], np.cumsum(self.clicked)])[cuts]
        for rank in range(k):
            table[:, rank + 1] = np.concatenate([[0], np.cumsum(~self.clicked & (self.rank == rank))])[cuts]
        return table


def changes_of(labels: Labels, examination: Examination, delta: float) -> list[ItemChange]:
    """The changes of an item; none is found with probability at least 1 - ``delta`` if its attraction is constant."""
    if len(labels) < _SHORTEST:
        return []
    used = np.unique(labels.rank)
    own = Labels(labels.clicked, np.searchsorted(used, labels.rank))
    box = _Box(examination.estimate[used], examination.low[used], examination.high[used])
    cuts = [0, *_segmented(own, box.estimate, delta), len(own)]
    while True:  # again with all labels between the neighbouring changes; drop changes that the test then does not find
        placed = []
        for n in range(1, len(cuts) - 1):
            placed.append(_placed(own, box.estimate, cuts[n - 1], cuts[n + 1], delta))
            cuts[n] = placed[-1][0].after  # at once, so that neighbours never pass each other
        weakest = min(range(len(placed)), key=lambda n: placed[n][1], default=-1)
        if weakest < 0 or placed[weakest][1] > 0:
            break
        del cuts[weakest + 1]
    found, surest = [], -np.inf
    for n, (change, _) in enumerate(placed, 1):
        parts = np.diff(own.sums(np.array(cuts[n - 1 : n + 2]), len(used)), axis=0)
        needed = np.log(cuts[n + 1] - cuts[n - 1]) - np.log(delta)
        evidence = box.least_evidence(parts, needed)
        surest = max(surest, evidence)
        found.append(replace(change, certain=bool(evidence > needed)))
    # the segments between several changes depend on the labels: one change must be significant among all segments and
    # splits
    if len(found) > 1 and surest <= 3 * np.log(len(own)) - np.log(6) - np.log(delta):
        found = [replace(change, certain=False) for change in found]
    return found


def estimated(labels: Labels, examination: Numbers, prior: tuple[float, float]) -> tuple[float, float]:
    """The attraction, with a ``prior`` of clicks and views, and the number of views that it is worth."""
    clicks, e = float(labels.clicked.sum()), examination[labels.rank[~labels.clicked]]
    theta = (clicks + prior[0]) / (len(labels) + prior[1]) if len(labels) + prior[1] > 0 else 0.0
    read = float(len(labels))
    for _ in range(200):
        read = clicks + float((e * (1 - theta) / (1 - e * theta)).sum()) if theta < 1 else float(len(labels))
        before, theta = theta, (clicks + prior[0]) / (read + prior[1]) if read + prior[1] > 0 else 0.0
        if abs(theta - before) <= 1e-9 * theta:
            break
    return theta, read


def _segmented(labels: Labels, e: Numbers, delta: float) -> list[int]:
    """The first cuts: those of the shortest segments in which a change is found, one after the other."""
    groups = min(_GROUPS, len(labels))
    cuts = np.arange(groups + 1) * len(labels) // groups
    sums = labels.sums(cuts, len(e))
    segments: list[tuple[int, int, float]] = []  # begin, end, log of the number of segments and splits
    lengths = [groups]
    while lengths[-1] // 2 >= _SHORTEST:
        lengths.append(lengths[-1] // 2)
    for length in lengths:
        begins = sorted({*range(0, groups - length + 1, max(1, length // 2)), groups - length})
        price = np.log(len(lengths)) + np.log(len(begins)) + np.log(length - 1)
        segments += [(begin, begin + length, price) for begin in begins]
    # all segments and splits at once
    first, last = (np.repeat([row[n] for row in segments], [row[1] - row[0] - 1 for row in segments]) for n in (0, 1))
    at = np.concatenate([np.arange(begin + 1, end) for begin, end, _ in segments])
    left, right = sums[at] - sums[first], sums[last] - sums[at]
    likelihood = _most(left, e)[0] + _most(right, e)[0]
    ends = np.cumsum([end - begin - 1 for begin, end, _ in segments])
    best = np.array(
        [row + int(part.argmax()) for row, part in zip([0, *ends], np.split(likelihood, ends[:-1]), strict=False)]
    )
    whole = np.array([sums[end] - sums[begin] for begin, end, _ in segments])
    evidence = _integrals(left[best], e) + _integrals(right[best], e) - _most(whole, e)[0]
    found = []
    for (begin, end, price), cut, log_e in zip(segments, at[best].tolist(), evidence, strict=True):
        if log_e > price - np.log(delta):
            found.append((end - begin, -log_e, begin, end, cut))
    chosen: list[int] = []
    for _, _, begin, end, cut in sorted(found):
        if not any(begin < earlier < end for earlier in chosen):
            chosen.append(cut)
    return sorted(int(cuts[cut]) for cut in chosen)


def _placed(labels: Labels, e: Numbers, begin: int, end: int, delta: float) -> tuple[ItemChange, float]:
    """The best place of one change between two labels, and the logarithm of the evidence beyond what is needed."""
    step = max(1, (end - begin) // (2 * _GROUPS))
    coarse = np.arange(begin + 1, end, step)
    ratio = _ratios(labels, e, begin, end, coarse)
    good = coarse[ratio >= ratio.max() - _NATS]
    near = coarse[int(ratio.argmax())]
    fine = np.arange(max(begin + 1, near - 2 * step), min(end, near + 2 * step + 1))
    at = int(fine[int(_ratios(labels, e, begin, end, fine).argmax())])
    parts = np.diff(labels.sums(np.array([begin, at, end]), len(e)), axis=0)
    evidence = _evidence(parts, e) - np.log(end - begin) + np.log(delta)
    change = ItemChange(at, min(at, int(good[0])), max(at, int(good[-1])), float(ratio.max()), True)
    return change, evidence


def _ratios(labels: Labels, e: Numbers, begin: int, end: int, at: Integers) -> Numbers:
    """Log-likelihood ratios of a change after each of these labels."""
    sums = labels.sums(np.concatenate([[begin], at, [end]]), len(e))
    left, right = sums[1:-1] - sums[0], sums[-1] - sums[1:-1]
    total: Numbers = _most(left, e)[0] + _most(right, e)[0] - _most(sums[-1:] - sums[0], e)[0]
    return total


def _evidence(parts: Numbers, e: Numbers) -> float:
    """ln E of two parts, (2, ranks + 1) sums, one after the other."""
    return float(_integrals(parts, e).sum() - _most(parts.sum(axis=0, keepdims=True), e)[0][0])


def _log_likelihood(sums: Numbers, e: Numbers, theta: Numbers) -> Numbers:
    """(n, m): the log-likelihood of n sums at m values each of theta, less a constant that all share."""
    inner = np.clip(theta, 1e-300, 1 - 1e-12)
    total: Numbers = sums[:, :1] * np.log(inner) + (sums[:, None, 1:] * np.log1p(-inner[:, :, None] * e)).sum(axis=2)
    return total


def _most(sums: Numbers, e: Numbers) -> tuple[Numbers, Numbers]:
    """The largest log-likelihood of each row of sums, and where it is."""
    theta, value = np.zeros(len(sums)), np.zeros(len(sums))
    _maximiser()(np.ascontiguousarray(sums), e, theta, value)
    return value, theta


@cache
def _maximiser() -> Any:
    return specialise(largest_likelihoods, {})


def _integrals(sums: Numbers, e: Numbers) -> Numbers:
    """Logarithms of the integral of each likelihood over theta from 0 to 1.

    By quadrature where the likelihood is; what lies beyond is left out, which makes E smaller.
    """
    most, theta = _most(sums, e)
    inner = np.clip(theta, 1e-12, 1 - 1e-12)
    curve = sums[:, 0] / inner**2 + (sums[:, 1:] * (e / (1 - e * inner[:, None])) ** 2).sum(axis=1)
    # at an edge the likelihood falls as an exponential function
    slope = np.where(theta <= 0, sums[:, 1:] @ e, np.where(theta > 1 - 1e-9, sums[:, 0], 0.0))
    # without labels the likelihood is 1 everywhere
    reach = np.where(slope > 0, 30.0 / np.maximum(slope, 1e-12), _REACH / np.sqrt(np.maximum(curve, 1e-12)))
    low, high = np.maximum(theta - reach, 0.0), np.minimum(theta + reach, 1.0)
    nodes = low[:, None] + (high - low)[:, None] * (_NODES + 1) / 2
    values = np.exp(_log_likelihood(sums, e, nodes) - most[:, None]) @ (_WEIGHTS / 2)
    total: Numbers = most + np.log(np.maximum(values * (high - low), 1e-300))
    return total


@dataclass(frozen=True, eq=False)
class _Box:
    """Examination of the ranks of an item, and its intervals. Only ratios matter: the largest is taken to be 1."""

    given: Numbers
    low: Numbers
    high: Numbers

    @property
    def estimate(self) -> Numbers:
        return _relative(self.given)

    def least_evidence(self, parts: Numbers, enough: float) -> float:
        """The smallest ln E of two parts by any examination within the intervals, as far as it is above ``enough``.

        Found by descent: first along the way to the corner that explains most, then rank by rank.
        """
        least = _evidence(parts, self.estimate)
        if len(self.given) == 1:
            return least
        share = parts[:, 1:] / np.maximum(parts[:, 1:].sum(axis=1, keepdims=True), 1)
        rates = parts[:, 0] / np.maximum(parts.sum(axis=1), 1)
        more = (share[1] > share[0]) == (rates[1] > rates[0])  # ranks whose examination should be larger
        best = self.given
        for corner in (np.where(more, self.high, self.low), np.where(more, self.low, self.high)):
            tried, value = _least_between(parts, self.given, corner, enough)
            best, least = (tried, value) if value < least else (best, least)
        for rank in (*range(len(best)), *range(len(best))):
            if least <= enough:
                break
            ends = [best.copy(), best.copy()]
            ends[0][rank], ends[1][rank] = self.low[rank], self.high[rank]
            tried, value = _least_between(parts, ends[0], ends[1], enough)
            best, least = (tried, value) if value < least else (best, least)
        return least


def _least_between(parts: Numbers, begin: Numbers, end: Numbers, enough: float) -> tuple[Numbers, float]:
    """The examination between two, on a logarithmic scale, with the smallest ln E, and that."""

    def at(x: float) -> tuple[Numbers, float]:
        e = begin * (end / begin) ** x
        return e, _evidence(parts, _relative(e))

    places = np.linspace(0, 1, 13)
    values = [at(x)[1] for x in places]
    low, high = places[max(int(np.argmin(values)) - 1, 0)], places[min(int(np.argmin(values)) + 1, 12)]
    found = at(places[int(np.argmin(values))])
    for _ in range(14):  # thirds: the interval shrinks to 1/300
        if found[1] <= enough:
            break
        first, second = low + (high - low) / 3, high - (high - low) / 3
        tried = at(first), at(second)
        found = min(found, *tried, key=lambda f: f[1])
        low, high = (low, second) if tried[0][1] < tried[1][1] else (first, high)
    return found


def _relative(e: Numbers) -> Numbers:
    relative: Numbers = e / e.max()
    return relative
