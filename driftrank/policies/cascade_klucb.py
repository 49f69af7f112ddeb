"""CascadeKLUCB: the stationary cascading bandit with KL confidence bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import entropy, exploration_level, kl_ucb_given
from driftrank.kernels.top import arrange, insert, listed, lot, offer
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import IndexPolicy
from driftrank.policies.cascade_ucb1 import INITIAL, check_initial, in_first_position
from driftrank.validation import check_number


@kernel
def _index(p, s, e, c, a, q):
    if p.initial and e.t <= p.L:
        return in_first_position(e, c, a)
    if s.N[a] == 0.0:
        return np.inf
    return kl_ucb_given(s.mean[a], q / s.N[a], s.entropy[a])


class CascadeKLUCB(IndexPolicy):
    r"""KL-UCB for the cascade model (Kveton, Szepesvári, Wen and Ashkan, 2015); the strongest baseline of the paper.

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln t + c \ln\ln t\}

    Parameters
    ----------
    c
        3 as in the papers; 0 is what many implementations run, and explores less.
    initial
        ``"inf"``: items never observed come first; ``"first_position"``: in the first L steps item t is shown on top,
        the rest shuffled.

    Notes
    -----
    Guarantee, in a stationary world: regret of order :math:`\sum_a
    \frac{(1+\epsilon)\Delta_a(1+\ln(1/\Delta_a))}{\mathrm{kl}(\alpha_a, \alpha_K)} \ln n`. State: 4 L floats.

    A bound is inverted only for items that can be among the K best, which :math:`\mathrm{kl}(\bar\alpha, \theta)`
    against the K-th best bound so far :math:`\theta` tells without a logarithm; the items of the last list are visited
    first, so mostly K inversions are needed.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeKLUCB(c=0).start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[0])
    >>> learner.rank()
    ['b']
    """

    choices = {**IndexPolicy.choices, "initial": INITIAL}

    c: float = 3.0
    initial: str = "inf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("c", self.c, 0)
        check_initial(self)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field("L"),
            "X": field("L"),
            "mean": field("L"),
            "entropy": field("L"),  # of the mean
        }

    @staticmethod
    @kernel
    def level(p, s, e):
        return exploration_level(e.t, p.c)

    index = staticmethod(_index)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        q = exploration_level(e.t, p.c)
        K = r.items.shape[0]
        for i in range(K):  # the list that r holds is a guess at the new one
            insert(r, 0, i, K, _index(p, s, e, c, r.items[i], q), r.items[i], e, c, p.ties)
        last_lot = lot(r.items[K - 1], e.key, c, p.ties)
        theta = -1.0
        log_theta = 0.0
        log_rest = 0.0
        for j in range(c.items.shape[0]):
            a = c.items[j]
            mean = s.mean[a]
            worst = r.score[K - 1]
            if s.N[a] > 0.0 and (e.t > p.L or not p.initial):
                if worst == np.inf:
                    continue  # the list is full of items never observed
                if worst != theta:
                    theta = worst
                    log_theta = log(theta)
                    log_rest = log(1.0 - theta)
                # N kl(mean, theta) above the level: the bound of a is below theta (by more than rounding can hide)
                if mean < theta < 0.999999999 and s.N[a] * (
                    s.entropy[a] - mean * log_theta - (1.0 - mean) * log_rest
                ) > q * (1.0 + 1e-6):
                    continue
                if listed(r, a):
                    continue
            last_lot = offer(r, _index(p, s, e, c, a, q), a, last_lot, e, c, p.ties)
        arrange(r, p.order)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            s.N[a] += 1.0
            if clicks[i]:
                s.X[a] += 1.0
            s.mean[a] = s.X[a] / s.N[a]
            s.entropy[a] = entropy(s.mean[a])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0
        s.mean[a] = 0.0
        s.entropy[a] = 0.0
