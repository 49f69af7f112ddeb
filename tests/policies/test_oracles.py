from __future__ import annotations

import pytest

from driftrank.policies.base import RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.oracles import OracleRestart
from driftrank.policies.registry import parse_policy


@pytest.mark.parametrize("spec", ["PriorRegimeTS", "CascadeRegimeTS", "CascadeTS"])
def test_a_restarted_policy_has_the_memory_of_the_policy(spec: str) -> None:
    """The default policy reads the prior of every item, which is there only if its shared model is known."""
    base, problem = parse_policy(spec), RankingProblem(6, 2, 100, 100)
    alone, restarted = (CompiledPolicy.of(policy, problem) for policy in (base, OracleRestart(base=base)))
    assert restarted.layout.sizes == alone.layout.sizes
    assert restarted.shared_layout.sizes == alone.shared_layout.sizes
    assert restarted.flat_prior(6).tolist() == alone.flat_prior(6).tolist()
    assert restarted.scratch == alone.scratch
