"""CascadeKLUCB: the stationary cascading bandit with KL confidence bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftrank.kernels import kernel
from driftrank.kernels.kl import exploration_level
from driftrank.kernels.layout import Field, field
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.kl_ucb import kl_fields, kl_index, rank_by_kl, refresh_kl
from driftrank.policies.stationary.cascade_ucb1 import INITIAL, check_initial, in_first_position
from driftrank.validation import check_number


@kernel
def _index(p, s, e, c, a, q):
    if p.initial and e.t <= p.L:
        return in_first_position(e, c, a)
    return kl_index(p, s, e, c, a, q)


@kernel
def _bounded(p, e):
    return e.t > p.L or not p.initial


class CascadeKLUCB(IndexPolicy):
    r"""KL-UCB for the cascade model (Kveton, Szepesvári, Wen and Ashkan, 2015); the strongest baseline of the paper.

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln t + c \ln\ln t\}

    Parameters
    ----------
    c
        3 as in the papers; 0 as in many implementations, which explores less.
    initial
        ``"inf"``: items never observed come first; ``"first_position"``: in the first L steps item t is shown on top,
        the rest shuffled.

    Notes
    -----
    Guarantee, in a stationary world: regret of order :math:`\sum_a
    \frac{(1+\epsilon)\Delta_a(1+\ln(1/\Delta_a))}{\mathrm{kl}(\alpha_a, \alpha_K)} \ln n`. State: 4 L floats.

    A bound is inverted only for items that can be among the K best. Comparing :math:`\mathrm{kl}(\bar\alpha, \theta)`
    with the K-th best bound so far, :math:`\theta`, decides that without a logarithm; the items of the last list are
    visited first, so usually K inversions suffice.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeKLUCB(c=0).start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[0])
    >>> learner.rank()
    ['b']
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "initial": INITIAL}

    c: float = 3.0
    initial: str = "inf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("c", self.c, 0)
        check_initial(self)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"N": field("L"), "X": field("L"), **kl_fields()}

    @staticmethod
    @kernel
    def level(p, s, e):
        return exploration_level(e.t, p.c)

    index = staticmethod(_index)
    rank = staticmethod(rank_by_kl(level.__func__, _index, _bounded))

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            s.N[a] += 1.0
            if clicks[i]:
                s.X[a] += 1.0
            refresh_kl(p, s, a)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0
        refresh_kl(p, s, a)

    believe = staticmethod(believe_counts)
