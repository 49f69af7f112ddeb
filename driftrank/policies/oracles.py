"""Policies that are told the truth: what learning is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import IndexPolicy, Kernels, Policy, Problem
from driftrank.policies.cascade_ts import CascadeTS


@kernel
def _show(s, items):
    """Let that list come out."""
    for a in range(s.worth.shape[0]):
        s.worth[a] = 0.0
    for i in range(items.shape[0]):
        s.worth[items[i]] = items.shape[0] - i


class _Oracle(IndexPolicy):
    """Shows the items that it was told to be worth most."""

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    oracle: ClassVar[bool] = True

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"worth": field("L")}

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return s.worth[a]

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        pass

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.worth[a] = 0.0


class DynamicOracle(_Oracle):
    """The best list at every step. Its regret is zero by definition: regret is measured against it.

    Only a simulation can tell it the truth; it cannot be started as a learner.
    """

    @staticmethod
    @kernel
    def told(p, s, e, c, alpha, best, fixed):
        _show(s, best)


class StaticOracle(_Oracle):
    """The best list that never changes, over the whole horizon: what adversarial bandits are compared with.

    Only a simulation can tell it the truth; it cannot be started as a learner.
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary",)

    told_fixed: ClassVar[bool] = True

    @staticmethod
    @kernel
    def told(p, s, e, c, alpha, best, fixed):
        _show(s, fixed)


class OracleRestart(Policy):
    """Any policy, started anew at every breakpoint of the truth: the reference curve for policies that detect change.

    Only a simulation can tell it the truth; it cannot be started as a learner.

    Parameters
    ----------
    base
        The policy that is restarted.
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    oracle: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    base: Policy = CascadeTS()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, Policy) or self.base.oracle:
            raise ValueError(f"base={self.base!r}: must be a policy that is not itself an oracle")

    @property
    def feedback(self) -> str:  # type: ignore[override]
        return self.base.feedback

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.base.memo

    @property
    def contextual(self) -> bool:  # type: ignore[override]
        return self.base.contextual

    def parameters(self, problem: Problem) -> dict[str, float]:
        return self.base.parameters(problem)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return self.base.fields(p)

    def scratch(self, p: Mapping[str, Any]) -> int:
        return self.base.scratch(p)

    def kernels(self) -> Kernels:
        return self.base.kernels()
