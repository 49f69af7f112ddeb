"""Environments that bring their own data: LowCTR, GarivierMoulines, LinearFeatures."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from driftrank.environments import GarivierMoulines, LinearFeatures, LowCTR


def test_low_ctr():
    environment = LowCTR(segments=9, horizon=900)
    assert environment.stretches(900)[0].tolist() == [1 + 100 * n for n in range(9)]
    assert environment.stretches(1800)[0].tolist() == [1 + 100 * n for n in range(18)]  # and so on
    alphas = environment.stretches(90_000)[1]
    assert alphas.min() >= 0.01
    assert alphas.max() <= 0.08
    change = np.abs(np.diff(alphas, axis=0))
    assert change[change > 0].min() >= 0.01
    assert (change == 0).mean() == pytest.approx(1 - (6 / 7) ** 2, abs=0.03)  # two of 0.07 apart by less than 0.01
    first = np.array([environment.attraction(1, run=run) for run in range(100)]).ravel()
    assert stats.kstest((first - 0.01) / 0.07, "uniform").pvalue > 1e-3


def test_low_ctr_without_flattening():
    environment = LowCTR(segments=1, horizon=100, flat=0.0, low=0.0, high=1.0)
    alphas = environment.stretches(50_000)[1]
    assert stats.kstest(alphas.ravel(), "uniform").pvalue > 1e-3
    assert LowCTR(flat=1.0).breakpoints(100_000) == []


@pytest.mark.parametrize(("segments", "horizon"), [(9, 100_000), (7, 100), (3, 3), (4, 7)])
def test_equal_segments(segments, horizon):
    environment = LowCTR(segments=segments, horizon=horizon, flat=0.0)
    lengths = np.diff(np.append(environment.stretches(horizon)[0], horizon + 1))
    assert len(lengths) == segments
    assert lengths.max() - lengths.min() <= 1


def test_garivier_moulines_abrupt():
    environment = GarivierMoulines()
    assert environment.kind == GarivierMoulines.kind == "abrupt"
    assert environment.attraction(3000).tolist() == [0.5, 0.3, 0.4] + [0.1] * 7
    assert environment.attraction(3001)[2] == environment.attraction(5000)[2] == 0.9
    assert environment.attraction(5001)[2] == environment.attraction(10**6)[2] == 0.4
    assert [environment.best(t) for t in (1, 3001, 5001)] == [[0], [2], [0]]
    assert environment.variation(10_000) == pytest.approx(1.0)


def test_garivier_moulines_sinusoid():
    environment = GarivierMoulines(shape="sinusoid", horizon=1000, cycles=2)
    assert environment.kind == "drift"
    third = environment.stretches(1000)[1][:, 2]
    assert third == pytest.approx([0.5 + 0.4 * math.cos(2 * math.pi * 2 * t / 1000) for t in range(1000)], abs=1e-12)
    assert environment.stretches(1000)[1][:, :2].tolist() == [[0.5, 0.3]] * 1000
    assert environment.attraction(1)[2] == environment.queries["Garivier-Moulines"][2] == 0.9
    assert pickle.loads(pickle.dumps(environment)).kind == "drift"
    assert len(GarivierMoulines(shape="sinusoid").breakpoints(10_000)) > 990


def test_linear_features():
    environment = LinearFeatures(L=40, d=6, n_queries=3, period=100)
    assert len(environment.queries) == 3
    assert environment.kind == "abrupt"
    for query in range(3):
        x = environment.features(query)
        assert (x**2).sum(axis=1) == pytest.approx(1, abs=1e-7)
        for t in (1, 150, 250):
            alpha = environment.attraction(t, query, run=1)
            theta, *_ = np.linalg.lstsq(x, alpha, rcond=None)
            np.testing.assert_allclose(x @ theta, alpha, atol=1e-7)  # linear, to the digits that are kept
            assert theta[0] == pytest.approx(math.sqrt(2) * 0.25, abs=1e-6)
            assert np.linalg.norm(theta[1:]) == pytest.approx(math.sqrt(2) * 0.25, abs=1e-6)
    assert not np.allclose(environment.features(0), environment.features(1))
    assert environment.features("linear-0-1").tolist() == environment.features(1).tolist()


def test_linear_features_first_and_later():
    environment = LinearFeatures(period=100)
    assert environment.attraction(1, run=3).tolist() == environment.attraction(100).tolist()
    assert environment.attraction(101, run=0).tolist() != environment.attraction(101, run=1).tolist()
    still = LinearFeatures()
    assert still.kind == "stationary"
    assert still.breakpoints(10**9) == []
    assert still.attraction(10**9).tolist() == environment.attraction(1).tolist()
    assert LinearFeatures(seed=1).attraction(1).tolist() != still.attraction(1).tolist()


def test_features_belong_to_the_caller():
    environment = LinearFeatures(L=5)
    environment.features(0)[:] = 0
    assert environment.features(0).any()


def test_linear_features_are_clipped():
    environment = LinearFeatures(middle=0.1, spread=1.0, period=10)
    assert environment.attraction(1).min() == environment.attraction(11).min() == 0
    assert environment.attraction(1).max() <= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LowCTR(K=11), "K=11"),
        (lambda: LowCTR(low=0.1), "low=0.1"),
        (lambda: LowCTR(high=1.5), "high=1.5"),
        (lambda: LowCTR(segments=0), "segments=0"),
        (lambda: LowCTR(segments=9, horizon=5), "horizon=5"),
        (lambda: LowCTR(flat=-1), "flat=-1"),
        (lambda: GarivierMoulines(shape="round"), "shape='round'"),
        (lambda: GarivierMoulines(L=2), "L=2"),
        (lambda: GarivierMoulines(K=11), "K=11"),
        (lambda: GarivierMoulines(horizon=1), "horizon=1"),
        (lambda: GarivierMoulines(cycles=0), "cycles=0"),
        (lambda: LinearFeatures(d=1), "d=1"),
        (lambda: LinearFeatures(period=0), "period=0"),
        (lambda: LinearFeatures(K=51), "K=51"),
        (lambda: LinearFeatures(n_queries=0), "n_queries=0"),
        (lambda: LinearFeatures(middle=2), "middle=2"),
        (lambda: LinearFeatures(spread=-1), "spread=-1"),
        (lambda: LinearFeatures(seed=-1), "seed=-1"),
    ],
)
def test_bad_values(make, message):
    with pytest.raises(ValueError, match=message):
        make()
