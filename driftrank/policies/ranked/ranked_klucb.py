"""RankedKLUCB: KL-UCB for every position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import exploration_level, kl_ucb_given
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.top_k import wins_tie
from driftrank.policies.indices.kl_ucb import refresh_kl
from driftrank.policies.ranked.base import RankedBandits, believe_on_top, count_fields, forget_by
from driftrank.validation import check_number


class RankedKLUCB(RankedBandits):
    r"""Ranked bandits with KL-UCB at every position (Radlinski, Kleinberg and Joachims, 2008, with the bandit of
    Garivier and Cappé, 2011).

    The bandit of a position proposes the item with the largest

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln t + c \ln\ln t\},

    with N(a) the number of its proposals of a, and X(a) those shown and clicked.

    Parameters
    ----------
    c
        0 works best; the theory of KL-UCB requires 3.
    ties
        Tie-breaking between equal indices: ``"random"``, or the smaller slot (``"index"``).

    Notes
    -----
    No guarantee is claimed, as for :class:`RankedUCB1`. Items that a position never proposed come first there.
    ``scores`` are the indices of the top position. Every position learns at every step, also below a click (feedback
    ``"all"``).

    State: 4 K L floats and K integers. A step costs O(K L); a bound is inverted only for items that can be the best of
    their position.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.RankedKLUCB().start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[1])
    >>> learner.rank()
    ['b']
    """

    optimistic: ClassVar[bool] = True

    c: float = 0.0
    ties: str = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("c", self.c, 0)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return count_fields() | {
            "mean": field("K", "L"),
            "entropy": field("K", "L"),  # of the mean
            "latest": integers("K", fill=-1),  # the proposal last learnt from: only a guess at the next one
        }

    @staticmethod
    @kernel
    def level(p, s, e):
        return exploration_level(e.t, p.c)

    @staticmethod
    @kernel
    def propose(p, s, e, c, i, key, q):
        row = i * p.L
        n = c.items.shape[0]
        b = np.int64(-1)
        best = -np.inf
        log_best = 0.0
        log_rest = 0.0
        first = np.int64(s.latest[i])
        if n < p.L:
            first = -1  # it may not be a candidate
        for j in range(-1, n):
            if j < 0:
                a = first
                if a < 0:
                    continue
            else:
                a = np.int64(c.items[j])
                if a == first:
                    continue
            N = s.N[row + a]
            u = np.inf
            if N > 0.0:
                if best == np.inf:
                    continue
                mean = s.mean[row + a]
                # N kl(mean, best) above the level: the bound of a is below the best (by more than rounding can hide)
                if mean < best < 0.999999 and N * (
                    s.entropy[row + a] - mean * log_best - (1.0 - mean) * log_rest
                ) > q * (1.0 + 1e-9):
                    continue
                u = kl_ucb_given(mean, q / N, s.entropy[row + a])
            if b < 0 or u > best or (u == best and wins_tie(a, b, key, c, p.ties)):
                b = a
                if u != best:
                    best = u
                    if best < 1.0:
                        log_best = log(best)
                        log_rest = log(1.0 - best)
        return b, 1.0

    @staticmethod
    @kernel
    def learn(p, s, e, i, b, reward, probability):
        j = i * p.L + b
        s.N[j] += 1.0
        s.X[j] += reward
        refresh_kl(p, s, j)
        s.latest[i] = b

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        q = exploration_level(e.t, p.c)
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = np.inf
            if s.N[a] > 0.0:
                out[j] = kl_ucb_given(s.mean[a], q / s.N[a], s.entropy[a])

    believe = staticmethod(believe_on_top)
    forget = staticmethod(forget_by(refresh_kl))
