"""Ranked bandits: one bandit for every position."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.rng import derive
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import Policy
from driftrank.policies.beliefs import believe_counts

_MOST = np.uint64(2**64 - 1)


@kernel
def _no_level(p, s, e):
    return 0.0


@kernel
def _nothing(p, s, e):
    pass


class RankedBandits(Policy):
    r"""K bandits with L arms each, one for every position (Radlinski, Kleinberg and Joachims, 2008).

    The bandit of position i proposes :math:`b_i`. If that item stands higher up already, one drawn uniformly from those
    not shown yet takes the place. The reward of bandit i is 1 if its own proposal was shown and clicked, else 0, and it
    learns this of :math:`b_i` at every step, also below the click.

    A subclass plugs in the bandit with three kernels, in which ``i`` is a position, counted from 0:

    * ``level(p, s, e)``: computed once a step and handed to ``propose`` as ``q``;
    * ``propose(p, s, e, c, i, key, q)``: the proposed slot, one of the candidates, and the probability with which it
      is proposed; ``key`` is its randomness;
    * ``learn(p, s, e, i, b, reward, probability)``: proposal ``b`` earned ``reward``; the probability is -1 where it is
      not known any more.

    A fourth, ``finish(p, s, e)``, is called once a step, when all positions have learnt.
    """

    abstract: ClassVar[bool] = True
    memo: ClassVar[int] = 2  # the proposal and its probability

    level: ClassVar[Any] = staticmethod(_no_level)
    finish: ClassVar[Any] = staticmethod(_nothing)
    propose: ClassVar[Any]
    learn: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "propose") and hasattr(cls, "learn"):
            cls.rank = staticmethod(_rank_by(cls.level, cls.propose))
            cls.update = staticmethod(_update_by(cls.learn, cls.finish))


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


def _update_by(learn: Any, finish: Any) -> Any:
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(r.items.shape[0]):
            shown = np.int64(r.items[i])
            b = np.int64(r.memo[2 * i])
            probability = r.memo[2 * i + 1]
            if b < 0:  # lost: the best guess is that it was shown
                b = shown
                probability = -1.0
            learn(p, s, e, i, b, 1.0 if clicks[i] and b == shown else 0.0, probability)
        finish(p, s, e)

    return update


def count_fields() -> dict[str, Field]:
    """Proposals N and rewards X of every arm: 2 K L floats."""
    return {"N": field("K", "L"), "X": field("K", "L")}


@kernel
def believe_on_top(p, s, e, a):
    """Rewards of proposals at the top, where everybody looks: further down it depends on what stands above."""
    return believe_counts(p, s, e, a)


def forget_by(refresh: Any) -> Any:
    """The kernel ``forget`` of bandits that count; ``refresh(p, s, j)``: the counts of arm ``j`` have changed."""

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
    least = _MOST
    for j in range(c.items.shape[0]):
        a = c.items[j]
        shown = False
        for n in range(i):
            shown |= r.items[n] == a
        # selected, not branched to: which number is the least cannot be foreseen
        u = _MOST if shown else derive(key, c.token[a])
        better = u < least
        chosen = a if better else chosen
        least = u if better else least
    return chosen
