from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftrank.environments import Abrupt, Stationary, Traffic
from driftrank.environments.base import Environment
from driftrank.experiments import leaderboard
from driftrank.experiments.leaderboards.sharing import Copy, copies, enter, to_make
from driftrank.experiments.simulation.folder import Journal
from driftrank.experiments.simulation.simulate import Simulation

ITEMS = [[0.5, 0.2, 0.1, 0.3], [0.5, 0.2, 0.1, 0.3, 0.4]]


def prepared(environment: Environment, *policies: str) -> Simulation:
    return Simulation.prepare(policies, environment, 200, 1, 0, 4)


def test_one_policy_with_two_names_and_one_world_in_two_parts() -> None:
    """Only those that agree in every number: not another parameter, not another world, not Traffic by other names."""
    here, there = Stationary(ITEMS, k=2), Abrupt(ITEMS, k=2, period=50, n_boosted=1)
    simulations = [
        prepared(here, "CascadeCD", "GLRTCascadeKLUCB", "GLRTCascadeKLUCB:c=1", "StaticOracle"),
        prepared(there, "GLRTCascadeKLUCB", "CascadeUCB1"),
        prepared(here, "CascadeUCB1", "GLRTCascadeKLUCB"),
        prepared(Traffic(n_queries=5), "CascadeCD", "GLRTCascadeKLUCB"),
        prepared(Traffic(n_queries=5), "GLRTCascadeKLUCB"),
    ]
    assert copies(simulations, ["here", "there", "here", "traffic", "traffic"]) == [
        [Copy(1, 0, 0)], [], [Copy(1, 0, 0)], [], [Copy(0, 3, 1)],
    ]  # fmt: skip


def test_copies_have_the_runs_of_their_source() -> None:
    first, second = prepared(Stationary(ITEMS, k=2), "Random"), prepared(Stationary(ITEMS, k=2), "CascadeTS", "Random")
    first.result.put(0, "1", [0], np.full((1, 4, 7), 3.0), seconds=1.5)
    theirs = [Copy(1, 0, 0)]
    assert to_make(second.result, theirs).tolist() == [[[True], [True]], [[False], [False]]]
    enter(second.result, theirs, [first])
    assert second.result.finished.tolist() == [[[False], [False]], [[False], [True]]]
    assert (second.result.busy, second.result.stepped) == ([0.0, 1.5], [0, 200])


def test_a_world_in_two_parts_runs_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[int] = []
    add = Journal.add
    monkeypatch.setattr(Journal, "add", lambda self, unit, *args: made.append(len(unit.runs)) or add(self, unit, *args))
    board = leaderboard(
        "yandex-like:3", policies=["CascadeUCB1"], environments=["Abrupt", "Abrupt-fair"], horizon=300, progress=False,
        folder=tmp_path,
    )  # fmt: skip
    assert sum(made) == 2 * 3
    (once,), (again,) = board.arenas, board.parts["fair"].arenas
    assert (once.result.values == again.result.values).all()
    assert once.result.stepped == again.result.stepped == [900, 900]
