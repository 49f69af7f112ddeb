"""Index policies in which every item has a clock of its own that restarts with the item.

They are the base policies of those that detect changes. The logarithm of a single item's clock is computed only if the
item can be among the best: the shared clock is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import exploration_level, kl_ucb_given
from driftrank.kernels.layout import Field, field
from driftrank.kernels.top_k import arrange, insert, offer, tie_break
from driftrank.policies.base import RankingProblem
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.kl_ucb import kl_fields, rank_by_kl, refresh_kl
from driftrank.policies.indices.mean_plus_bonus import bonus_fields, bonus_index, refresh_bonus
from driftrank.validation import check_number

#: the unit of clocks: steps since the item's restart, or observations of all items since their restarts
CLOCK = ("steps", "pulls")
_PULLS = 1


@kernel
def _shared_time(p, s, e):
    """An upper bound of all items' clocks."""
    return max(s.pulls[0], 1.0) if p.clock == _PULLS else np.float64(e.t)


@kernel
def _own_time(p, s, e, a):
    return np.float64(e.t) - s.since[a]


@kernel
def _kl_level(p, s, e):
    return exploration_level(_shared_time(p, s, e), p.c)


@kernel
def _kl_index(p, s, e, c, a, q):
    if s.N[a] == 0.0:
        return np.inf
    if s.since[a] > 0.0 and p.clock != _PULLS:
        q = exploration_level(_own_time(p, s, e, a), p.c)
    return kl_ucb_given(s.mean[a], q / s.N[a], s.entropy[a])


@kernel
def _bonus_level(p, s, e):
    return np.sqrt(p.width * log(_shared_time(p, s, e)))


@kernel
def _bonus_index(p, s, e, c, a, q):
    if s.since[a] > 0.0 and p.clock != _PULLS:
        q = np.sqrt(p.width * log(_own_time(p, s, e, a)))
    return bonus_index(p, s, e, c, a, q)


@kernel
def _count(s, r, clicks, i):
    a = r.items[i]
    s.N[a] += 1.0
    s.pulls[0] += 1.0
    if clicks[i]:
        s.X[a] += 1.0


@kernel
def _wipe(s, e, a):
    s.pulls[0] -= s.N[a]
    s.N[a] = 0.0
    s.X[a] = 0.0
    s.since[a] = e.t


class RestartableItems(IndexPolicy):
    """Counts, and the step before each item's first; ``forget`` at event e makes the item start at step e.t + 1."""

    abstract: ClassVar[bool] = True  # as its subclasses: a part of other policies, not offered by name
    optimistic = True
    choices = {**IndexPolicy.choices, "clock": CLOCK}

    clock: str = "steps"

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"N": field("L"), "X": field("L"), "since": field("L"), "pulls": field(1)}

    believe = staticmethod(believe_counts)


class RestartableKLUCB(RestartableItems):
    """U(a) = max{u: N(a) kl(X(a)/N(a), u) <= f_c(t - tau(a))}. State: 5 L + 1 floats."""

    abstract: ClassVar[bool] = True

    c: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("c", self.c, 0)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | kl_fields()

    level = staticmethod(_kl_level)
    index = staticmethod(_kl_index)
    rank = staticmethod(rank_by_kl(_kl_level, _kl_index))

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            _count(s, r, clicks, i)
            refresh_kl(p, s, r.items[i])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        _wipe(s, e, a)
        refresh_kl(p, s, a)


class RestartableUCB1(RestartableItems):
    """U(a) = X(a)/N(a) + sqrt(width ln(t - tau(a)) / N(a)). State: 5 L + 1 floats."""

    abstract: ClassVar[bool] = True

    width: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("width", self.width, 0)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | {"unseen_index": math.inf}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | bonus_fields()

    level = staticmethod(_bonus_level)
    index = staticmethod(_bonus_index)

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            refresh_bonus(p, s, a)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        q = _bonus_level(p, s, e)
        K = r.items.shape[0]
        for i in range(K):  # the list that r holds is a guess at the new one
            insert(r, 0, i, K, _bonus_index(p, s, e, c, r.items[i], q), r.items[i], e, c, p.ties)
        last = r.score[K - 1]
        reach = 0
        for j in range(c.items.shape[0]):  # with the shared clock, an index is an upper bound
            reach += bonus_index(p, s, e, c, c.items[j], q) >= last
        if reach > K:
            last_tie = tie_break(r.items[K - 1], e.key, c, p.ties)
            for j in range(c.items.shape[0]):
                a = c.items[j]
                if bonus_index(p, s, e, c, a, q) >= r.score[K - 1]:
                    last_tie = offer(r, _bonus_index(p, s, e, c, a, q), a, last_tie, e, c, p.ties)
        arrange(r, p.order)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            _count(s, r, clicks, i)
            refresh_bonus(p, s, r.items[i])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        _wipe(s, e, a)
        refresh_bonus(p, s, a)
