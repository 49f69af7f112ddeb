"""Compare a compiled policy with its plain version."""

from __future__ import annotations

from driftrank.policies.checks import same_lists


def assert_same_lists(policy, reference_factory, L, K, steps, seed=0, told=True):
    """Both make the same list at every step; ``told`` says whether they know the number of steps beforehand."""
    same_lists(policy, reference_factory, L=L, K=K, steps=steps, seed=seed, told=told)
