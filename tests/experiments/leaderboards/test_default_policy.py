"""What the default policy promises to all, and CascadeRegimeTS to those whose users read every list from the top.

They are at most a little worse than the best of their rivals, whatever the world.
"""

from __future__ import annotations

import pytest

import driftrank as dr
from driftrank.clickmodels import DBN, PBM, UBM
from driftrank.environments import Abrupt, Churn, Drift, LowCTR, PiecewiseRandom, Recurring, Stationary
from driftrank.queries import Queries

DEFAULT = dr.default_policy().spec
FROM_THE_TOP = "CascadeRegimeTS"
RIVALS = ["CascadeSWUCB", "CascadeDUCB", "CascadeSWTS", "CascadeDTS", "GLRTCascadeKLUCB"]


@pytest.fixture(scope="module")
def some(yandex40: Queries) -> Queries:
    """Ten of the queries on which nothing was developed."""
    return Queries.of({name: yandex40[name] for name in list(yandex40)[1:21:2]})


def regrets(policies, environment, runs=1):
    result = dr.simulate(policies, environment, horizon=100_000, runs=runs, seed=5, checkpoints=1, progress=False)
    return {label: result.regret(label) for label in result.labels}


@pytest.mark.slow
def test_in_the_papers_world(yandex40):
    """At most 15% of CascadeSWUCB; CascadeRegimeTS is below a policy that knows every breakpoint."""
    regret = regrets([DEFAULT, FROM_THE_TOP, "CascadeSWUCB", "OracleRestart"], Abrupt(yandex40, k=3))
    assert regret[DEFAULT] <= 0.15 * regret["CascadeSWUCB"]
    assert regret[FROM_THE_TOP] <= 0.15 * regret["CascadeSWUCB"]
    assert regret[FROM_THE_TOP] < regret["OracleRestart"]


@pytest.mark.slow
def test_where_nothing_changes(yandex40):
    regret = regrets([DEFAULT, FROM_THE_TOP, "CascadeTS"], Stationary(yandex40, k=3))
    assert regret[FROM_THE_TOP] <= 1.15 * regret["CascadeTS"]
    assert regret[DEFAULT] <= 1.25 * regret[FROM_THE_TOP]


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
    regret = regrets([FROM_THE_TOP, *RIVALS], environment, runs=1 if len(environment.queries) > 1 else 10)
    assert regret[FROM_THE_TOP] <= 1.05 * min(regret[rival] for rival in RIVALS)


@pytest.mark.parametrize(
    "users",
    [PBM(examination=tuple(n**-eta for n in range(1, 6))) for eta in (0.5, 1.0, 1.5)]
    + [UBM(), DBN(objective="clicks")],
    ids=["k^-0.5", "k^-1", "k^-1.5", "UBM", "DBN"],
)
@pytest.mark.slow
def test_users_with_position_bias(users):
    """At most 3% of the clicks lost in the second half, regret at most 1.1 times that of the best rival."""
    queries, rivals = dr.queries.yandex_like(10, seed=51), ["CascadeTS", "GLRTCascadeKLUCB", "CascadeSWTS"]
    result = dr.simulate(
        [DEFAULT, *rivals], Stationary(queries, 5, click_model=users), horizon=20_000, runs=4, seed=6, checkpoints=2,
        progress=False,
    )  # fmt: skip
    assert result.regret(DEFAULT) <= 1.1 * min(result.regret(rival) for rival in rivals)
    lost = result.between(DEFAULT, 10_000)[0]
    assert lost <= 0.03 * (lost + result.between(DEFAULT, 10_000, measure="reward")[0])
