from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from driftrank.environments import PiecewiseRandom
from driftrank.environments.reflect import reflected

BASE = {"q": [0.05, 0.6, 0.3, 0.02, 0.5, 0.1, 0.2, 0.4, 0.15, 0.25]}


@pytest.mark.parametrize(
    ("x", "expected"),
    [(0.0, 0.0), (0.3, 0.3), (1.0, 1.0), (-0.1, 0.1), (1.1, 0.9), (2.3, 0.3), (-1.2, 0.8), (3.9, 0.1)],
)
def test_reflected(x, expected):
    assert reflected(x) == pytest.approx(expected)
    if 0 <= x <= 1:
        assert reflected(x) == x


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 300), st.integers(0, 1000))
def test_so_many_breakpoints_and_so_far_apart(n, spacing, free, seed):
    horizon = n * spacing + free
    environment = PiecewiseRandom(BASE, n_breakpoints=n, horizon=horizon, spacing=spacing)
    steps = environment.breakpoints(3 * horizon, seed=seed)
    assert len(steps) == 3 * n
    for cycle in range(3):  # the same density for ever
        assert sum(cycle * horizon < step < (cycle + 1) * horizon for step in steps) == n
    assert np.diff([0, *steps]).min() >= spacing


def test_breakpoints_are_uniform():
    """Less the spacing, they are uniform numbers, sorted."""
    environment = PiecewiseRandom(BASE, n_breakpoints=4, horizon=10_000, spacing=500)
    steps = np.array([environment.breakpoints(10_000, run=run) for run in range(500)])
    free = (steps - 500 * np.arange(1, 5)) / 8000
    assert stats.kstest(free.ravel(), "uniform").pvalue > 1e-3
    for i in range(4):
        assert stats.kstest(free[:, i], stats.beta(i + 1, 4 - i).cdf).pvalue > 1e-3


def test_geometric_segments():
    environment = PiecewiseRandom(BASE, n_breakpoints=10, horizon=1000, spacing=20, times="geometric")
    lengths = np.diff([0, *environment.breakpoints(200_000)])
    assert lengths.min() == 20
    assert lengths.mean() == pytest.approx(100, rel=0.1)
    # geometric beyond the spacing: memoryless, standard deviation as large as the mean
    assert lengths.std() == pytest.approx(80, rel=0.15)
    assert stats.kstest(lengths - 20 + np.random.default_rng(0).random(len(lengths)), "expon", (0, 80)).pvalue > 1e-3


def test_how_items_change():
    environment = PiecewiseRandom(BASE, n_breakpoints=40, horizon=1000, spacing=2, smallest=0.05, largest=0.3)
    amounts = np.diff(environment.stretches(40_000)[1], axis=0)
    changed = amounts != 0
    assert changed.any(axis=1).all()
    assert changed.mean() == pytest.approx(0.5, abs=0.03)
    assert np.abs(amounts).max() <= 0.3 + 1e-12  # reflection makes changes smaller, never larger
    inner = np.abs(amounts[changed])
    assert inner.mean() == pytest.approx(0.175, abs=0.02)
    assert abs(np.sign(amounts[changed]).mean()) < 0.05


def test_one_item_always_changes():
    environment = PiecewiseRandom(BASE, n_breakpoints=40, horizon=1000, spacing=2, probability=0.0)
    amounts = np.diff(environment.stretches(20_000)[1], axis=0)
    assert ((amounts != 0).sum(axis=1) == 1).all()
    assert ((amounts != 0).sum(axis=0) > 40).all()  # any of them


def test_start():
    assert PiecewiseRandom(BASE).attraction(1000).tolist() == BASE["q"]
    own = PiecewiseRandom(BASE, start="uniform")
    levels = np.array([own.attraction(1, run=run) for run in range(100)])
    assert stats.kstest(levels.ravel() * 2, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_breakpoints": 0}, "n_breakpoints=0"),
        ({"horizon": 6000}, "horizon=6000: must be more than the 6000 steps"),
        ({"spacing": 0}, "spacing=0"),
        ({"times": "poisson"}, "times='poisson'"),
        ({"start": "zero"}, "start='zero'"),
        ({"probability": 1.1}, "probability=1.1"),
        ({"smallest": 0.4}, "smallest=0.4"),
        ({"largest": 1.4}, "largest=1.4"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=message):
        PiecewiseRandom(BASE, **change)
