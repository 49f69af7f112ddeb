"""Ranked bandits: one bandit for every position."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import LARGEST_KEY, derive
from driftrank.policies.base import Policy
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import no_level
from driftrank.policies.policy_kernels import PolicyKernels


@kernel
def _nothing(p, s, e):
    pass


class RankedBandits(Policy):
    r"""K bandits with L arms each, one for every position (Radlinski, Kleinberg and Joachims, 2008).

    The bandit of position i proposes :math:`b_i`. If that item is already shown above, it is replaced by one drawn
    uniformly from those not shown yet. The reward of bandit i is 1 if its own proposal was shown and clicked, otherwise
    0, and it learns this about :math:`b_i` at every step, also below a click.

    A subclass defines the bandit by three kernels, where ``i`` is a position, from 0:

    * ``level(p, s, e)``: computed once per step and passed to ``propose`` as ``q``;
    * ``propose(p, s, e, c, i, key, q)``: the proposed slot, one of the candidates, and its probability; ``key`` is the
      randomness;
    * ``learn(p, s, e, i, b, reward, probability)``: learn that proposal ``b`` earned ``reward``; the probability is -1
      if it is lost.

    A fourth, ``finish(p, s, e)``, is called once per step, after all positions have learnt.
    """

    abstract: ClassVar[bool] = True
    memo: ClassVar[int] = 2  # the proposal and its probability
    own_lists: ClassVar[bool] = True

    level: ClassVar[Any] = staticmethod(no_level)
    finish: ClassVar[Any] = staticmethod(_nothing)
    propose: ClassVar[Any]
    learn: ClassVar[Any]

    def kernels(self) -> PolicyKernels:
        rank, update = _rank_by(self.level, self.propose), _update_by(self.learn, self.finish)
        return super().kernels()._replace(rank=rank, update=update)


@cache
def _rank_by(level: Any, propose: Any) -> Any:
    @kernel
    def rank(p, s, e, c, r):
        q = level(p, s, e)
        for i in range(r.items.shape[0]):
            b, probability = propose(p, s, e, c, i, derive(e.key, 2 * i), q)
            r.memo[2 * i] = b
            r.memo[2 * i + 1] = probability
            r.score[i] = probability
            r.items[i] = b
            if _stands_above(r, i, b):
                r.items[i] = _replacement(c, r, i, derive(e.key, 2 * i + 1))

    return rank


@cache
def _update_by(learn: Any, finish: Any) -> Any:
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(r.items.shape[0]):
            shown = np.int64(r.items[i])
            b = np.int64(r.memo[2 * i])
            probability = r.memo[2 * i + 1]
            if b < 0:  # lost: assume that it was shown
                b = shown
                probability = -1.0
            learn(p, s, e, i, b, 1.0 if clicks[i] and b == shown else 0.0, probability)
        finish(p, s, e)

    return update


def count_fields() -> dict[str, Field]:
    """Proposals N and rewards X of every arm: 2 K L floats."""
    return {"N": field("K", "L"), "X": field("K", "L")}


@kernel
def believe_on_top(p, s, e, c, a):
    """Estimate from proposals at the top, which is always examined: rewards further down depend on the items above."""
    return believe_counts(p, s, e, c, a)


@cache
def forget_by(refresh: Any) -> Any:
    """The kernel ``forget`` of bandits that count; ``refresh(p, s, j)`` is called when the counts of arm ``j``
    change."""

    @kernel
    def forget(p, s, e, a):
        for i in range(p.K):
            s.N[i * p.L + a] = 0.0
            s.X[i * p.L + a] = 0.0
            refresh(p, s, i * p.L + a)

    return forget


@kernel
def _stands_above(r, i, a):
    for j in range(i):
        if r.items[j] == a:
            return True
    return False


@kernel
def _replacement(c, r, i, key):
    """A candidate drawn uniformly from those not among the first ``i`` of the list."""
    chosen = c.items[0]
    least = LARGEST_KEY
    for j in range(c.items.shape[0]):
        a = c.items[j]
        shown = False
        for n in range(i):
            shown |= r.items[n] == a
        # selected without a branch, which could not be predicted
        u = LARGEST_KEY if shown else derive(key, c.token[a])
        better = u < least
        chosen = a if better else chosen
        least = u if better else least
    return chosen
