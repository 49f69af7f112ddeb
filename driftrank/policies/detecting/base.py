"""The base class of policies that detect changes: base policy, detector, forced exploration, restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field
from driftrank.kernels.structures import Event
from driftrank.policies.alarms import alarm, alarm_fields, alarmed, raise_alarm
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.detecting.detectors import Detector, DetectorPlan
from driftrank.policies.detecting.forced_exploration import (
    SCHEDULES,
    forced_advance,
    forced_fields,
    forced_item,
    forced_restart,
    put_on_top,
)
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.item_order import order_by_token, stand_last
from driftrank.policies.policy_kernels import PolicyKernels, believe_nothing
from driftrank.validation import check_integer, check_number

#: the items that an alarm resets: all of them, or the one that has changed
RESTART = ("global", "local")
_GLOBAL = 0
_COUNT, _STEP = 0, 1


class ChangeDetection(IndexPolicy):
    r"""A stationary policy with a detector of changes that restarts it.

    Every item's labels, from observed positions, go to a detector of its own. When one fires, all items
    (``restart="global"``) or the item (``"local"``) become items never seen. Forced exploration
    (:mod:`driftrank.policies.detecting.forced_exploration`) reveals changes of items that are otherwise not shown.

    A subclass makes the policy that ranks, :meth:`make_base`, and the detector, :meth:`make_detector`, from its own
    parameters. A restart resets the clock of the base policy too.

    State: that of the base and of the detector, L integers, and 135 numbers.
    """

    abstract: ClassVar[bool] = True
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    optimistic: ClassVar[bool] = True
    choices = {**IndexPolicy.choices, "schedule": SCHEDULES, "restart": RESTART}

    explore: float | str = "auto"
    schedule: str = "auto"
    restart: str = "global"
    n_breakpoints: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.explore != "auto":
            most = np.inf if self.schedule == "diminishing" else 1.0
            check_number('explore ("auto" or a number)', self.explore, 0, most)
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        self.make_base()
        self.make_detector()

    def make_base(self) -> Policy:
        """The policy that ranks."""
        raise NotImplementedError(f"{type(self).__name__} does not define make_base, the policy that ranks")

    def make_detector(self) -> Detector:
        """The detector of changes."""
        raise NotImplementedError(f"{type(self).__name__} does not define make_detector, the detector of changes")

    def shared(self, *names: str) -> dict[str, Any]:
        """The parameters that the base policy takes over: these, and those that all policies have."""
        own = {item.name for item in dataclasses.fields(self)}
        return {name: getattr(self, name) for name in ("ties", "feedback", "order", *names) if name in own}

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.make_base().memo

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        plan = DetectorPlan(problem.L, problem.horizon)
        detector = self.make_detector()
        schedule = self.schedule
        if schedule == "auto":
            schedule = "diminishing" if problem.horizon is None and self.explore == "auto" else "constant"
        anytime = False
        if not isinstance(self.explore, str):
            explore = float(self.explore)
        elif schedule == "diminishing":
            explore = 1.0
        elif problem.horizon is None:
            explore, anytime = 1.0, True
        else:
            explore = detector.exploration(plan, self.n_breakpoints)
        return (
            self.make_base().parameters(problem)
            | detector.numbers(plan)
            | {
                "explore": explore,
                "explore_anytime": int(anytime),
                "schedule": SCHEDULES.index(schedule),
                "restart": RESTART.index(self.restart),
                "n_breakpoints": self.n_breakpoints,
            }
        )

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        own = {"restarts": field(2)}  # their number, and the step of the last global one
        return self.make_base().fields(p) | self.make_detector().fields() | forced_fields() | own | alarm_fields()

    def scratch(self, p: Mapping[str, Any]) -> int:
        return self.make_base().scratch(p)

    def kernels(self) -> PolicyKernels:
        detector = self.make_detector()
        return _restarted(self.make_base().kernels(), detector.observe, detector.clear)


@kernel
def _shifted(s, e, steps):
    """The event for the base policy, whose steps count from the last global restart."""
    return Event(e.t - steps - np.int64(s.restarts[_STEP]), e.now, e.key)


@cache
def _restarted(base: PolicyKernels, observe: Any, clear: Any) -> PolicyKernels:
    """The kernels of a base policy that the detector restarts."""
    base_init, base_rank, base_update = base.init, base.rank, base.update
    base_scores, base_forget, base_believe = base.scores, base.forget, base.believe

    @kernel
    def init(p, s, e, c):
        base_init(p, s, e, c)
        for a in range(p.L):
            clear(p, s, a)
        order_by_token(s.turn, c)
        forced_restart(p, s, 0, 0.0)

    @kernel
    def rank(p, s, e, c, r):
        shifted = _shifted(s, e, 0)
        base_rank(p, s, shifted, c, r)
        a = forced_item(p, s, e, c, shifted.t)
        if a >= 0:
            put_on_top(r, a, p.order)

    @kernel
    def update(p, s, e, r, clicks, observed):
        base_update(p, s, _shifted(s, e, 0), r, clicks, observed)
        for i in range(observed):
            a = r.items[i]
            if observe(p, s, e, a, clicks[i]):
                s.restarts[_COUNT] += 1.0
                raise_alarm(s, e, np.int64(a), p.restart == _GLOBAL)
                first, end = np.int64(a), np.int64(a) + 1
                if p.restart == _GLOBAL:
                    first, end = 0, p.L
                    s.restarts[_STEP] = e.t
                for b in range(first, end):
                    base_forget(p, s, _shifted(s, e, 0), b)
                    clear(p, s, b)
                if p.restart == _GLOBAL:
                    forced_restart(p, s, e.t, s.restarts[_COUNT])
                    return  # the observations further down are forgotten as well
        forced_advance(p, s, e.t, e.t - s.restarts[_STEP], s.restarts[_COUNT])

    @kernel
    def scores(p, s, e, c, out):
        base_scores(p, s, _shifted(s, e, 0), c, out)

    @kernel
    def forget(p, s, e, a):
        base_forget(p, s, _shifted(s, e, 1), a)  # its first step is the coming one
        clear(p, s, a)
        stand_last(s.turn, a)

    @kernel
    def believe(p, s, e, c, a):
        return base_believe(p, s, _shifted(s, e, 0), c, a)

    return base._replace(
        init=init,
        rank=rank,
        update=update,
        scores=scores,
        forget=forget,
        alarmed=alarmed,
        alarm=alarm,
        believe=believe_nothing if base_believe is believe_nothing else believe,
    )
