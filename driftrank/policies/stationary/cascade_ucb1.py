"""CascadeUCB1: the stationary cascading bandit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import derive, uniform
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy
from driftrank.validation import check_number

#: the first observation of every item
INITIAL = ("inf", "first_position")


def check_initial(policy: Any) -> None:
    """Reject ``first_position`` together with an increasing order, which puts the best item last."""
    if policy.initial == "first_position" and policy.order == "increasing":
        raise ValueError("order='increasing': cannot be combined with initial='first_position', which needs the top")


@kernel
def in_first_position(e, c, a):
    """The index in the first L steps: item t on top, the others shuffled."""
    return 1.0 if a == e.t - 1 else uniform(derive(e.key, c.token[a]))


class CascadeUCB1(IndexPolicy):
    r"""UCB1 for the cascade model (Kveton, Szepesvári, Wen and Ashkan, 2015).

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{1.5 \ln(t-1)}{N(a)}}

    Parameters
    ----------
    exploration
        The constant under the root, 1.5 in the paper.
    initial
        ``"inf"``: items never observed come first; ``"first_position"``: in the first L steps item t is shown on top,
        the rest shuffled.

    Notes
    -----
    Guarantee, in a stationary world: :math:`R(n) \le \sum_{a} \frac{12}{\Delta_a} \ln n + \frac{\pi^2}{3} L`. The
    paper assumes one free observation of each item. State: 4 L floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeUCB1().start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[1])
    >>> learner.rank()
    ['b']
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "initial": INITIAL}

    exploration: float = 1.5
    initial: str = "inf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("exploration", self.exploration, 0)
        check_initial(self)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"N": field("L"), "X": field("L"), "mean": field("L", fill=math.inf), "radius": field("L")}

    @staticmethod
    @kernel
    def level(p, s, e):
        return np.sqrt(p.exploration * log(max(e.t - 1.0, 1.0)))

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        if p.initial and e.t <= p.L:
            return in_first_position(e, c, a)
        return s.mean[a] + q * s.radius[a]

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            s.N[a] += 1.0
            if clicks[i]:
                s.X[a] += 1.0
            per_one = 1.0 / s.N[a]
            s.mean[a] = s.X[a] * per_one
            s.radius[a] = np.sqrt(per_one)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0
        s.mean[a] = np.inf
        s.radius[a] = 0.0

    believe = staticmethod(believe_counts)
