"""The skeleton of policies that detect changes: base x detector x forced exploration x restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.structures import Event
from driftrank.kernels.tuples import Field, field
from driftrank.policies.alarms import alarm, alarm_fields, alarmed, raise_alarm
from driftrank.policies.base import IndexPolicy, Kernels, Policy, Problem
from driftrank.policies.detectors import Detector, Plan
from driftrank.policies.forced import (
    SCHEDULES,
    forced_advance,
    forced_fields,
    forced_item,
    forced_restart,
    put_on_top,
)
from driftrank.policies.turns import order_by_token, stand_last
from driftrank.validation import check_integer, check_number

#: what an alarm starts anew: all items, or the one that has changed
RESTART = ("global", "local")
_GLOBAL = 0
_COUNT, _STEP = 0, 1


class ChangeDetection(IndexPolicy):
    r"""Any stationary policy, watched by a detector of changes, which starts it anew.

    Every item's labels, from the positions that were looked at, go to a detector of its own. When one fires, all items
    (``restart="global"``) or the item (``"local"``) are worth what items never seen are worth. Forced exploration
    (:mod:`driftrank.policies.forced`) sees to it that changes of items that are not shown are noticed as well.

    A subclass says which policy ranks, :meth:`_base`, and which detector watches, :meth:`_detector`; both are made from
    its own parameters. The base policy's clock starts anew with it.

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
        self._base()
        self._detector()

    def _base(self) -> Policy:
        """The policy that ranks."""
        raise NotImplementedError(f"{type(self).__name__} does not say which policy ranks")

    def _detector(self) -> Detector:
        """The detector that watches."""
        raise NotImplementedError(f"{type(self).__name__} does not say which detector watches")

    def _shared(self, *names: str) -> dict[str, Any]:
        """The parameters that the base policy takes over: these, and what all policies have."""
        own = {item.name for item in dataclasses.fields(self)}
        return {name: getattr(self, name) for name in ("ties", "feedback", "order", *names) if name in own}

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self._base().memo

    def parameters(self, problem: Problem) -> dict[str, float]:
        plan = Plan(problem.L, problem.horizon)
        detector = self._detector()
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
            self._base().parameters(problem)
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
        own = {"restarts": field(2)}  # how many, and the step of the last one that concerned everything
        return self._base().fields(p) | self._detector().fields() | forced_fields() | own | alarm_fields()

    def scratch(self, p: Mapping[str, Any]) -> int:
        return self._base().scratch(p)

    def kernels(self) -> Kernels:
        detector = self._detector()
        return _kernels(self._base().kernels(), detector.observe, detector.clear)


@kernel
def _shifted(s, e, steps):
    """The event as the base policy sees it: its steps count from the last restart of everything."""
    return Event(e.t - steps - np.int64(s.restarts[_STEP]), e.now, e.key)


@cache
def _kernels(base: Kernels, observe: Any, clear: Any) -> Kernels:
    """The kernels of a policy that detects changes, one set for every pair of base and detector."""
    base_init, base_rank, base_update = base.init, base.rank, base.update
    base_scores, base_forget = base.scores, base.forget

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
                    return  # what was seen further down is forgotten as well
        forced_advance(p, s, e.t, e.t - s.restarts[_STEP], s.restarts[_COUNT])

    @kernel
    def scores(p, s, e, c, out):
        base_scores(p, s, _shifted(s, e, 0), c, out)

    @kernel
    def forget(p, s, e, a):
        base_forget(p, s, _shifted(s, e, 1), a)  # its first step is the coming one
        clear(p, s, a)
        stand_last(s.turn, a)

    return Kernels(init, rank, update, scores, forget, base.told, alarmed, alarm)
