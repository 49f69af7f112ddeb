"""Forget by discounting: the statistics that discounted policies share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import IndexPolicy, Problem, provide
from driftrank.policies.beliefs import believe_counts
from driftrank.policies.counts import PER_ITEM, Counts
from driftrank.policies.durations import seconds
from driftrank.validation import check_integer, check_number

#: what the discounted time counts: steps as in the paper, or observations of all items as in Garivier and Moulines
CLOCK = ("steps", "pulls")
_PULLS = 1

#: the unit of the counts is brought back to 1 when it is larger than this
_LARGEST = 1e150
#: the logarithm of what idle time divides the past by, at most: nothing is left of it, and nothing overflows
_MOST = 345.0
_LN2 = 0.6931471805599453


@kernel
def discount_for(horizon, n_breakpoints):
    """gamma = 1 - (1/4) sqrt(Upsilon_n / n) (section 4.1); at least 1/2, as Theorem 1 asks."""
    return max(0.5, 1.0 - 0.25 * np.sqrt(n_breakpoints / horizon))


@kernel
def _no_rescaling(p, s, a):
    pass


class Discounted(IndexPolicy):
    r"""Policies whose index looks at discounted numbers of observations N and clicks X.

    A subclass writes ``index``, and ``level`` if it needs one, on top of the fields ``N`` and ``X``, which count in
    units of ``unit``, what an observation weighs now: the discounted numbers are N/unit and X/unit. So forgetting
    touches no item. :func:`present` gives the unit and the logarithm of the discounted time at the event. Further
    kernels may keep what the index needs of an item's counts:

    * ``refresh(p, s, a)``: the counts of item ``a`` have changed;
    * ``rescaled(p, s, a)``: N, X and the unit were divided by the same number.

    What is counted, of each item or by position as well, is up to ``counts``.
    """

    abstract: ClassVar[bool] = True
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt", "drift")

    #: gamma in (0, 1], or how to find it
    discount: float | str = "auto"
    #: the time in which the past loses half its weight, instead of a discount per step
    half_life: float | str | None = None
    n_breakpoints: int = 1
    first_horizon: int = 1
    restart: bool = False

    counts: ClassVar[Counts] = PER_ITEM
    refresh: ClassVar[Any]
    rescaled: ClassVar[Any] = staticmethod(_no_rescaling)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "refresh"):
            provide(cls, "init", _init_by(cls.refresh))
            provide(cls, "update", _update_by(cls.refresh, cls.rescaled, cls.counts))
            provide(cls, "forget", _forget_by(cls.refresh, cls.counts))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount not in ("auto", "doubling"):
            check_number('discount ("auto", "doubling" or a number)', self.discount, 0, 1, open_low=True)
        if self.half_life is not None:
            seconds("half_life", self.half_life)
            if self.discount != "auto":
                raise ValueError(f"half_life={self.half_life!r}: cannot go with discount={self.discount!r}")
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("first_horizon", self.first_horizon, 1)

    def parameters(self, problem: Problem) -> dict[str, float]:
        timed = self.half_life is not None
        doubling = self.discount == "doubling" or (self.discount == "auto" and problem.horizon is None and not timed)
        n = problem.horizon or self.first_horizon
        gamma = pure(discount_for)(n, self.n_breakpoints) if isinstance(self.discount, str) else self.discount
        numbers = {"clock": 0} | super().parameters(problem)
        numbers.pop("half_life", None)
        return numbers | {
            "discount": float(gamma),
            "doubling": int(doubling),
            "timed": int(timed),
            "decay": _LN2 / seconds("half_life", self.half_life) if timed else 0.0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            **self.counts.fields,
            **self.item_fields(),
            "unit": field(1, fill=1.0),
            "growth": field(1),  # 1/gamma, what the unit is multiplied by
            "clock": field(1),  # discounted time so far
            "log_clock": field(1),  # ln N_t(gamma) of the coming step, where time is counted in steps
            "gamma": field(1),
            "assumed": field(1),
            "last": field(p["timed"], fill=-np.inf),  # the time of the last update
        }

    def item_fields(self) -> dict[str, Field]:
        """What a subclass keeps of every item."""
        return {}

    @staticmethod
    @kernel
    def believe(p, s, e, a):
        estimate, samples = believe_counts(p, s, e, a)
        return estimate, samples / present(p, s, e)[0]


@kernel
def present(p, s, e):
    """At the event's time: what one observation weighs, and ln of the discounted number of steps up to this one."""
    if not p.timed:
        return s.unit[0], s.log_clock[0]
    growth = _growth(p, s, e)
    clock = s.clock[0] / growth
    return s.unit[0] * growth, log(max(clock, 1.0) if p.clock == _PULLS else clock + 1.0)


@kernel
def _growth(p, s, e):
    """What the time since the last update divides the past by. Time that goes backwards is no time."""
    elapsed = e.now - s.last[0]
    if s.last[0] == -np.inf or not elapsed > 0.0:
        return 1.0
    return exp(min(elapsed * p.decay, _MOST))


@kernel
def _set_discount(s, gamma):
    s.gamma[0] = gamma
    s.growth[0] = 1.0 / gamma


def _init_by(refresh: Any) -> Any:
    @kernel
    def init(p, s, e, c):
        _set_discount(s, p.discount)
        if p.doubling:
            s.assumed[0] = p.first_horizon
            _set_discount(s, discount_for(s.assumed[0], p.n_breakpoints))
        for a in range(p.L):
            refresh(p, s, a)

    return init


def _forget_by(refresh: Any, counts: Counts) -> Any:
    clear = counts.clear

    @kernel
    def forget(p, s, e, a):
        clear(p, s, a)
        refresh(p, s, a)

    return forget


def _update_by(refresh: Any, rescaled: Any, counts: Counts) -> Any:
    forget = _forget_by(refresh, counts)
    add, divide = counts.add, counts.divide

    @kernel
    def rescale(p, s):
        """Bring the unit back to 1 before it overflows."""
        for a in range(p.L):
            if divide(p, s, a, s.unit[0]):
                rescaled(p, s, a)
        s.unit[0] = 1.0

    @kernel
    def update(p, s, e, r, clicks, observed):
        if p.timed:
            _set_discount(s, 1.0 / _growth(p, s, e))
            s.last[0] = max(s.last[0], e.now)
        s.unit[0] *= s.growth[0]
        if s.unit[0] > _LARGEST:
            rescale(p, s)
        one = s.unit[0]
        for i in range(p.K):
            if i < observed:
                a = np.int64(r.items[i])
                add(p, s, a, i, clicks[i], one)
                refresh(p, s, a)
        before = s.clock[0]
        s.clock[0] = s.gamma[0] * before + (observed if p.clock == _PULLS else 1)
        changed = s.clock[0] != before  # the clock of steps comes to rest at 1/(1-gamma), and so does its logarithm
        if p.doubling and e.t + 1 >= 2.0 * s.assumed[0]:
            changed = True
            s.assumed[0] *= 2.0
            _set_discount(s, discount_for(s.assumed[0], p.n_breakpoints))
            if p.restart:
                s.clock[0] = 0.0
                s.unit[0] = 1.0
                for a in range(p.L):
                    forget(p, s, e, a)
        if changed and not p.timed:
            coming = max(s.clock[0], 1.0) if p.clock == _PULLS else s.gamma[0] * s.clock[0] + 1.0
            s.log_clock[0] = log(coming)

    return update
