"""RankedUCB1: UCB1 for every position."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.kernels.top_k import wins_tie
from driftrank.policies.ranked.base import RankedBandits, believe_on_top, count_fields, forget_by
from driftrank.validation import check_number


@kernel
def _refresh(p, s, j):
    """Update mean and radius after the counts of arm ``j`` change."""
    if s.N[j] > 0.0:
        s.mean[j] = s.X[j] / s.N[j]
        s.radius[j] = 1.0 / np.sqrt(s.N[j])
    else:
        s.mean[j] = np.inf
        s.radius[j] = 0.0


class RankedUCB1(RankedBandits):
    r"""Ranked bandits with UCB1 at every position (Radlinski, Kleinberg and Joachims, 2008).

    The bandit of a position proposes the item with the largest

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{c \ln t}{N(a)}},

    with N(a) the number of its proposals of a, and X(a) those shown and clicked.

    Parameters
    ----------
    exploration
        The constant c: 0.51 as in the experiments of the paper's authors, 2 in Auer, Cesa-Bianchi and Fischer (2002).
    ties
        Tie-breaking between equal indices: ``"random"``, or the smaller slot (``"index"``).

    Notes
    -----
    No guarantee is claimed: the rewards of a position depend on the items above it, so they are not stationary until
    the positions above have converged. Items that a position never proposed come first there. ``scores`` are the
    indices of the top position. Every position learns at every step, also below a click (feedback ``"all"``).

    State: 4 K L floats. A step costs O(K L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.RankedUCB1().start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[1])
    >>> learner.rank()
    ['b']
    """

    optimistic: ClassVar[bool] = True

    exploration: float = 0.51
    ties: str = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("exploration", self.exploration, 0)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return count_fields() | {"mean": field("K", "L", fill=math.inf), "radius": field("K", "L")}

    @staticmethod
    @kernel
    def level(p, s, e):
        return np.sqrt(p.exploration * log(np.float64(e.t)))

    @staticmethod
    @kernel
    def propose(p, s, e, c, i, key, q):
        row = np.uintp(i * p.L)
        b = c.items[0]
        best = -np.inf
        for j in range(c.items.shape[0]):
            a = c.items[j]
            u = s.mean[row + a] + q * s.radius[row + a]
            if u > best or (u == best and wins_tie(a, b, key, c, p.ties)):
                best = u
                b = a
        return b, 1.0

    @staticmethod
    @kernel
    def learn(p, s, e, i, b, reward, probability):
        j = i * p.L + b
        s.N[j] += 1.0
        s.X[j] += reward
        _refresh(p, s, j)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        q = np.sqrt(p.exploration * log(np.float64(e.t)))
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = s.mean[a] + q * s.radius[a]

    believe = staticmethod(believe_on_top)
    forget = staticmethod(forget_by(_refresh))
