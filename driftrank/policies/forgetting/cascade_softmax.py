"""CascadeSoftmax: random lists with known probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.distributions import inner_uniform
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import derive
from driftrank.kernels.top_k import insert
from driftrank.policies.base import RankingProblem
from driftrank.policies.memory.counts import PER_ITEM, no_refresh
from driftrank.policies.memory.discounted import Discounted, discounted_update
from driftrank.validation import check_number

#: where the scores come from: discounted means, or the gradient of the reward
LEARNING = ("boltzmann", "reinforce")
_BOLTZMANN = 0
#: "auto": means differ by less than 1; scores of a gradient are scaled for 1
_TEMPERATURES = {"boltzmann": 0.05, "reinforce": 1.0}
#: below this, weights of means would underflow
_COLDEST = 0.002
#: the smallest weight relative to the largest
_SMALLEST = 1e-300


@kernel
def _weight(p, s, a):
    return max(exp((s.h[a] - s.top[0]) * p.inverse), _SMALLEST)


@kernel
def _refresh(p, s, a):
    """Update the score h(a) if it is a mean."""
    if p.learning == _BOLTZMANN:
        s.h[a] = s.X[a] / s.N[a] if s.N[a] > 0.0 else 1.0
        s.weight[a] = exp((s.h[a] - 1.0) * p.inverse)
    elif s.N[a] == 0.0:
        s.h[a] = 0.0
        s.weight[a] = _weight(p, s, a)


_count = discounted_update(_refresh, no_refresh, *PER_ITEM[1:])


class CascadeSoftmax(Discounted):
    r"""A Plackett-Luce policy: every list has a positive, known probability. A heuristic.

    Positions are filled from the top, each with an item not shown above it, with probability

    .. math:: \pi_i(a) = \frac{\exp(h(a)/T)}{\sum_b \exp(h(b)/T)} \quad (b \text{ not shown above } i),

    by showing the K largest :math:`h(a)/T + G(a)` with independent Gumbel numbers G. The scores h are discounted means
    :math:`X(a)/N(a)`, as in :class:`CascadeDUCB`, or follow the gradient of the reward (REINFORCE): with b the
    discounted mean of earlier rewards, summed over the observed positions i, which show :math:`a_i`,

    .. math:: h(a) \leftarrow h(a) + \eta\,(\text{reward} - b) \sum_i \bigl(\mathbf 1\{a = a_i\} - \pi_i(a)\bigr).

    The lists of ``rank`` carry :math:`\pi_i(a_i)` as ``propensities``, which allow evaluating another policy from a
    log; their product, ``propensity``, is the probability of the list.

    Parameters
    ----------
    learning
        ``"boltzmann"``: h are discounted means; ``"reinforce"``: h follow the gradient.
    temperature
        T, at least 0.002; ``"auto"``: 0.05 for means, 1 for the gradient.
    rate
        :math:`\eta`, used by ``"reinforce"``.
    discount, half_life, n_breakpoints, first_horizon, restart
        Forgetting of the means and of the baseline b: see :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is claimed. Exploration is set by T and never decreases, so regret grows linearly; an item whose mean
    is far below the others (by 20 T or more) is practically never shown again, even after a change. With
    ``"boltzmann"`` an item never observed has h = 1, with ``"reinforce"`` h = 0. The reward is 1 for a click and 0 for
    none. The gradient uses the present scores instead of those at the time of ranking, and treats all items as
    candidates. Weights are at least 1e-300 of the largest. ``scores`` are h.

    State: 4 L + K + 8 floats (one more with a half-life). A step costs O(L + K), with logarithms for items near the
    list only; ``"boltzmann"`` takes an exponential for every observed item, ``"reinforce"`` one for every item.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSoftmax(temperature=1.0).start(items=["a", "b", "c"], k=2, seed=0)
    >>> ranking = learner.rank()
    >>> [round(float(p), 3) for p in ranking.propensities], round(ranking.propensity, 3)
    ([0.333, 0.5], 0.167)
    """

    choices = {**Discounted.choices, "learning": LEARNING}
    memo: ClassVar[int] = 1  # the propensity
    propensities: ClassVar[bool] = True

    learning: str = "boltzmann"
    temperature: float | str = "auto"
    rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature != "auto":
            check_number('temperature ("auto" or a number)', self.temperature, _COLDEST)
        check_number("rate", self.rate, 0, open_low=True)
        if self.order == "increasing":
            raise ValueError(
                "order='increasing': must be 'decreasing', since propensities are those of lists filled from the top"
            )

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        numbers = super().parameters(problem)
        numbers.pop("temperature", None)
        T = _TEMPERATURES[self.learning] if isinstance(self.temperature, str) else self.temperature
        return numbers | {"inverse": 1.0 / T}

    def item_fields(self) -> dict[str, Field]:
        return {
            "h": field("L"),
            "weight": field("L"),  # exp((h - top) / T)
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        own = {
            "top": field(1),  # the largest score, if scores are not means
            "baseline": field(1),  # the discounted mean of the rewards
            "per_one": field("K"),  # 1 / the weight of the items left at a position
        }
        return super().fields(p) | own

    refresh = staticmethod(_refresh)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        # G = -ln E with an exponential number E: the largest h/T + G are the smallest E / weight
        K = r.items.shape[0]
        for i in range(K):
            a = c.items[i]
            insert(r, 0, i, K, log(inner_uniform(derive(e.key, c.token[a]))) / s.weight[a], a, e, c, p.ties)
        left = 0.0  # the weight of the items that are not shown
        for j in range(K, c.items.shape[0]):
            a = c.items[j]
            out = a
            u = inner_uniform(derive(e.key, c.token[a]))
            # E = -ln U >= 1 - U: most items are rejected without a logarithm
            if 1.0 - u < -r.score[K - 1] * s.weight[a] * 1.000001:
                last = r.items[K - 1]
                insert(r, 0, K, K, log(u) / s.weight[a], a, e, c, p.ties)
                if r.items[K - 1] != last:
                    out = last
            left += s.weight[out]
        for i in range(K - 1, -1, -1):  # upwards, so that nothing is subtracted
            left += s.weight[r.items[i]]
            r.memo[i] = s.weight[r.items[i]] / left

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        if p.learning != _BOLTZMANN:
            reward = 0.0
            for i in range(r.items.shape[0]):
                if clicks[i]:
                    reward = 1.0
            more = reward - s.baseline[0]
            if more != 0.0:
                _climb(p, s, r, observed, p.rate * more)
            _count(p, s, e, r, clicks, observed)
            # a discounted mean moves by 1 / (discounted number of steps) of the difference; that number is 0 after a
            # restart
            s.baseline[0] = s.baseline[0] + more / s.clock[0] if s.clock[0] > 0.0 else 0.0
        else:
            _count(p, s, e, r, clicks, observed)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = s.h[c.items[j]]


@kernel
def _climb(p, s, r, observed, step):
    """Move the scores along the gradient of the log-probability of the observed positions."""
    total = 0.0
    for i in range(observed):  # not among the items left
        s.per_one[i] = s.weight[r.items[i]]
        s.weight[r.items[i]] = 0.0
    for a in range(p.L):
        total += s.weight[a]
    for i in range(observed - 1, -1, -1):
        s.weight[r.items[i]] = s.per_one[i]
        total += s.per_one[i]
        s.per_one[i] = 1.0 / total
    sums = 0.0  # over the positions so far
    for i in range(observed):
        sums += s.per_one[i]
        a = r.items[i]
        s.h[a] += step * (1.0 - s.weight[a] * sums)
        s.weight[a] = 0.0
    top = -np.inf
    for a in range(p.L):
        s.h[a] -= step * (s.weight[a] * sums)
        top = max(top, s.h[a])
    s.top[0] = top
    for a in range(p.L):
        s.weight[a] = _weight(p, s, a)
