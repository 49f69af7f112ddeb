"""Compare a compiled policy with its plain version."""

from __future__ import annotations

from driftrank.policies.contract.checks import same_lists


def assert_same_lists(policy, reference_factory, L, K, steps, seed=0, told=True):
    """Both make the same list at every step; ``told``: with that number of steps as their horizon."""
    same_lists(policy, reference_factory, L=L, K=K, steps=steps, seed=seed, known_horizon=told)
