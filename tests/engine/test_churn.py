"""Items that come and go, in simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.alarm_scoring import HEAD, note_change, watch_size
from driftrank.engine.contract import check_simulation
from driftrank.environments import Churn
from driftrank.environments.base import Chunk
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.ranked.ranked_exp3 import RankedEXP3
from driftrank.policies.stationary.cascade_ts import CascadeTS

LEVELS = {"q": [0.7, 0.5, 0.45, 0.3, 0.2, 0.2, 0.1, 0.05, 0.02, 0.0]}
SOME = [CascadeTS(), CascadeSWUCB(window=60), RankedEXP3()]


def churn(**options: Any) -> Churn:
    return Churn(LEVELS, **{"k": 3, "period": 40, **options})


@pytest.mark.parametrize("policy", SOME, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("absent", [0, 4])
def test_simulator_equals_learner(policy: Any, announced: bool, absent: int) -> None:
    check_simulation(policy, steps=300, environment=churn(announced=announced, absent=absent))


def test_just_enough_items() -> None:
    """As many there as are shown: the list is all of them."""
    check_simulation(CascadeTS(), steps=200, environment=churn(absent=7))
    task = Task((CascadeTS(),), churn(absent=7), 500, 0, (500,))
    measures = Simulator(task, 0).run(Unit(0, "q", (0,)), lambda done: True)
    assert measures is not None
    assert measures[0, 0, 0] == pytest.approx(0, abs=1e-9)


def regret(policy: Any, **options: Any) -> float:
    task = Task((policy,), churn(period=200, **options), 20_000, 0, (20_000,))
    measures = Simulator(task, 0).run(Unit(0, "q", (0, 1, 2, 3)), lambda done: True)
    assert measures is not None
    return float(measures[:, 0, 0].mean())


def test_announcements_help() -> None:
    assert regret(CascadeTS()) < 0.5 * regret(CascadeTS(), announced=False)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arrival is announced once, however the work is cut."""
    task = Task((CascadeTS(),), churn(absent=2), 1500, 0, (500, 1500))
    whole = Simulator(task, 0).run(Unit(0, "q", (0, 1)), lambda done: True)
    monkeypatch.setattr("driftrank.engine.simulator.STRIDE", 333)
    monkeypatch.setattr(Chunk, "NUMBERS", 40)
    cut = Simulator(task, 0).run(Unit(0, "q", (0, 1)), lambda done: True)
    assert whole is not None
    np.testing.assert_array_equal(cut, whole)


def test_leaving_and_announced_arrivals_are_no_breakpoints() -> None:
    watch = np.zeros(watch_size(3))

    def noted(alpha: list[float], live: list[int], begin: int) -> list[float]:
        note_change(watch, np.array(alpha), np.array(live, np.int8), begin)
        return watch[HEAD : HEAD + 3].tolist()

    assert noted([0.1, 0.2, 0.0], [1, 1, 0], 1) == [0, 0, 0]
    assert noted([0.0, 0.2, 0.3], [0, 1, 1], 11) == [0, 0, 0]  # the third was never seen before
    assert noted([0.1, 0.2, 0.0], [1, 1, 0], 21) == [0, 0, 0]  # the first is what it was
    assert watch[0] == 0
    assert noted([0.1, 0.0, 0.9], [1, 0, 1], 31) == [0, 0, 31]  # the third is not, and nobody says so
    assert watch[0] == 31
    assert noted([0.1, 0.7, 0.9], [1, 2, 1], 41) == [0, 0, 31]
    assert watch[0] == 31


def test_whole_simulations() -> None:
    result = dr.simulate([CascadeTS()], churn(absent=3), horizon=400, runs=2, progress=False)
    assert result.complete
    assert result.breakpoints == [40 * n for n in range(1, 10)]
