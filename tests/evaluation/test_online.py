"""Replay of learners against learners that run by themselves, and its refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import driftrank as dr
from driftrank.evaluation.online import _Queues
from driftrank.evaluation.rows import LogRows
from tests.evaluation import worlds
from tests.evaluation.worlds import ALPHA, QUERIES, SHARES, draw, mixed, softmax, uniform, write

POLICY = "CascadeSoftmax:temperature=0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("online")


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    return write(folder / "uniform.parquet", draw(np.random.default_rng(1), 4000, uniform))


def online(lists: int, k: int, runs: int = 4) -> float:
    """The mean reward of the policy that runs by itself."""
    rng = np.random.default_rng(2)
    total = 0.0
    for run in range(runs):
        policy = dr.CascadeSoftmax(temperature=0.1)
        learners = [policy.start(range(worlds.L), k, seed=run, query=query) for query in QUERIES]
        for _ in range(lists):
            q = int(rng.random() >= SHARES[0])
            ranking = learners[q].rank()
            hits = np.flatnonzero(rng.random(k) < ALPHA[q][list(ranking)])
            total += len(hits) > 0
            learners[q].update(ranking, int(hits[0]) + 1 if len(hits) else None)
    return total / lists / runs


def test_by_labels(log: Path) -> None:
    """At three positions of six the labels of a good list last for one list in a few."""
    found = dr.evaluate(log, POLICY, value_of="online", changes=0)[POLICY]
    assert found.value_of == "online"
    assert found.whole.estimator == "label-replay"
    assert found.grade == "C"
    assert found.low is None  # the error of one run is not known
    pace = round(4000 / found.whole.lists)
    assert 2 <= pace <= 6
    assert f"one list for every {pace} logged ones" in found.notes[0]
    assert found.value == pytest.approx(online(found.whole.lists, 3), abs=0.05)
    assert found.difference is None


def test_labels_are_used_once(log: Path) -> None:
    with LogRows(dr.logs.open_log(log), 3) as rows:
        queues = _Queues(rows)
        times = np.linspace(0, rows.lists_of[0], 10_000).astype(int)  # more than there are labels
        taken = [queues.take(0, 0, t) for t in times]
        clicks = rows.labels.totals()[1][0]
        assert sum(label is not None for label in taken) == rows.labels.totals()[0][0]
        assert sum(label is True for label in taken) == clicks
        assert queues.copy().take(0, 0, 0) is not None
        assert queues.copy().take(0, 0, 10**6) is None  # too old
        assert queues.take(0, "never shown", 0) is None


def test_by_lists(log: Path) -> None:
    """A policy that shows one of six items has a sixth of the lists accepted."""
    found = dr.evaluate(log, POLICY, value_of="online", replay="lists", k=1, changes=0)[POLICY]
    assert found.whole.lists == pytest.approx(4000 / 6, rel=0.15)
    assert found.grade == "B"
    assert found.low < online(600, 1) < found.high  # type: ignore[operator]


def test_lists_are_thinned(folder: Path) -> None:
    """Random lists in a log that shows good items more often: only lists accepted with equal chances are fair."""
    path = write(folder / "softmax.parquet", draw(np.random.default_rng(3), 8000, softmax))
    found = dr.evaluate(path, "Random", value_of="online", replay="lists", k=1, changes=0)["Random"]
    truth = sum(share * alpha.mean() for share, alpha in zip(SHARES, ALPHA, strict=True))
    assert found.low < truth < found.high  # type: ignore[operator]
    assert found.high < truth + 0.1  # type: ignore[operator]


def test_refusals(folder: Path, log: Path) -> None:
    few = dr.evaluate(log, POLICY, value_of="online", replay="lists", changes=0)[POLICY]  # 1 in 120
    assert [refusal.code for refusal in few.refused] == ["few"]
    assert few.refused[0].needs is not None
    assert few.refused[0].needs > 4000
    drawn = draw(np.random.default_rng(6), 2000, uniform)
    drawn.first[:] = 4
    silent = dr.evaluate(write(folder / "silent.parquet", drawn), POLICY, value_of="online", replay="lists", k=1)
    assert [refusal.code for refusal in silent[POLICY].refused] == ["few"]  # and not 0 with an interval of no width
    changed = write(folder / "changed.parquet", draw(np.random.default_rng(4), 6000, uniform, change=3000))
    found = dr.evaluate(changed, POLICY, value_of="online", replay="lists", k=1)[POLICY]
    assert [refusal.code for refusal in found.refused] == ["replay-under-change"]
    assert found.value is None
    wrong = write(folder / "mixed.parquet", draw(np.random.default_rng(5), 20_000, softmax, mixed))
    other = dr.evaluate(wrong, POLICY, value_of="online", changes=0)[POLICY]
    assert "model-misfit" in [refusal.code for refusal in other.refused]
    with pytest.raises(ValueError, match="objective='clicks': must be 'any'"):
        dr.evaluate(log, POLICY, value_of="online", objective="clicks", changes=0)
    with pytest.raises(ValueError, match="unknown target"):
        dr.evaluate(log, [POLICY, "best-now"], value_of="online", against=POLICY, changes=0)
