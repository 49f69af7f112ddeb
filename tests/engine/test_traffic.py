"""Simulations of Traffic: the same numbers as learners advanced list by list, however the work is done."""

from __future__ import annotations

import pickle
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import MEASURES, Task, Unit
from driftrank.engine.devices import NoGpuWarning, suited
from driftrank.engine.simulators import simulator_of
from driftrank.engine.traffic import simulator as traffic_simulator
from driftrank.environments import Abrupt, Traffic
from driftrank.environments.traffic.stream import QueryStream
from driftrank.environments.traffic.traffic import AGES
from driftrank.experiments import Result
from driftrank.policies.base import Policy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.ranked_items import RankedItems, described_at
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.registry import parse_policy

SMALL: dict[str, Any] = {"n_queries": 12, "candidates": 8, "K": 3, "catalogue": 30, "d": 3, "topics": 4}
CHANGING: dict[str, Any] = {
    "day": 40, "new": 0.1, "shift": 0.2, "shift_days": 1, "query_shift": 0.3, "shock": 0.2, "shuffle": 110,
}  # fmt: skip
#: queries with 2 to 7 candidates: some lists are shorter than others
STREAM = QueryStream.of(
    {f"query {q}": [f"item {(3 * q + n) % 20}" for n in range(2 + q % 6)] for q in range(12)},
    order=[(i * i) % 12 for i in range(70)],
)
WORLDS = {
    "still": Traffic(**SMALL),
    "changing": Traffic(**SMALL, **CHANGING, going_on=0.8),
    "late": Traffic(**SMALL, **CHANGING, delay=17),
    "jitter": Traffic(**SMALL, jitter=2.0, after_click=1.0, examination_power=0.5),
    "no order": Traffic(**SMALL, caller="none"),
    "warm": Traffic(**SMALL, **CHANGING, going_on=0.8, jitter=1.0, warm=90),
    "stream": Traffic(stream=STREAM, K=3, d=3, day=40, new=0.1, shift=0.2, jitter=1.0, delay=3),
}
LISTS = 130  #: the caller's order has changed by then


class ByHand:
    """A learner for every query, and one shared model, advanced list by list."""

    def __init__(self, policy: Policy, world: Traffic, seed: int, run: int) -> None:
        self.policy, self.world, self.lists = policy, world, world.run(run, seed)
        self.shared = SharedModel(policy) if policy.shared_fields(policy.parameters(problem(policy, world))) else None
        self.learners: dict[int, Any] = {}
        self.items: dict[int, list[int]] = {}
        self.waiting: deque[tuple[int, Any, list[int]]] = deque()

    def step(self, i: int) -> tuple[float, ...]:
        """Regret, reward, clicks and the caller's value of list ``i``."""
        lists = self.lists
        lists.go_to(i)
        q, items = lists.query, lists.items.tolist()
        learner = self._learner(q, items)
        slots, place = lists.call()
        prior = None
        if self.shared is not None:
            order = slots.astype(int)
            dense = lists.features[order] if lists.features.size else None
            tokens, topics = lists.items[order], lists.topics.tolist()
            x = describe(q, tokens.tolist(), places=place[order], dense=dense, crosses=topics, tokens=tokens)
            prior = self.shared.prior(x)
        options = {} if prior is None else {"prior": prior}
        if i <= self.world.warm:
            ranking = self._adopted(learner, [items[a] for a in slots[: lists.k]], prior)
        else:
            ranking = learner.rank([items[a] for a in slots], k=lists.k, key=lists.policy_key, **options)
        shown = [items.index(item) for item in ranking]
        value, clicks = lists.value(shown), lists.clicks(shown)
        self.waiting.append((q, ranking, clicks))
        if len(self.waiting) > self.world.delay:
            self._learn(*self.waiting.popleft())
        return lists.optimal - value, value, sum(clicks), lists.baseline

    def _adopted(self, learner: Any, shown: list[int], prior: Any) -> RankedItems:
        """The caller's own list, with the notes of a policy with a shared model; those of others are lost."""
        n = len(shown)
        if prior is None:
            return RankedItems(shown, np.zeros(n), np.full(n * self.policy.memo, -1.0), self.lists.policy_key)
        first = described_at(prior.described, np.arange(n))
        return learner.adopt(shown, key=self.lists.policy_key, prior=self.shared.prior(first))  # type: ignore[union-attr]

    def _learner(self, q: int, items: list[int]) -> Any:
        features = dict(zip(items, self.lists.features, strict=True)) if self.policy.contextual else None
        if q not in self.learners:
            self.learners[q] = self.policy.start(
                items, self.world.k, horizon=LISTS, features=features, slots=self.world.candidates
            )
        new = [item for item in items if item not in self.learners[q].items]
        if new:
            self.learners[q].remove_items([old for a, old in enumerate(self.items[q]) if items[a] != old])
            described = {} if features is None else {"features": {item: features[item] for item in new}}
            self.learners[q].add_items(new, **described)
        self.items[q] = items
        return self.learners[q]

    def _learn(self, q: int, ranking: Any, clicks: list[int]) -> None:
        if self.shared is not None:
            self.shared.learn(ranking, clicks)
        if set(ranking) <= set(self.learners[q].items):
            self.learners[q].update(ranking, clicks)


def problem(policy: Policy, world: Traffic) -> Any:
    return Task((policy,), world, LISTS, 0, (LISTS,)).problem("traffic", policy)


def check(policy: Policy, world: Traffic, seed: int = 3, run: int = 1) -> None:
    task = Task((policy,), world, LISTS, seed, tuple(range(1, LISTS + 1)))
    task.check(policy)
    measures = simulator_of(task, 0).run(Unit(0, "traffic", (run,)), lambda lists: True)
    assert measures is not None
    places = [task.measures.index(name) for name in ("regret", "reward", "clicks", "baseline")]
    by_hand = ByHand(policy, world, seed, run)
    total = np.zeros(4)
    for i in range(1, LISTS + 1):
        total += by_hand.step(i)
        assert measures[0, i - 1, places].tolist() == total.tolist(), f"list {i}"


@pytest.mark.interpreted
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("name", ["CascadeUCB1", "CascadeRegimeTS", "PriorRegimeTS:hash_bits=6", "CascadeLinUCB"])
def test_simulator_equals_learners(name: str, world: Traffic) -> None:
    check(parse_policy(name), world)


@pytest.mark.parametrize(
    "name", ["CascadeUCB1", *(pytest.param(n, marks=pytest.mark.slow) for n in ("CascadeRegimeTS", "PriorRegimeTS"))]
)
def test_compiled_simulator_equals_learners(name: str) -> None:
    check(parse_policy(name), WORLDS["late"])


def simulated(specs: list[str], world: Traffic, **options: Any) -> Result:
    return dr.simulate(specs, world, **{"horizon": 2000, "runs": 3, "seed": 5, "progress": False} | options)


@pytest.mark.slow
def test_threads_and_kernel_calls_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = ["CascadeUCB1", "CascadeTS"]
    whole = simulated(specs, WORLDS["late"], threads=1)
    monkeypatch.setattr(traffic_simulator, "STRIDE", 7 * 25 * 8)
    assert np.array_equal(whole.values, simulated(specs, WORLDS["late"], threads=2).values)
    alone = simulated(["CascadeTS"], pickle.loads(pickle.dumps(WORLDS["late"])), runs=1)
    assert np.array_equal(whole.values[:, 1:, :, :1], alone.values)


@pytest.mark.interpreted
def test_a_warm_start_shows_the_callers_order_and_teaches() -> None:
    """Until then the policy is as good as the caller; a policy that was warm is better than one that was not."""
    cold, warm = (simulated(["CascadeTS"], Traffic(**SMALL, warm=n), checkpoints=[1000]) for n in (0, 1000))
    first, later = warm.against_caller("CascadeTS", [0, 1000, 2000])
    assert first.gain == 0
    assert later.regret < cold.against_caller("CascadeTS", [0, 1000])[0].regret


def test_every_run_is_a_unit() -> None:
    units = []
    simulated(["CascadeUCB1"], WORLDS["still"], on_unit=lambda label, unit, *_: units.append(unit.runs))
    assert sorted(units) == [(0,), (1,), (2,)]


@pytest.mark.interpreted
def test_all_policies_meet_the_same_users() -> None:
    """If a list has all candidates, cascade users click the same in any order."""
    world = Traffic(n_queries=12, candidates=4, K=4, catalogue=20)
    result = simulated(["CascadeUCB1", "DynamicOracle"], world)
    assert np.array_equal(result.values_of("CascadeUCB1", "clicks"), result.values_of("DynamicOracle", "clicks"))
    assert result.values_of("CascadeUCB1", "clicks")[..., -1].min() > 0
    world = WORLDS["changing"]
    result = simulated(["CascadeUCB1", "DynamicOracle"], world)
    assert np.array_equal(result.values_of("CascadeUCB1", "baseline"), result.values_of("DynamicOracle", "baseline"))
    for a, b in (("reward", "regret"),):
        best = [result.values_of(p, a) + result.values_of(p, b) for p in result.labels]
        assert best[0] == pytest.approx(best[1])


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_truth_has_no_regret(world: Traffic) -> None:
    """A warm start shows the caller's order, so regret begins after it."""
    result = simulated(["DynamicOracle"], world, runs=1)
    regret = result.values_of("DynamicOracle", "regret")[0, 0]
    assert regret[-1] == regret[result.checkpoints >= world.warm][0]
    assert world.warm or not regret.any()
    assert (
        result.values_of("DynamicOracle", "reward")[0, 0, -1] > result.values_of("DynamicOracle", "baseline")[0, 0, -1]
    )


def test_a_perfect_caller_has_no_regret() -> None:
    result = simulated(["DynamicOracle"], Traffic(**SMALL, caller="perfect"), runs=1)
    (whole,) = result.against_caller("DynamicOracle", [0, 2000])
    assert whole.gain == pytest.approx(0, abs=1e-12)


def test_groups_add_up() -> None:
    result = simulated(["CascadeUCB1"], WORLDS["changing"])
    counts = np.array([WORLDS["changing"].run(run, 5).counts(2000) for run in range(3)])
    for kind in ("age", "frequency"):
        for measure in ("regret", "reward", "baseline"):
            parts = sum(result.values_of("CascadeUCB1", f"{measure}_{kind}_{least}") for least in AGES)
            assert parts == pytest.approx(result.values_of("CascadeUCB1", measure))
    for least, most in zip(AGES, (*AGES[1:], 10**9), strict=True):
        by_age = (np.clip(counts, None, most) - np.clip(counts, None, least)).sum(axis=1)
        assert result.values_of("CascadeUCB1", f"lists_age_{least}")[0, :, -1].tolist() == by_age.tolist()
        there = (counts * ((counts >= least) & (counts < most))).sum(axis=1)
        assert result.values_of("CascadeUCB1", f"lists_frequency_{least}")[0, :, -1].tolist() == there.tolist()


@pytest.mark.slow
def test_alarms_are_scored_query_by_query() -> None:
    world = Traffic(n_queries=2, candidates=6, K=3, catalogue=10, level=0.0, shuffle=1000)
    result = simulated(["GLRTCascadeKLUCB"], world, horizon=3000)
    alarms, detected, delay, false = (
        result.values_of("GLRTCascadeKLUCB", m)[0, :, -1] for m in ("alarms", "detected", "delay", "false_alarms")
    )
    assert (detected <= 2).all()
    assert (detected > 0).any()
    assert (delay <= detected * 2000).all()
    assert (alarms >= detected + false).all()


@pytest.mark.slow
def test_policies_that_restart_or_detect_run() -> None:
    result = simulated(["OracleRestart", "CascadeSWUCB", "RankedEXP3"], WORLDS["changing"], runs=1, horizon=300)
    assert result.complete


def test_refused() -> None:
    world = WORLDS["still"]
    with pytest.raises(ValueError, match="StaticOracle: cannot run in Traffic, which has many queries"):
        simulated(["StaticOracle"], world)
    with pytest.raises(ValueError, match="dense=2: must be an integer of at least 3"):
        simulated(["PriorRegimeTS:dense=2"], world)
    with pytest.raises(ValueError, match="unknown measure 'baseline'"):
        dr.simulate("CascadeUCB1", Abrupt([[0.5] * 6], k=2), horizon=10, progress=False).against_caller("CascadeUCB1")


def test_states_that_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_simulator, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"CascadeUCB1: its states take 0 GiB, .* bytes for each of 12 queries"):
        simulated(["CascadeUCB1"], WORLDS["still"])


def test_a_gpu_is_not_used() -> None:
    with pytest.warns(NoGpuWarning, match="device='cuda': Traffic runs on the CPU only; the numbers are the same"):
        assert suited("cuda", WORLDS["still"]) == "cpu"
    assert suited("cpu", WORLDS["still"]) == "cpu"
    assert suited("cuda", Abrupt([[0.5] * 6], k=2)) == "cuda"


def test_folder_resumes_and_loads(tmp_path: Path) -> None:
    world, specs = WORLDS["changing"], ["CascadeUCB1", "DynamicOracle"]
    simulated(specs, world, folder=tmp_path, runs=1, checkpoints=10)
    units: list[Any] = []
    options: dict[str, Any] = {"folder": tmp_path, "checkpoints": 10, "resume": True}
    result = simulated(specs, world, on_unit=lambda *unit: units.append(unit), **options)
    assert len(units) == 4
    assert (tmp_path / "caller.png").read_bytes().startswith(b"\x89PNG")
    loaded = Result.load(tmp_path)
    assert loaded.measures == result.measures
    assert np.array_equal(loaded.values, result.values)
    assert np.array_equal(result.values, simulated(specs, world, checkpoints=10).values)
    assert loaded.by_age("DynamicOracle") == result.by_age("DynamicOracle")


def test_against_the_caller() -> None:
    result = simulated(["CascadeUCB1"], WORLDS["still"], checkpoints=[10, 500, 1000])
    windows = result.against_caller("CascadeUCB1")
    assert [window.first for window in windows] == [1, 11, 501, 1001]
    assert [window.name for window in windows] == ["1-10", "11-500", "501-1,000", "1,001-2,000"]
    reward, baseline = (result.values_of("CascadeUCB1", m)[0, :, -1] for m in ("reward", "baseline"))
    assert sum(w.lists * w.gain for w in windows) == pytest.approx((reward - baseline).mean())
    (whole,) = result.against_caller("CascadeUCB1", [0, 2000])
    assert whole.error == pytest.approx(((reward - baseline) / 2000).std(ddof=1) / np.sqrt(3))
    assert whole.regret == pytest.approx(result.regret("CascadeUCB1"))
    assert sum(g.regret for g in result.by_frequency("CascadeUCB1")) == pytest.approx(whole.regret)
    assert [g.name for g in result.by_age("CascadeUCB1")][:2] == ["0-9", "10-99"]
    assert "against the caller" in str(result.table())
    with pytest.raises(ValueError, match="step=700: is not one of the checkpoints"):
        result.against_caller("CascadeUCB1", [0, 700])
    assert len(result.plot_against_caller().axes) == 2


def test_beside_other_environments(tmp_path: Path) -> None:
    """Sweeps keep the measures of all environments only."""
    worlds = [WORLDS["still"], Abrupt([[0.5, 0.4, 0.3, 0.2, 0.1, 0.1]], k=2, period=100)]
    policies = ["CascadeUCB1:exploration={0.5;1}"]
    sweep = dr.sweep(policies, worlds, horizon=300, runs=2, folder=tmp_path, progress=False)
    loaded = type(sweep).load(tmp_path)
    for before, after in zip(sweep.trials, loaded.trials, strict=True):
        assert after.result.measures == MEASURES
        assert np.array_equal(before.result.values[: len(MEASURES)], after.result.values)
