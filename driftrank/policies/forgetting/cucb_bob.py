"""CUCBBoB: combinatorial UCB with a window chosen by a second bandit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import SECOND_SET, derive, uniform
from driftrank.policies.base import RankingProblem
from driftrank.policies.estimates import believe_counts
from driftrank.policies.forgetting.cucb_sw import cucb_index, cucb_level, cucb_parameters
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.exp3p import exp3p_draw, exp3p_learn
from driftrank.policies.indices.mean_plus_bonus import bonus_fields, refresh_bonus
from driftrank.policies.memory.windowed import forget_by, move_ring, push_by, ring_fields, wipe_by
from driftrank.validation import check_integer, check_number

_push = push_by(refresh_bonus)
_wipe = wipe_by(refresh_bonus)


@kernel
def _block_length(L, K, n):
    return np.ceil(np.sqrt(L * K * n))


@kernel
def _windows(length):
    """The number of powers of two up to the length of a block."""
    count = 1
    w = 2.0
    while w <= length:
        w *= 2.0
        count += 1
    return count


@kernel
def _blocks(s):
    return np.ceil(s.assumed[0] / s.length[0])


@kernel
def _plan(p, s, n):
    """Reset the master for a horizon n."""
    s.assumed[0] = n
    s.length[0] = _block_length(p.L, p.K, n)
    s.windows[0] = _windows(s.length[0])
    for i in range(s.gain.shape[0]):
        s.gain[i] = 0.0


@kernel
def _start_block(p, s, key):
    """Let the master draw a window, and reset the statistics of items."""
    s.arm[0] = exp3p_draw(s.gain, s.windows[0], _blocks(s), uniform(key))
    w = 1.0
    for _ in range(s.arm[0]):
        w *= 2.0
    s.window[0] = w
    s.done[0] = 0.0
    s.clicks[0] = 0.0
    _wipe(p, s)


class CUCBBoB(IndexPolicy):
    r"""Combinatorial UCB with its window chosen by another bandit (Chen, Wang, Zhao and Zheng, 2021), for cascades.

    Time is divided into blocks of :math:`B = \lceil\sqrt{LKn}\rceil` steps. In every block a fresh :class:`CUCBSW`
    runs, and a master bandit, EXP3.P, picks its window among :math:`2^0, 2^1, \dots \le B`. The master's reward is the
    fraction of the block's steps with a click.

    Parameters
    ----------
    exploration
        The constant under the root of the index, 1.5 in the paper.
    first_horizon
        If the horizon n is unknown, it is assumed to be this many steps, and doubled whenever they are over; then the
        master is reset.

    Notes
    -----
    Guarantee, for known n: regret :math:`\tilde O((LV)^{1/3} (Kn)^{2/3} + n^{3/4})` for any variation V, which need not
    be known. The constants are large: statistics are lost at the end of every block, and at n = 100,000 the master
    still picks windows almost at random.

    State, with J = :math:`\lfloor\log_2 B\rfloor + 1`: 4 L + J + 5 floats and :math:`2^{J-1}` K + 4 integers. A step
    costs O(L), a new block O(L + J).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CUCBBoB().start(items=["a", "b", "c"], k=1, seed=0, horizon=1000)
    >>> learner.update(["a"], clicks=[1])
    >>> sorted(learner.scores().values())  # at most 1, and items never seen come first
    [1.0, inf, inf]
    """

    optimistic = True
    claims: ClassVar[tuple[str, ...]] = ("abrupt",)  # not more: in short runs it is hardly better than random

    exploration: float = 1.5
    first_horizon: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("exploration", self.exploration, 0)
        check_integer("first_horizon", self.first_horizon, 1)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        n = problem.horizon or max(self.first_horizon, problem.capacity)
        J = pure(_windows)(pure(_block_length)(problem.L, problem.K, n))
        return (
            super().parameters(problem)
            | cucb_parameters(problem)
            | {
                "doubling": int(problem.horizon is None),
                "n": float(problem.horizon or self.first_horizon),
                "J": int(J),
                "ring_size": min(2 ** (int(J) - 1), problem.capacity),
                "timed": 0,
                "span": 0.0,
            }
        )

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field("L"),
            "X": field("L"),
            **bonus_fields(),
            "assumed": field(1),  # the horizon
            "length": field(1),  # of a block
            "window": field(1),  # of this block
            "done": field(1),  # steps of this block so far
            "clicks": field(1),  # steps of this block with a click
            "gain": field(p["J"]),  # of the master
            "windows": integers(1),  # the number of windows to draw from
            "arm": integers(1),  # the window drawn
            **ring_fields(p),
        }

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        move_ring(old, new)

    @staticmethod
    @kernel
    def init(p, s, e, c):
        _plan(p, s, p.n)
        _start_block(p, s, derive(e.key, SECOND_SET))

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        _push(p, s, e, r, clicks, observed)
        for i in range(r.items.shape[0]):
            if clicks[i]:
                s.clicks[0] += 1.0
                break
        s.done[0] += 1.0
        doubled = p.doubling and e.t + 1 >= 2.0 * s.assumed[0]
        if doubled:
            _plan(p, s, 2.0 * s.assumed[0])
        elif s.done[0] >= s.length[0]:
            exp3p_learn(s.gain, s.windows[0], _blocks(s), s.arm[0], s.clicks[0] / s.length[0])
        if doubled or s.done[0] >= s.length[0]:
            _start_block(p, s, derive(derive(e.key, SECOND_SET), e.t))

    level = staticmethod(cucb_level)
    index = staticmethod(cucb_index)
    forget = staticmethod(forget_by(refresh_bonus))
    believe = staticmethod(believe_counts)
