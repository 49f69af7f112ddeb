"""Changes that are hard to see, or not worth acting on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.environments import OrderOnly, Recurring, Scaling, Silent

levels = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=3, max_size=8)


def top(environment, t, run=0):
    return set(environment.best(t, run=run))


@settings(max_examples=40)
@given(levels, st.integers(1, 2), st.integers(0, 20))
def test_silent(base, k, run):
    environment = Silent([base], k=k, period=10, gain=0.25)
    default = np.array(base)
    best = environment.best(1)
    assert environment.attraction(10, run=run).tolist() == base
    for epoch in (1, 2, 3):
        alpha = environment.attraction(10 * epoch + 1, run=run)
        changed = set(np.flatnonzero(alpha != default))
        assert not changed & set(best)
        last = min(default[best])
        if last < 1:
            assert len(changed) == 1
            risen = changed.pop()
            assert alpha[risen] == last + 0.25 * (1 - last)
            assert risen in environment.best(10 * epoch + 1, run=run)


def test_silent_takes_turns():
    environment = Silent([[0.9, 0.8, 0.1, 0.2, 0.3, 0.4]], k=2, period=1)
    risen = {int(np.flatnonzero(a != [0.9, 0.8, 0.1, 0.2, 0.3, 0.4])[0]) for a in environment.stretches(100)[1][1:]}
    assert risen == {2, 3, 4, 5}


@settings(max_examples=40)
@given(levels, st.integers(1, 3), st.integers(1, 200))
def test_order_only(base, k, t):
    environment = OrderOnly([base], k=k, period=10)
    alpha, best = environment.attraction(t), environment.best(1)
    assert environment.optimal_value(t) == environment.optimal_value(1)
    assert sorted(alpha[best]) == sorted(np.array(base)[best])
    others = np.setdiff1d(np.arange(len(base)), best)
    assert alpha[others].tolist() == np.array(base)[others].tolist()
    shift = (t - 1) // 10 % k
    assert alpha[best].tolist() == np.roll(np.array(base)[best], -shift).tolist()


def test_order_only_changes_the_order():
    environment = OrderOnly([[0.1, 0.5, 0.3, 0.4]], k=3, period=10)
    assert [environment.best(t) for t in (1, 11, 21, 31)] == [[1, 3, 2], [2, 1, 3], [3, 2, 1], [1, 3, 2]]


@settings(max_examples=40)
@given(levels, st.integers(1, 3), st.sampled_from([0.25, 0.5, 1.0]))
def test_scaling(base, k, factor):
    environment = Scaling([base], k=k, period=10, factor=factor)
    for t in (1, 10, 21, 30):
        assert environment.attraction(t).tolist() == base
    for t in (11, 20, 31):
        assert environment.attraction(t).tolist() == [factor * x for x in base]
        assert environment.best(t) == environment.best(1)
    assert environment.variation(100) == pytest.approx(9 * (1 - factor) * max(base))


def test_recurring():
    base = [0.05, 0.6, 0.3, 0.02, 0.5, 0.1]
    environment = Recurring([base], k=2, regimes=3, period=10)
    alphas = environment.stretches(90)[1]
    assert alphas[0].tolist() == base
    np.testing.assert_array_equal(alphas[:3], alphas[3:6])
    np.testing.assert_array_equal(alphas[:3], alphas[6:])
    assert len({tuple(a) for a in alphas}) == 3
    assert all(sorted(a) == sorted(base) for a in alphas)
    seconds = np.array([environment.attraction(11, run=run) for run in range(600)])
    for a in range(6):  # any item may have any level
        assert [(seconds[:, a] == level).mean() for level in base] == pytest.approx([1 / 6] * 6, abs=0.07)
    assert Recurring([base], k=2, regimes=1).breakpoints(10**5) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Silent([[0.1, 0.2]], k=2), "k=2: query '0' has no items outside its top 2"),
        (lambda: Silent([[0.1, 0.2]], k=1, gain=0.0), "gain=0.0"),
        (lambda: Silent([[0.1, 0.2]], k=1, period=0), "period=0"),
        (lambda: OrderOnly([[0.1, 0.2]], k=1, period=0), "period=0"),
        (lambda: Scaling([[0.1, 0.2]], k=1, period=0), "period=0"),
        (lambda: Scaling([[0.1, 0.2]], k=1, factor=1.2), "factor=1.2"),
        (lambda: Recurring([[0.1, 0.2]], k=1, regimes=0), "regimes=0"),
        (lambda: Recurring([[0.1, 0.2]], k=1, period=-1), "period=-1"),
    ],
)
def test_bad_values(make, message):
    with pytest.raises(ValueError, match=message):
        make()
