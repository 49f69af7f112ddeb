from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import Cluster, Task, cores
from driftrank.engine.devices import DEVICES, UNIT_STEPS, NoGpuWarning, at_once, ready, unit_runs, word_for
from driftrank.environments import Stationary

WORLD = Stationary([[0.9, 0.5, 0.1, 0.1], [0.2, 0.3, 0.4, 0.1]], k=2)


def simulated(device: Any, **changes: Any) -> dr.experiments.Result:
    given = {"horizon": 500, "runs": 3, "progress": False, "threads": 1} | changes
    return dr.simulate(["CascadeUCB1", "Random"], WORLD, device=device, **given)


def test_words() -> None:
    assert [word_for(device) for device in DEVICES] == list(DEVICES) == list(UNIT_STEPS)
    assert word_for(Cluster(workers=3)) == "cluster"
    for bad in ("gpu", None, 3, WORLD):
        with pytest.raises(ValueError, match=r"device=.*: must be one of 'cpu', 'cuda', 'cluster'"):
            simulated(bad)


def test_units_are_as_large_as_the_device_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def runs_of_units() -> list[int]:
        sizes.clear()
        simulated("cpu", on_unit=lambda label, unit, measures, seconds: sizes.append(len(unit.runs)))
        return sorted(sizes)

    task = Task((), WORLD, 1000, 0, (1000,))
    assert unit_runs("cpu", task, 10_000) == UNIT_STEPS["cpu"] // 1000
    assert unit_runs(Cluster(), task, 10_000) == UNIT_STEPS["cluster"] // 1000
    assert unit_runs("cuda", task, 10_000) == 10_000
    monkeypatch.setitem(UNIT_STEPS, "cpu", 1000)
    assert runs_of_units() == [1, 1, 1, 1, 2, 2, 2, 2]
    monkeypatch.setitem(UNIT_STEPS, "cpu", None)
    assert runs_of_units() == [3, 3, 3, 3]


def test_how_many_at_once() -> None:
    assert at_once("cpu") == cores()
    assert at_once("cpu", 7) == 7
    assert at_once("cuda") == 1
    with ready(Cluster(workers=3, backend="threading")) as device:
        assert at_once(device) == 3


def test_a_cluster_is_opened_for_the_while_and_an_open_one_stays_open() -> None:
    cluster = Cluster(workers=2, backend="threading")
    expected = simulated("cpu")
    result = simulated(cluster)
    assert not cluster.is_open
    assert result.device == "cluster"
    assert result.cores == 2
    assert np.array_equal(result.values, expected.values)
    with cluster:
        assert np.array_equal(simulated(cluster).values, expected.values)
        assert cluster.is_open
    assert not cluster.is_open


def test_requirements_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    message = r"device='cuda': needs numba-cuda: pip install 'driftrank\[cuda\]'; computing on the CPU"
    with pytest.warns(NoGpuWarning, match=message):
        result = simulated("cuda")
    assert result.device == "cpu"
    assert np.array_equal(result.values, simulated("cpu").values)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"needs distributed: pip install 'driftrank\[cluster\]'"):
        simulated("cluster")
