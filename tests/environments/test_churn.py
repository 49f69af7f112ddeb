from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.environments import Churn

BASE = {"q": [0.05, 0.6, 0.3, 0.02, 0.5, 0.1, 0.2, 0.4, 0.15, 0.25]}


def live(environment, n, run=0):
    """By step, the state of items: absent (0), present (1) or new (2)."""
    starts, _, _, _, there = environment.unroll(1, n, 0, run, 0)
    return starts, there


def test_one_item_is_replaced_at_a_time():
    environment = Churn(BASE, period=100)
    starts, alphas, _ = environment.stretches(20_000)
    assert starts.tolist() == [1 + 100 * n for n in range(200)]
    assert ((np.diff(alphas, axis=0) != 0).sum(axis=1) <= 1).all()
    assert set(alphas.ravel().tolist()) == set(BASE["q"])  # the query's own levels
    assert alphas[0].tolist() == BASE["q"]
    counts = (np.diff(alphas, axis=0) != 0).sum(axis=0)
    assert counts.min() > 5  # any of them


@settings(max_examples=25)
@given(st.integers(0, 7), st.integers(0, 50))
def test_absent_items(absent, run):
    environment = Churn(BASE, period=10, absent=absent, announced=True)
    starts, there = live(environment, 400, run)
    alphas = environment.stretches(400, 0, run)[1]
    assert ((there == 0).sum(axis=1) == absent).all()
    assert (alphas[there == 0] == 0).all()
    assert (alphas[there > 0] > 0).all()
    for n in range(1, len(starts)):
        left = np.flatnonzero((there[n - 1] > 0) & (there[n] == 0))
        came = np.flatnonzero((there[n - 1] == 0) & (there[n] > 0))
        assert len(left) == len(came) == (1 if absent else 0)
        new = np.flatnonzero(there[n] == 2)
        assert len(new) == 1
        assert absent == 0 or new == came
        others = np.setdiff1d(np.arange(10), [*left, *new])
        assert (alphas[n, others] == alphas[n - 1, others]).all()
    assert (there[0] <= 1).all()


def test_an_arrival_is_announced_at_its_first_step_only():
    environment = Churn(BASE, period=10)
    new = [t for t in range(1, 41) if (environment.unroll(t, t, 0, 0, 0)[4][0] == 2).any()]
    assert new == [11, 21, 31]
    quiet = Churn(BASE, period=10, announced=False, absent=2)
    assert (live(quiet, 400)[1] <= 1).all()


def test_the_same_world_announced_or_not():
    announced, unannounced = Churn(BASE, period=10), Churn(BASE, period=10, announced=False)
    np.testing.assert_array_equal(announced.stretches(500)[1], unannounced.stretches(500)[1])
    assert announced.churns
    assert not unannounced.churns
    assert Churn(BASE, announced=False, absent=1).churns
    assert unannounced.present(15) == announced.present(15) == list(range(10))


def test_everyone_is_away_at_times():
    environment = Churn(BASE, period=1, absent=3)
    away = (live(environment, 5000)[1] == 0).mean(axis=0)
    assert away == pytest.approx(0.3, abs=0.06)
    first = np.array([np.isin(np.arange(10), environment.present(1, run=run), invert=True) for run in range(300)])
    assert first.mean(axis=0) == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"period": 0}, "period=0"),
        ({"announced": "yes"}, "announced='yes'"),
        ({"absent": -1}, "absent=-1"),
        ({"absent": 8}, "absent=8: must be an integer from 0 to 7, the items of query 'q' without the 3"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=message):
        Churn(BASE, **change)
