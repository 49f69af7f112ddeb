"""CascadeMASTER: a black-box reduction to instances of a stationary policy at all time scales."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import Event, kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.policies.alarms import alarm, alarm_fields, alarmed, raise_alarm
from driftrank.policies.base import RankingProblem
from driftrank.policies.detecting.master_schedule import (
    begin_instances,
    end_step,
    nested_fields,
    next_block,
    open_block,
)
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.kl_ucb import kl_index, refresh_kl
from driftrank.policies.indices.mean_plus_bonus import bonus_index, refresh_bonus
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from driftrank.validation import check_integer, check_number

#: the policies of the instances
BASES = ("ucb1", "klucb")


class CascadeMASTER(IndexPolicy):
    r"""The black box MASTER for the cascade model (Wei and Luo, 2021): follows change without prior knowledge of it.

    Time is cut into blocks of 1, 2, 4, ... steps. In a block of :math:`2^m` steps, for every order :math:`m' \le m`, a
    fresh instance of a stationary policy begins at each multiple of :math:`2^{m'}` with probability :math:`\rho(2^m) /
    \rho(2^{m'})`, :math:`\rho(t) = \sqrt{L/t} + L/t`, and lasts :math:`2^{m'}` steps. The shortest current instance
    ranks and learns; the others rest. With its optimistic value, from the bounds U of its list R,

    .. math:: \tilde f_t = 1 - \prod_{k=1}^K \bigl(1 - \min(1, U(R(k)))\bigr), \qquad
        \hat\rho(t) = 6\,(\log_2 n + 1) \ln(n/\delta)\, \rho(t),

    everything restarts, from a block of one step, when a test detects a change since the block began:

    1. an instance of order :math:`m'` ends, and its steps earned at least :math:`\min \tilde f + 9 \hat\rho(2^{m'})` on
       average: something became better;
    2. the t steps of the block so far earned on average :math:`3 \hat\rho(t)` less than :math:`\tilde f`: something
       became worse.

    Parameters
    ----------
    base
        The instances: ``"ucb1"`` (:class:`CascadeUCB1`) or ``"klucb"`` (:class:`CascadeKLUCB`).
    test_scale
        The factor of :math:`\hat\rho` in the tests. 1 is the paper's, with which no test can fail in
        practice: :math:`\hat\rho(t) > 1` for all t up to 100,000, and rewards are at most 1.
    delta
        :math:`\delta` in (0, 1); ``"auto"``: 1/n.
    c, width
        Of ``"klucb"``: c; of ``"ucb1"``: the constant under the root.
    first_horizon
        The horizon assumed at first if n is unknown; a block of order m uses :math:`2^{m+1}`, the steps since the last
        restart at its end, if that is more.

    Notes
    -----

    Guarantee, with ``test_scale=1``: dynamic regret of order :math:`\min(\sqrt{\Upsilon_n L n}, (L V)^{1/3} n^{2/3} +
    \sqrt{L n})` up to logarithms, without knowing :math:`\Upsilon_n` or V, for a base whose regret after t steps is
    :math:`t \rho(t)` up to a constant. At practical horizons this is vacuous, and only the blocks forget. With the
    default the tests do fail, after changes and also without, more often the wider the bounds of the base are. Every
    new instance observes all items again, which is expensive if L is large.

    A restart is an alarm without an item. Lists shorter than K do not count for :math:`\min \tilde f`.

    State: with :math:`M = \lfloor \log_2 n \rfloor`, 2 L (M + 2) + 2 M + 70 floats and M + 69 integers. A step costs
    O(L + M).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeMASTER().start(items=["a", "b", "c"], k=1, seed=0, horizon=10_000)
    >>> for t in range(1600):  # users turn away after 1200 steps
    ...     ranking = learner.rank()
    ...     learner.update(ranking, [int(ranking == ["a"] and t < 1200)])
    >>> learner.alarms
    [Alarm(step=1503, item=None, everything=True)]
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    optimistic: ClassVar[bool] = True
    choices = {**IndexPolicy.choices, "base": BASES}
    memo: ClassVar[int] = 1  # min(1, U)
    alarmed = staticmethod(alarmed)
    alarm = staticmethod(alarm)

    base: str = "klucb"
    test_scale: float = 1e-3
    delta: float | str = "auto"
    c: float = 0.0
    width: float = 1.5
    first_horizon: int = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("test_scale", self.test_scale, 0, open_low=True)
        if self.delta != "auto":
            check_number('delta ("auto" or a number)', self.delta, 0, 1, open_low=True, open_high=True)
        check_number("c", self.c, 0)
        check_number("width", self.width, 0)
        check_integer("first_horizon", self.first_horizon, 2)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        numbers = super().parameters(problem)
        numbers.pop("delta", None)
        n = problem.horizon or problem.capacity
        return numbers | {
            "orders": n.bit_length(),  # 0 .. floor(log2 n)
            "planned": float(max(problem.horizon or self.first_horizon, 2)),
            "doubling": int(problem.horizon is None),
            "log_delta": 0.0 if isinstance(self.delta, str) else float(pure(log)(self.delta)),
            "exploration": self.width,
            "initial": 0,
            "unseen_index": math.inf,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field(p["orders"], "L"),
            "X": field(p["orders"], "L"),
            # of the active instance: what its index needs beside the counts
            "mean": field("L", fill=math.inf),
            "spread": field("L"),
            **nested_fields(p["orders"]),
            **alarm_fields(),
        }

    def kernels(self) -> PolicyKernels:
        return super().kernels()._replace(**_instance_kernels(self.base))

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        """The observations of all current instances."""
        N = 0.0
        X = 0.0
        for m in range(p.orders):
            if s.alive[m] and s.acted[m] > 0.0:
                N += s.N[m * p.L + a]
                X += s.X[m * p.L + a]
        return (X / N if N > 0.0 else np.nan), N


# the part of the state that an instance's kernels get
_UCB1 = namedtuple("_UCB1", "N X mean radius")
_KLUCB = namedtuple("_KLUCB", "N X mean entropy")
_INSTANCES = {
    "ucb1": (CascadeUCB1(), _UCB1, bonus_index, refresh_bonus),
    "klucb": (CascadeKLUCB(), _KLUCB, kl_index, refresh_kl),
}


@cache
def _instance_kernels(base: str) -> dict[str, Any]:
    """The kernels with instances of one kind."""
    policy, state, bound, refresh = _INSTANCES[base]
    rank_of, update_of, level_of = policy.kernels().rank, policy.update, policy.level

    @kernel
    def instance(p, s):
        begin = s.active[0] * p.L
        return state(s.N[begin : begin + p.L], s.X[begin : begin + p.L], s.mean, s.spread)

    @kernel
    def local(s, e):
        """The event on the instance's own clock."""
        return Event(np.int64(s.acted[s.active[0]]) + 1, e.now, e.key)

    @kernel
    def prepare_step(p, s, e):
        if begin_instances(p, s, e):
            own = instance(p, s)
            fresh = s.acted[s.active[0]] == 0.0
            for a in range(p.L):
                if fresh:
                    own.N[a] = 0.0
                    own.X[a] = 0.0
                refresh(p, own, a)

    @kernel
    def init(p, s, e, c):
        open_block(p, s, 0)
        prepare_step(p, s, e)

    @kernel
    def rank(p, s, e, c, r):
        rank_of(p, instance(p, s), local(s, e), c, r)
        for i in range(r.items.shape[0]):
            r.memo[i] = min(1.0, r.score[i])

    @kernel
    def update(p, s, e, r, clicks, observed):
        own = instance(p, s)
        now = local(s, e)
        lost = r.memo.shape[0] > 0 and r.memo[0] < 0.0
        q = level_of(p, own, now) if lost else 0.0
        miss = 1.0
        reward = 0.0
        for i in range(r.items.shape[0]):
            # if the memo is lost: the bound as it would be now
            miss *= 1.0 - (min(1.0, bound(p, own, now, r, r.items[i], q)) if lost else r.memo[i])
            if clicks[i]:
                reward = 1.0
        update_of(p, own, now, r, clicks, observed)
        failed = end_step(p, s, reward, 1.0 - miss, r.items.shape[0] == p.K)
        if failed:
            raise_alarm(s, e, -1, 1)
        next_block(p, s, failed)
        prepare_step(p, s, e)

    @kernel
    def scores(p, s, e, c, out):
        own = instance(p, s)
        now = local(s, e)
        q = level_of(p, own, now)
        for j in range(c.items.shape[0]):
            out[j] = bound(p, own, now, c, c.items[j], q)

    @kernel
    def forget(p, s, e, a):
        for j in range(a, s.N.shape[0], p.L):
            s.N[j] = 0.0
            s.X[j] = 0.0
        refresh(p, instance(p, s), a)

    return {"init": init, "rank": rank, "update": update, "scores": scores, "forget": forget}
