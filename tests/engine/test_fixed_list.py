"""The best list that never changes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import best_fixed_list


def test_by_hand() -> None:
    """Two epochs of the same length: items 0 and 1 are best by default, 2 and 3 when boosted."""
    env = dr.environments.Abrupt({"q": [0.6, 0.5, 0.0, 0.0]}, k=2, period=100, boost=0.9, n_boosted=2)
    # the sum over both epochs: {0,1} 0.8 + 0.8, {0,2} 0.6 + 0.96, {2,3} 0 + 0.99
    assert sorted(best_fixed_list(env, 200).tolist()) == [0, 1]
    strong = dr.environments.Abrupt({"q": [0.6, 0.1, 0.0, 0.0]}, k=2, period=100, boost=0.9, n_boosted=2)
    # {0,1} 0.64 + 0.64, {0,2} 0.6 + 0.96
    assert best_fixed_list(strong, 200).tolist() in ([0, 2], [0, 3], [2, 0], [3, 0])


def value(env: dr.environments.Environment, horizon: int, items: tuple[int, ...], run: int) -> float:
    starts, alphas, _ = env.stretches(horizon, 0, run)
    lengths = np.diff(np.append(starts, horizon + 1))
    return float(lengths @ (1 - (1 - alphas[:, list(items)]).prod(axis=1)))


@pytest.mark.parametrize("enumerate_up_to", [10**6, 0])
def test_against_every_set(monkeypatch: pytest.MonkeyPatch, enumerate_up_to: int) -> None:
    """Enumerated, it is the best; built greedily and improved, it is the best here too."""
    monkeypatch.setattr("driftrank.engine.fixed_list.ENUMERATE", enumerate_up_to)
    env = dr.environments.Abrupt(dr.queries.yandex_like(1, seed=4), k=3, period=130)
    for run in range(4):
        best = max(value(env, 1000, items, run) for items in combinations(range(10), 3))
        found = best_fixed_list(env, 1000, 0, run)
        assert len(set(found.tolist())) == 3
        assert value(env, 1000, tuple(found.tolist()), run) == pytest.approx(best)
