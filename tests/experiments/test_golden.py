"""The regret that policies are known to have in the paper's experiment: one run of each of forty real queries.

The numbers are those of an independent simulation, on sixty queries of which these are forty.
"""

from __future__ import annotations

import pytest

import driftrank as dr
from driftrank.experiments.results import Result
from driftrank.queries import Queries

#: regret after 100,000 steps, 10 items, 3 positions, by the policy's spec
GOLDEN = {
    "CascadeUCBV": 8514,
    "CascadeDUCB": 3628,
    "CascadeSWUCB": 2429,
    "CascadeDKLUCB": 2367,
    "CascadeSWKLUCB": 1977,
    "CascadeDTS": 2344,
    "CascadeSWTS": 1937,
    "CascadeSWTS:n_breakpoints=9": 1588,
}


@pytest.fixture(scope="module")
def result(yandex40: Queries) -> Result:
    env = dr.environments.Abrupt(yandex40, k=3)
    return dr.simulate(list(GOLDEN), env, horizon=100_000, checkpoints=1, progress=False)


@pytest.mark.parametrize(("spec", "expected"), GOLDEN.items())
def test_regret_in_the_experiment_of_the_paper(result: Result, spec: str, expected: float) -> None:
    label = result.labels[list(GOLDEN).index(spec)]
    assert result.regret(label) == pytest.approx(expected, rel=0.15)
