"""The candidates of an advice: what was shown, the present order, and policies of every kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from driftrank.policies.base import Policy
from driftrank.policies.registry import PolicyLike, as_policies, default_policy

#: names of the candidates other than policies
KEEP, ORDER = "keep", "current order"

#: beside the default: with a memory of regimes, with a detector, with windows, and without forgetting
OTHERS = (
    "CascadeRegimeTS", "GLRTCascadeKLUCB", "CascadeSWTS", "CascadeSWTS:window=500", "CascadeSWTS:window=5000",
    "CascadeTS",
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A candidate: a policy, or None for what was shown and for the present order."""

    name: str
    policy: Policy | None = None

    @property
    def parameters(self) -> int:
        """The number of parameters that differ from their defaults: fewer are simpler."""
        return 0 if self.policy is None else len(self.policy.spec.partition(":")[2].split(",")) * (":" in self.name)


def candidates(policies: Iterable[PolicyLike] | None = None) -> list[Candidate]:
    """Keep, the present order, the default policy, then the others; by default one of each kind.

    >>> [candidate.name for candidate in candidates(["CascadeTS"])]
    ['keep', 'current order', 'PriorRegimeTS', 'CascadeTS']
    """
    chosen = [default_policy(), *as_policies(OTHERS if policies is None else policies)]
    for policy in chosen:
        if policy.oracle:
            raise ValueError(f"policy={policy.spec}: must not be an oracle, which nobody can serve")
        if policy.contextual:
            raise ValueError(f"policy={policy.spec}: must not need features, which a log does not have")
    named = {policy.spec: policy for policy in chosen}
    return [Candidate(KEEP), Candidate(ORDER), *(Candidate(name, policy) for name, policy in named.items())]
