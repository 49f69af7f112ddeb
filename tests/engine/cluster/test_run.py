"""Units on the workers of a cluster: real processes, and the same numbers to the last bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.clickmodels import DBN
from driftrank.engine import Cluster, Task, Unit
from driftrank.engine.cluster import run as remote
from driftrank.engine.cluster.run import run_on_cluster
from driftrank.engine.devices import UNIT_STEPS
from driftrank.environments import Abrupt, Churn, Drift, Environment, LinearFeatures
from driftrank.policies.registry import parse_policy
from driftrank.queries import yandex_like


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as made:
        yield made


def values(device: Any, policies: Any, environment: Environment, **changes: Any) -> np.ndarray:
    given = {"horizon": 3000, "runs": 3, "seed": 5, "progress": False} | changes
    result = dr.simulate(policies, environment, device=device, **given)
    assert result.complete
    return result.values


@pytest.mark.parametrize(
    ("policies", "environment"),
    [
        (["CascadeDUCB", "CascadeSWUCB", "CascadeTS", "OracleRestart"], Abrupt(yandex_like(3, 1), k=3, period=700)),
        (["CascadeUCB1", "StaticOracle"], Churn(yandex_like(2), k=3, period=300, absent=2)),
        pytest.param(["CascadeLinUCB"], LinearFeatures(L=8), marks=pytest.mark.slow),
        pytest.param(["RankedEXP3"], Drift(yandex_like(2), k=2, click_model=DBN()), marks=pytest.mark.slow),
    ],
    ids=["changes", "churn", "features", "drift"],
)
def test_the_numbers_of_this_machine(
    cluster: Cluster, policies: list[str], environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = values("cpu", policies, environment)
    assert np.array_equal(values(cluster, policies, environment), expected)
    monkeypatch.setitem(UNIT_STEPS, "cluster", 1)  # every run is a unit
    monkeypatch.setattr(remote, "JOB_STEPS", 1)  # and a job
    assert np.array_equal(values(cluster, policies, environment), expected)


class _Mine(dr.CascadeUCB1):
    """A policy of the user, which workers cannot import."""


_Mine.__module__ = "__main__"


def test_policies_that_stand_in_a_script(cluster: Cluster) -> None:
    world = Abrupt(yandex_like(1), k=3, period=500)
    assert np.array_equal(values(cluster, _Mine(), world), values("cpu", "CascadeUCB1", world))


def test_a_worker_killed_in_the_midst_changes_no_number(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Abrupt(yandex_like(4), k=3, period=5000)
    policies = ["CascadeUCB1", "CascadeSWUCB"]
    expected = values("cpu", policies, world, horizon=50_000)
    monkeypatch.setitem(UNIT_STEPS, "cluster", 50_000)
    monkeypatch.setattr(remote, "JOB_STEPS", 50_000)
    before = set(cluster.client.run(os.getpid).values())
    heard: list[tuple[str, tuple[int, ...]]] = []
    killed: list[int] = []

    def kill_one(label: str, unit: Unit, measures: Any, seconds: float) -> None:
        heard.append((f"{label} {unit.query}", unit.runs))
        if not killed:
            killed.append(min(before))
            os.kill(killed[0], signal.SIGKILL)

    assert np.array_equal(values(cluster, policies, world, horizon=50_000, on_unit=kill_one), expected)
    assert len(heard) == len(set(heard)) == 2 * 4 * 3  # everything once
    after = set(cluster.client.run(os.getpid).values())
    assert killed[0] not in after


def test_progress_counts_every_step(cluster: Cluster) -> None:
    world = Abrupt(yandex_like(2), k=3, period=500)
    task = Task((parse_policy("Random"), parse_policy("CascadeUCB1")), world, 1000, 0, (1000,))
    units = [Unit(p, query, runs) for p in (0, 1) for query in world.names for runs in ((0, 1), (2,))]
    steps = [0, 0]
    finished: list[Unit] = []

    def tick(policy: int, n: int) -> None:
        steps[policy] += n

    def done(unit: Unit, measures: Any, seconds: float) -> None:
        assert measures.shape[:2] == (len(unit.runs), 1)
        assert seconds > 0
        finished.append(unit)

    run_on_cluster(task, units, done, cluster=cluster, tick=tick)
    assert steps == [6000, 6000]
    assert sorted(finished, key=units.index) == units
    run_on_cluster(task, [], done, cluster=cluster)  # nothing to do


def test_jobs() -> None:
    """Each of one policy, no larger than it may be, smaller towards the end, and nothing is left out."""
    world = Abrupt(yandex_like(50), k=3)
    task = Task((parse_policy("Random"),) * 2, world, 100_000, 0, (100_000,))
    units = [Unit(p, query, tuple(range(5))) for p in (0, 1) for query in world.names]
    for workers in (0, 1, 2, 7, 1000):
        jobs = list(remote._jobs_of(task, units, workers))
        assert [unit for job in jobs for unit in job] == units
        assert all(len({unit.policy for unit in job}) == 1 for job in jobs)
        assert max(map(len, jobs)) <= remote.JOB_STEPS // 500_000
        assert len(jobs[-1]) == 1
    assert len(jobs) == len(units)  # more workers than units
    assert len(list(remote._jobs_of(task, units, 1))) < len(units) / 2


@pytest.mark.slow
def test_other_backends_of_joblib() -> None:
    world = Abrupt(yandex_like(2), k=3, period=700)
    expected = values("cpu", ["CascadeUCB1"], world)
    assert np.array_equal(values(Cluster(backend="loky", workers=2), ["CascadeUCB1"], world), expected)
    assert np.array_equal(values(Cluster(backend="threading"), ["CascadeUCB1"], world), expected)


def test_workers_of_another_version(cluster: Cluster) -> None:
    world = Abrupt(yandex_like(1), k=3)
    shared = Cluster(backend="threading").share(Task((parse_policy("Random"),), world, 10, 0, (10,)))
    with pytest.raises(ValueError, match=rf"cluster has driftrank {dr.__version__}, but the task is of 0\.0"):
        remote._run(("0.0", shared, [Unit(0, world.names[0], (0,))]))


def test_an_error_of_a_unit_comes_through(cluster: Cluster) -> None:
    world = Abrupt(yandex_like(1), k=3)
    task = Task((parse_policy("Random"),), world, 10, 0, (10,))
    with pytest.raises(KeyError, match="elsewhere"):
        run_on_cluster(task, [Unit(0, "elsewhere", (0,))], lambda *_: None, cluster=cluster)
