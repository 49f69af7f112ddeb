from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from driftrank.environments import Drift
from driftrank.environments.drift import walk
from driftrank.kernels.rng import derive

BASE = {"q": [0.05, 0.6, 0.3, 0.02, 0.5, 0.1, 0.2, 0.4, 0.98, 0.25]}


def test_sinusoids():
    environment = Drift(BASE, amplitude=0.2, period=1000, block=1)
    wave = (environment.stretches(8000)[1] - np.clip(BASE["q"], 0.2, 0.8)) / 0.2
    assert wave.min(axis=0) == pytest.approx(-1, abs=1e-3)
    assert wave.max(axis=0) == pytest.approx(1, abs=1e-3)
    # of a cosine with frequency f, w(t + h) + w(t - h) = 2 cos(2 pi f h) w(t)
    h, inner = 100, wave[100:-100]
    factor = ((wave[2 * h :] + wave[: -2 * h]) * inner).sum(axis=0) / (inner**2).sum(axis=0)
    np.testing.assert_allclose(wave[2 * h :] + wave[: -2 * h], factor * inner, atol=1e-9)
    periods = 2 * np.pi * h / np.arccos(factor / 2)
    assert periods.min() >= 500
    assert periods.max() <= 1500
    assert np.ptp(periods) > 300
    assert np.ptp(wave[0]) > 0.5


def test_blocks_are_constant():
    for shape in ("sinusoid", "walk", "ramp"):
        environment = Drift(BASE, shape=shape, block=250)
        assert environment.stretches(2000)[0].tolist() == [1 + 250 * n for n in range(8)]
        assert environment.breakpoints(2000) == [250 * n for n in range(1, 8)]
        fine = Drift(BASE, shape=shape, block=50)
        if shape != "walk":  # a walk with other blocks takes other steps
            assert fine.attraction(251).tolist() == environment.attraction(251).tolist()


def test_ramps_are_straight():
    environment = Drift(BASE, shape="ramp", amplitude=0.1, period=500, block=1)
    alphas = environment.stretches(10_000)[1]
    assert (np.abs(alphas - np.clip(BASE["q"], 0.1, 0.9)) <= 0.1 + 1e-12).all()
    bend = np.abs(np.diff(alphas, n=2, axis=0)) > 1e-12
    for a in range(10):
        corners = np.flatnonzero(bend[:, a])
        corners = corners[np.append(True, np.diff(corners) > 1)]  # a corner between two steps bends at both
        assert len(corners) in (19, 20, 21)
        assert np.abs(np.diff(corners) - 500).max() <= 1
    assert environment.variation(10_000) > 0.1


def test_a_walk_is_a_random_walk():
    """Steps of variance 1, independent, wherever one looks."""
    keys = [np.uint64(derive(np.uint64(n), 0)) for n in range(400)]
    path = np.array([[walk(key, n) for n in range(260)] for key in keys[:40]])
    assert (path[:, 0] == 0).all()
    steps = np.diff(path, axis=1)
    assert stats.kstest(steps.ravel(), "norm").pvalue > 1e-3
    for lag in (1, 2, 3, 8):
        pairs = np.corrcoef(steps[:, :-lag].ravel(), steps[:, lag:].ravel())[0, 1]
        assert abs(pairs) < 4 / np.sqrt(steps.size)
    ends = np.array([walk(key, 1_000_000) for key in keys])
    assert ends.std() == pytest.approx(1000, rel=0.15)


def test_how_far_a_walk_goes():
    environment = Drift([[0.5] * 400], k=1, shape="walk", amplitude=0.1, period=1000, block=10)
    assert environment.attraction(1).tolist() == [0.5] * 400
    assert environment.attraction(1001).std() == pytest.approx(0.1, rel=0.12)
    assert environment.attraction(251).std() == pytest.approx(0.05, rel=0.12)


@given(st.integers(1, 6), st.integers(1, 50), st.integers(1, 600), st.integers(0, 100))
def test_the_variation_budget(L, period, n, seed):
    environment = Drift([[0.2] * L], k=1, shape="budget", amplitude=0.25, period=period)
    batches = -(-n // period)
    assert environment.variation(n, seed=seed) == pytest.approx(0.25 * (batches - 1) * (L > 1))
    alphas = environment.stretches(n, seed=seed)[1]
    assert (np.sort(alphas, axis=1)[:, :-1] == 0.2).all()
    assert alphas.max(axis=1) == pytest.approx(0.45)


def test_the_adversary_is_fair():
    environment = Drift([[0.0] * 5], k=1, shape="budget", period=1)
    chosen = environment.stretches(20_000)[1].argmax(axis=1)
    assert (np.diff(chosen) != 0).all()
    for part in (chosen, chosen[::2], chosen[1::2]):
        counts = np.bincount(part, minlength=5)
        assert counts / len(part) == pytest.approx(0.2, abs=0.015)


def test_amplitude_fits_near_the_edges():
    environment = Drift([[0.0, 1.0, 0.5]], k=1, shape="budget", amplitude=0.3, period=10)
    alphas = environment.stretches(1000)[1]
    assert set(np.round(alphas[:, 0], 9)) == {0.0, 0.3}
    assert set(np.round(alphas[:, 1], 9)) == {0.7, 1.0}


def test_defaults_by_shape():
    assert (Drift(BASE).amplitude, Drift(BASE).period) == (0.13, 20_000)
    assert Drift(BASE, shape="ramp").period == 3000
    assert Drift(BASE, shape="walk", amplitude=0.3).amplitude == 0.3
    assert Drift(BASE) == Drift(BASE, amplitude=0.13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": "square"}, "shape='square'"),
        ({"amplitude": 0.6}, "amplitude=0.6"),
        ({"amplitude": "high"}, "amplitude='high': must be a number"),
        ({"period": "long"}, "period='long': must be an integer"),
        ({"period": 0}, "period=0"),
        ({"block": 0}, "block=0"),
        ({"start": "x"}, "start='x'"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=message):
        Drift(BASE, **change)
