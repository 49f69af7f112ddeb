"""What the default policy promises: to be at most a little worse than the best of its rivals, whatever the world."""

from __future__ import annotations

import pytest

import driftrank as dr
from driftrank.environments import Abrupt, Churn, Drift, LowCTR, PiecewiseRandom, Recurring, Stationary
from driftrank.queries import Queries

DEFAULT = dr.default_policy().spec
RIVALS = ["CascadeSWUCB", "CascadeDUCB", "CascadeSWTS", "CascadeDTS", "GLRTCascadeKLUCB"]


@pytest.fixture(scope="module")
def some(yandex40: Queries) -> Queries:
    """Ten of the queries on which nothing was developed."""
    return Queries.of({name: yandex40[name] for name in list(yandex40)[1:21:2]})


def regrets(policies, environment, runs=1):
    result = dr.simulate(policies, environment, horizon=100_000, runs=runs, seed=5, checkpoints=1, progress=False)
    return {label: result.regret(label) for label in result.labels}


def test_in_the_papers_world(yandex40):
    """Below a seventh of CascadeSWUCB, and below one who is told of every breakpoint."""
    regret = regrets([DEFAULT, "CascadeSWUCB", "OracleRestart"], Abrupt(yandex40, k=3))
    assert regret[DEFAULT] <= 0.15 * regret["CascadeSWUCB"]
    assert regret[DEFAULT] < regret["OracleRestart"]


@pytest.mark.slow
def test_where_nothing_changes(yandex40):
    regret = regrets([DEFAULT, "CascadeTS"], Stationary(yandex40, k=3))
    assert regret[DEFAULT] <= 1.15 * regret["CascadeTS"]


@pytest.mark.parametrize(
    "world",
    [
        lambda queries: Drift(queries, shape="sinusoid"),
        lambda queries: Drift(queries, shape="walk"),
        lambda queries: Drift(queries, shape="ramp"),
        lambda queries: PiecewiseRandom(queries),
        lambda queries: Recurring(queries),
        lambda queries: Churn(queries),
        lambda queries: Churn(queries, announced=False),
        lambda queries: LowCTR(),
    ],
    ids=["sinusoid", "walk", "ramp", "breaks", "recurring", "churn", "hidden churn", "low CTR"],
)
@pytest.mark.slow
def test_never_much_worse_than_the_best_rival(some, world):
    environment = world(some)
    regret = regrets([DEFAULT, *RIVALS], environment, runs=1 if len(environment.queries) > 1 else 10)
    assert regret[DEFAULT] <= 1.05 * min(regret[rival] for rival in RIVALS)
