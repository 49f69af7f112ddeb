"""Oracles, which know the truth: references that learning is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.policies.stationary.cascade_ts import CascadeTS


@kernel
def _show(s, items):
    """Make this list the one that is shown."""
    for a in range(s.worth.shape[0]):
        s.worth[a] = 0.0
    for i in range(items.shape[0]):
        s.worth[items[i]] = items.shape[0] - i


class _Oracle(IndexPolicy):
    """Shows the items that are worth most."""

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

    Only a simulation knows the truth, so it cannot be started as a learner.
    """

    @staticmethod
    @kernel
    def reveal(p, s, e, c, alpha, best, fixed):
        _show(s, best)


class StaticOracle(_Oracle):
    """The best list that never changes, over the whole horizon: the reference of adversarial bandits.

    Only a simulation knows the truth, so it cannot be started as a learner.
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary",)

    needs_fixed_list: ClassVar[bool] = True

    @staticmethod
    @kernel
    def reveal(p, s, e, c, alpha, best, fixed):
        _show(s, fixed)


class OracleRestart(Policy):
    """Any policy, restarted at every true breakpoint: the reference curve of policies that detect changes.

    Only a simulation knows the truth, so it cannot be started as a learner.

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

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return self.base.parameters(problem)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return self.base.fields(p)

    def shared_fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return self.base.shared_fields(p)

    def scratch(self, p: Mapping[str, Any]) -> int:
        return self.base.scratch(p)

    def kernels(self) -> PolicyKernels:
        return self.base.kernels()
