from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.environments import Abrupt, Environment, PiecewiseRandom
from driftrank.experiments import Sweep, sweep
from driftrank.experiments.sweeps.halving import CLEAR, LEAST, order, rounds, rungs, survivors
from driftrank.queries import Queries, yandex_like

SPECS = ["CascadeSWUCB:window=geom(20,4000,12)", "CascadeDUCB:discount=1-geom(0.0003,0.3,9)"]
HOW: dict[str, Any] = {"horizon": 3000, "runs": 2, "progress": False}


def environment(seed: int = 0, queries: int = 30) -> Environment:
    return Abrupt(yandex_like(queries, seed=seed), k=3, period=1000)


@pytest.fixture(scope="module")
def full() -> Sweep:
    return sweep(SPECS, environment(), **HOW)


@pytest.fixture(scope="module")
def halved() -> Sweep:
    return sweep(SPECS, environment(), halving=True, **HOW)


# -- the rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1, 5, 11, 12, 40, 600, 1001])
def test_rungs_grow_to_all(total: int) -> None:
    found = rungs(total)
    assert found[-1] == total
    assert found == sorted(set(found))
    assert found[0] >= min(total, LEAST)


def test_order_is_run_after_run_and_always_the_same() -> None:
    queries, runs = order(["a", "b", "c", "d", "e"], 3, seed=1)
    assert runs.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    for run in range(3):
        assert sorted(queries[runs == run]) == [0, 1, 2, 3, 4]
    assert len({tuple(queries[runs == run]) for run in range(3)}) > 1  # shuffled
    again = order(["a", "b", "c", "d", "e"], 5, seed=1)
    assert (again[0][:15] == queries).all()  # more runs come after these


def test_survivors_are_the_better_half_and_all_that_may_be_the_best() -> None:
    rng = np.random.default_rng(0)
    users = rng.normal(0, 100, 20)  # what all settings have in common says nothing
    clear = np.array([0.0, 1.0, 2.0, 50.0, 60.0, 70.0])[:, None] + users + rng.normal(0, 0.1, (6, 20))
    assert survivors(clear).tolist() == [True, True, True, False, False, False]
    unclear = rng.normal(0, 5, (6, 20)) + users
    means = unclear.mean(axis=1)
    kept = survivors(unclear)
    assert kept.sum() > 3
    above = unclear - unclear[means.argmin()]
    error = above.std(axis=1, ddof=1) / np.sqrt(20)
    assert all(above[i].mean() > CLEAR * error[i] for i in np.flatnonzero(~kept))
    assert survivors(np.zeros((3, 8))).all()  # all the same


def test_rounds_add_runs_and_drop_settings() -> None:
    regret = np.arange(8.0)[:, None, None] + np.random.default_rng(1).normal(0, 0.01, (8, 6, 8))
    masks = [mask.copy() for mask in rounds(regret, [[0, 1, 2, 3, 4, 5]], {7}, order(list("abcdef"), 8, 0))]
    counts = np.array([mask.sum(axis=(1, 2)) for mask in masks])
    assert counts[:, 6].tolist() == [0] * len(masks)  # nobody's
    assert counts[:, 7].tolist() == rungs(48)  # makes all
    assert counts[:, 0].tolist() == rungs(48)  # the best
    assert counts[-1].tolist() == [48, 24, 12, 6, 6, 6, 0, 48]
    for before, after in itertools.pairwise(masks):
        assert (after | ~before).all()


# -- sweeps --------------------------------------------------------------------------------------------------------


def test_runs_made_are_those_of_the_full_sweep(full: Sweep, halved: Sweep) -> None:
    mine, its = halved.trials[0].result, full.trials[0].result
    assert mine.specs == its.specs
    assert (mine.values[:, mine.finished] == its.values[:, mine.finished]).all()
    made, wanted = halved.runs
    assert wanted == full.runs[0] == full.runs[1]
    assert made < 0.6 * wanted
    assert halved.to_arrow().num_rows == made * 10


def test_it_is_deterministic(halved: Sweep) -> None:
    again = sweep(SPECS, environment(), halving=True, threads=1, **HOW)
    assert again.to_arrow().equals(halved.to_arrow())


def test_best_and_theory_have_all_runs(full: Sweep, halved: Sweep) -> None:
    for policy in halved.policies:
        best = halved.best(policy)
        assert best.spec == full.best(policy).spec
        assert best.regret == full.best(policy).regret
        assert (best.saved, best.saved_error) == (full.best(policy).saved, full.best(policy).saved_error)
        found = halved.regret(policy)
        assert found.complete.sum() < len(found.complete)
        assert set(found.runs) <= set(rungs(60))


def test_regret_of_dropped_settings_is_near_that_of_all_runs(full: Sweep, halved: Sweep) -> None:
    """Nearer than the plain mean of the few runs, which met other queries."""
    ours, plain = [], []
    for policy in halved.policies:
        found, true = halved.regret(policy), full.regret(policy)
        raw = np.array([np.nanmean(halved.trials[0].result.values[0, halved.places[point.spec], ..., -1])
                        for point in halved.family(policy).points])  # fmt: skip
        dropped = ~found.complete
        assert (np.abs(found.mean - true.mean)[dropped] <= 4 * found.error[dropped]).all()
        assert (found.mean[~dropped] == true.mean[~dropped]).all()
        ours += list(np.abs(found.mean / true.mean - 1)[dropped])
        plain += list(np.abs(raw / true.mean - 1)[dropped])
    assert np.mean(ours) < np.mean(plain)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_clearly_best_is_never_dropped(seed: int) -> None:
    """Four times two worlds, each with users of its own."""
    kinds: list[Environment] = [
        environment(seed, 12),
        PiecewiseRandom(yandex_like(12, seed=seed), k=3, horizon=2000, n_breakpoints=4, spacing=200),
    ]
    how = {"horizon": 2000, "runs": 4, "seed": seed, "progress": False}
    specs = ["CascadeSWUCB:window=geom(20,2000,10)", "CascadeDTS:discount=1-geom(0.001,0.3,10)"]
    full, halved = (sweep(specs, kinds, halving=halving, **how) for halving in (False, True))
    for name in full.environments:
        for policy in full.policies:
            true, found = full.best(policy, name), halved.best(policy, name)
            if true.ties == 0:
                assert found.spec == true.spec
            # and what is found instead of one that is not clearly best is as good
            mean, error = full.difference(found.spec, true.spec, name)
            assert mean <= error


def test_real_queries(yandex40: Queries) -> None:
    how: dict[str, Any] = {"horizon": 3000, "runs": 1, "progress": False}
    env = Abrupt(yandex40, k=3, period=750)
    full, halved = (sweep(SPECS, env, halving=halving, **how) for halving in (False, True))
    for policy in full.policies:
        assert halved.best(policy).spec == full.best(policy).spec
    assert halved.runs[0] < 0.7 * halved.runs[1]


def test_too_few_runs_to_drop_any() -> None:
    found = sweep("CascadeSWUCB:window={20;200}", environment(queries=2), halving=True, horizon=100, progress=False)
    assert found.runs == (6, 6)


def test_continued_without_halving_it_is_the_full_sweep(full: Sweep, tmp_path: Path) -> None:
    halved = sweep(SPECS, environment(), halving=True, folder=tmp_path, **HOW)
    assert Sweep.load(tmp_path).halving
    assert Sweep.load(tmp_path).to_arrow().equals(halved.to_arrow())
    rest = sweep(SPECS, environment(), folder=tmp_path, resume=True, **HOW)
    assert rest.to_arrow().equals(full.to_arrow())
    assert not Sweep.load(tmp_path).halving
