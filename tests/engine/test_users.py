"""Users who are shown lists made elsewhere are the users of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

import driftrank as dr
from driftrank.clickmodels import DBN, PBM, UBM, ClickModel
from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.contract import small_world
from driftrank.engine.users import Users
from driftrank.environments.base import Chunk, Environment
from driftrank.policies.registry import parse_policy

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer
STEPS = 400


def simulated(environment: Environment, spec: str, run: int) -> np.ndarray:
    task = Task((parse_policy(spec),), environment, STEPS, 3, tuple(range(1, STEPS + 1)))
    found = Simulator(task, 0).run(Unit(0, environment.names[0], (run,)), lambda done: True)
    assert found is not None
    return found[0, :, :3]  # type: ignore[no-any-return]


def met(environment: Environment, spec: str, run: int) -> np.ndarray:
    query = environment.names[0]
    items = range(len(environment.queries[query]))
    learner = parse_policy(spec).start(items, environment.k, seed=3, horizon=STEPS, query=query, run=run)
    users = Users(environment, query, run, 3)
    regret, reward, clicked = 0.0, 0.0, 0
    out = []
    for t in range(1, STEPS + 1):
        users.go_to(t)
        if environment.churns:
            learner.renew(users.announced)
        ranking = learner.rank(users.present)
        value, clicks = users.meet(ranking)
        learner.update(ranking, [int(n + 1 in clicks) for n in range(environment.k)])
        regret += users.optimal - value
        reward += value
        clicked += len(clicks)
        out.append((regret, reward, clicked))
    return np.array(out)


@pytest.mark.parametrize("model", [None, DBN(objective="clicks"), PBM(), UBM()], ids=str)
def test_same_users(model: ClickModel | None) -> None:
    environment = dr.environments.Abrupt(small_world().queries, k=3, period=150, click_model=model)
    assert np.array_equal(met(environment, "CascadeTS", 1), simulated(environment, "CascadeTS", 1))


@pytest.mark.parametrize("kind", ["Drift", "Churn", "PiecewiseRandom"])
def test_same_users_however_they_change(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chunk, "NUMBERS", 70)  # a few segments at a time
    monkeypatch.setattr("driftrank.engine.users._AHEAD", 90)
    environment = getattr(dr.environments, kind)(small_world().queries, k=3)
    assert np.array_equal(met(environment, "CascadeUCB1", 0), simulated(environment, "CascadeUCB1", 0))


def test_steps_may_be_left_out() -> None:
    users, environment = Users(small_world()), small_world()
    for t in (1, 7, 150, 151, 460):
        users.go_to(t)
        assert users.optimal == environment.optimal_value(t)
        assert users.best == environment.best(t)
        assert users.present == environment.present(t)
    with pytest.raises(ValueError, match="t=460: must be an integer of at least 461"):
        users.go_to(460)


@pytest.mark.parametrize("ranking", [[0, 1], [0, 1, 1], [0, 1, 10], [0, 1, -1]])
def test_bad_lists(ranking: list[int]) -> None:
    users = Users(small_world())
    users.go_to(1)
    with pytest.raises(ValueError, match="must be 3 different items, from 0 to 9"):
        users.meet(ranking)
