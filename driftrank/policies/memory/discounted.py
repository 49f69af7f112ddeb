"""Forget by discounting: the counts of discounted policies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import RankingProblem
from driftrank.policies.estimates import believe_counts
from driftrank.policies.memory.counts import CountingPolicy, forget_counts, no_refresh
from driftrank.policies.parameters import seconds
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.validation import check_integer, check_number

#: the unit of the discounted time: steps as in the paper, or observations of all items as in Garivier and Moulines
CLOCK = ("steps", "pulls")
_PULLS = 1

#: the unit of the counts is reset to 1 when it is larger than this
_LARGEST = 1e150
#: the largest logarithm of the divisor for idle time: the past vanishes, and nothing overflows
_MOST = 345.0
_LN2 = 0.6931471805599453


@kernel
def discount_for(horizon, n_breakpoints):
    """gamma = 1 - (1/4) sqrt(Upsilon_n / n) (section 4.1); at least 1/2, as Theorem 1 asks."""
    return max(0.5, 1.0 - 0.25 * np.sqrt(n_breakpoints / horizon))


class Discounted(CountingPolicy):
    r"""Policies whose index uses discounted numbers of observations N and clicks X.

    A subclass writes ``index``, and ``level`` if it needs one, on top of the fields ``N`` and ``X``, which count in
    multiples of ``unit``, the weight of an observation now: the discounted numbers are N/unit and X/unit. So forgetting
    touches no item. :func:`present` gives the unit and the logarithm of the discounted time at the event. If the index
    needs more than the counts, further kernels keep it up to date:

    * ``refresh(p, s, a)``: the counts of item ``a`` have changed;
    * ``rescaled(p, s, a)``: N, X and the unit were divided by the same number.

    ``counts`` selects counts per item, or per item and position.
    """

    abstract: ClassVar[bool] = True
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt", "drift")

    #: gamma in (0, 1], or the rule for it
    discount: float | str = "auto"
    #: the time in which the past loses half its weight, instead of a discount per step
    half_life: float | str | None = None
    n_breakpoints: int = 1
    first_horizon: int = 1
    restart: bool = False

    rescaled: ClassVar[Any] = staticmethod(no_refresh)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount not in ("auto", "doubling"):
            check_number('discount ("auto", "doubling" or a number)', self.discount, 0, 1, open_low=True)
        if self.half_life is not None:
            seconds("half_life", self.half_life)
            if self.discount != "auto":
                raise ValueError(f"half_life={self.half_life!r}: cannot be combined with discount={self.discount!r}")
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("first_horizon", self.first_horizon, 1)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
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
            **super().fields(p),
            "unit": field(1, fill=1.0),
            "growth": field(1),  # 1/gamma, the factor of the unit per step
            "clock": field(1),  # discounted time so far
            "log_clock": field(1),  # ln N_t(gamma) of the coming step, if time is counted in steps
            "gamma": field(1),
            "assumed": field(1),
            "last": field(p["timed"], fill=-np.inf),  # the time of the last update
        }

    def kernels(self) -> PolicyKernels:
        own = super().kernels()
        return own._replace(
            init=own.init or _init_by(self.refresh),
            update=own.update or discounted_update(self.refresh, self.rescaled, *self.counts[1:]),
            forget=own.forget or forget_counts(self.refresh, self.counts.clear),
        )

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        estimate, samples = believe_counts(p, s, e, c, a)
        return estimate, samples / present(p, s, e)[0]


@kernel
def present(p, s, e):
    """The weight of one observation at the event's time, and ln of the discounted number of steps up to this one."""
    if not p.timed:
        return s.unit[0], s.log_clock[0]
    growth = _growth(p, s, e)
    clock = s.clock[0] / growth
    return s.unit[0] * growth, log(max(clock, 1.0) if p.clock == _PULLS else clock + 1.0)


@kernel
def _growth(p, s, e):
    """The divisor of the past for the time since the last update; 1 if time went backwards."""
    elapsed = e.now - s.last[0]
    if s.last[0] == -np.inf or not elapsed > 0.0:
        return 1.0
    return exp(min(elapsed * p.decay, _MOST))


@kernel
def _set_discount(s, gamma):
    s.gamma[0] = gamma
    s.growth[0] = 1.0 / gamma


@cache
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


@cache
def discounted_update(refresh: Any, rescaled: Any, add: Any, divide: Any, clear: Any) -> Any:
    """The kernel ``update`` that discounts the past and counts the observations; see :class:`Counts`."""
    forget = forget_counts(refresh, clear)

    @kernel
    def rescale(p, s):
        """Reset the unit to 1 before it overflows."""
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
