"""The same numbers to the last bit, however the work is done."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.clickmodels import CCM, DBN, DCM, PBM, SDBN, UBM, ClickModel
from driftrank.engine import Simulator, Task, Unit, run_on_cpu
from driftrank.engine.contract import check_simulation, small_world
from driftrank.engine.devices import UNIT_STEPS
from driftrank.environments.base import Chunk
from driftrank.policies.registry import parse_policy, policies
from tests.quick import others_are_slow

LEARNERS = [name for name, cls in policies().items() if not cls.oracle]
#: one policy per way of assembling kernels, if possible one whose simulator other tests compile, too
SKELETONS = {"CascadeSWUCB", "GLRTCascadeKLUCB", "PBMPIE", "PriorRegimeTS", "RankedEXP3"}
SOME = ["CascadeSWUCB", "CascadeTS", "OracleRestart"]


@pytest.mark.interpreted
@pytest.mark.parametrize("name", LEARNERS)
def test_simulator_equals_learner(name: str) -> None:
    check_simulation(parse_policy(name), steps=200)  # through a change


@pytest.mark.parametrize("name", others_are_slow(LEARNERS, SKELETONS))
def test_compiled_simulator_equals_learner(name: str) -> None:
    check_simulation(parse_policy(name))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("model", "spec"),
    [
        (CCM(), "CascadeTS"),
        (DBN(objective="clicks"), "CascadeKLUCB:feedback=last"),
        (DCM(objective="clicks"), "DCMKLUCB"),
        (PBM(), "PBMPIE"),
        (SDBN(), "CascadeSWUCB:feedback=last"),
        (UBM(), "RankedEXP3"),
    ],
    ids=str,
)
def test_simulator_equals_learner_for_all_users(model: ClickModel, spec: str) -> None:
    check_simulation(parse_policy(spec), environment=dataclasses.replace(small_world(), click_model=model))


def test_the_check_can_fail() -> None:
    class _Impostor(dr.CascadeUCB1):
        """Simulates one policy and serves another."""

        def start(self, items: Any, k: int, **options: Any) -> Any:
            return dr.CascadeTS().start(items, k, **options)

    with pytest.raises(AssertionError, match="differ at step"):
        check_simulation(_Impostor(), steps=50)


def _values(threads: int, specs: list[str] = SOME) -> np.ndarray:
    env = dr.environments.Abrupt(dr.queries.yandex_like(3, seed=1), k=3, period=700)
    return dr.simulate(specs, env, horizon=3000, runs=3, seed=5, threads=threads, progress=False).values


def test_threads_do_not_matter() -> None:
    one = _values(1)
    assert np.array_equal(one, _values(2))
    assert not np.isnan(one).any()


def test_units_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _values(2)
    # every run is a unit
    monkeypatch.setitem(UNIT_STEPS, "cpu", 1)
    monkeypatch.setattr("driftrank.engine.simulator.STRIDE", 7_770)  # kernels stop in the middle of epochs
    monkeypatch.setattr(Chunk, "NUMBERS", 40)  # one or two segments at a time
    assert np.array_equal(whole, _values(2))


def test_other_runs_queries_and_policies_do_not_matter() -> None:
    """A run is the same alone as in company."""
    env = dr.environments.Abrupt(dr.queries.yandex_like(3, seed=1), k=3, period=700)
    many = dr.simulate(SOME, env, horizon=2000, runs=3, progress=False)
    name = env.names[1]
    alone = dr.environments.Abrupt({name: env.queries[name]}, k=3, period=700)
    one = dr.simulate(["CascadeTS"], alone, horizon=2000, runs=3, progress=False)
    assert np.array_equal(one.values[:, 0, 0], many.values[:, SOME.index("CascadeTS"), 1])


def test_all_policies_meet_the_same_users() -> None:
    """Two policies that show the same lists get the same clicks."""
    env = small_world()
    result = dr.simulate(
        ["CascadeSWUCB:window=5000,epsilon=1.5", "CascadeSWUCB:window=6000,epsilon=1.5"],
        env,
        horizon=900,
        runs=2,
        progress=False,
    )
    assert np.array_equal(result.values[:, 0], result.values[:, 1])


def test_seeds_and_runs_differ() -> None:
    env = small_world()
    first = dr.simulate("CascadeTS", env, horizon=900, runs=2, seed=0, progress=False).values
    second = dr.simulate("CascadeTS", env, horizon=900, runs=2, seed=1, progress=False).values
    assert not np.array_equal(first[:, 0, 0, 0], first[:, 0, 0, 1])
    assert not np.array_equal(first, second)


def test_finished_units_are_delivered_when_interrupted() -> None:
    env = small_world()
    task = Task((parse_policy("CascadeDUCB"),), env, 2000, 0, (2000,))
    kept: list[Unit] = []

    def done(unit: Unit, measures: np.ndarray, seconds: float) -> None:
        kept.append(unit)
        if len(kept) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_cpu(task, [Unit(0, "q", (run,)) for run in range(400)], done, threads=2)
    assert 3 <= len(kept) < 400
    assert len(set(kept)) == len(kept)


def test_a_unit_stops_when_tick_returns_false() -> None:
    task = Task((parse_policy("CascadeDUCB"),), small_world(), 10**9, 0, (10**9,))
    assert Simulator(task, 0).run(Unit(0, "q", (0,)), lambda steps: False) is None


def test_memory_does_not_grow_with_the_horizon() -> None:
    import tracemalloc

    def peak(horizon: int) -> int:
        task = Task((parse_policy("CascadeDUCB"),), small_world(), horizon, 0, (horizon,))
        simulator = Simulator(task, 0)
        simulator.compile()
        tracemalloc.start()
        simulator.run(Unit(0, "q", (0,)), lambda steps: True)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10_000)
    assert peak(1_000_000) < 1.5 * peak(10_000) + 10_000
