from __future__ import annotations

import numpy as np
import pytest

from driftrank.engine import cores
from driftrank.environments import Abrupt, Environment
from driftrank.experiments import simulate
from driftrank.experiments.speed.bench import Bench, growth_table, speed_table
from driftrank.experiments.speed.numpy_loop import numpy_swucb
from driftrank.queries import yandex_like


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Abrupt(yandex_like(4, seed=1), k=3, period=500)


def test_numpy_loop_is_the_same_policy(environment: Environment) -> None:
    """Other random numbers, the same regret: within four standard errors on every query."""
    ours = simulate("CascadeSWUCB", environment, horizon=3_000, runs=60, progress=False).values[0, 0, :, :, -1]
    loop = np.array([[numpy_swucb(environment, 3_000, q, run) for run in range(5)] for q in range(4)])
    error = ours.std(axis=1) * np.sqrt(1 / 5 + 1 / 60)
    assert (np.abs(loop.mean(axis=1) - ours.mean(axis=1)) < 4 * error).all()


def test_numpy_loop_forgets(environment: Environment) -> None:
    """A policy that kept every click would do much worse once items change; so would one that lost them."""
    forgets = np.mean([numpy_swucb(environment, 6_000, q) for q in range(4)])
    keeps, chance = (
        simulate(p, environment, horizon=6_000, runs=2, progress=False).regret(p) for p in ("CascadeUCB1", "Random")
    )
    assert forgets < min(keeps, chance)


def test_speeds() -> None:
    said: list[str] = []
    measured = Bench(0.01, 1, said.append).against_numpy(["CascadeSWUCB", "CascadeSWUCB:window=50"])
    assert [line.split(",")[0] for line in said] == ["CascadeSWUCB", "CascadeSWUCB:window=50"]
    assert measured["cores"] == cores()
    assert measured["numpy"]["cores"] == 1
    for row in measured["policies"].values():
        assert row["times_numpy"] > 0
        assert row["ns_per_step_core"] == pytest.approx(1e9 * cores() / row["steps_per_second"], rel=0.01)
    assert "CascadeSWUCB:window=50" in str(speed_table(measured))
    assert "NumPy" in str(speed_table(measured)).splitlines()[-1]


def test_costs_by_size() -> None:
    costs = Bench(0.01, 1).by_items([10, 1_000], ["CascadeSWUCB"])
    assert list(costs["CascadeSWUCB"]) == ["10", "1000"]
    assert all(cost > 0 for cost in costs["CascadeSWUCB"].values())
    assert "1,000" in str(growth_table("items", costs))


def test_an_error_in_a_run_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftrank.engine.simulator.Simulator.run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Bench(0.01, 1).by_items([10], ["CascadeSWUCB"])
