from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from driftrank.kernels import kl as kernels
from driftrank.kernels.compile import specialise


def of_two(x, y):
    return FUNCTION(x, y)  # noqa: F821


kl, kl_ucb, kl_lcb, level = (
    specialise(of_two, {"FUNCTION": f}) for f in (kernels.kl, kernels.kl_ucb, kernels.kl_lcb, kernels.exploration_level)
)

probabilities = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12, 1e-300, 0.5])
levels = st.floats(1e-9, 50) | st.floats(1e-14, 1e-9)


def by_bisection(p, d):
    """max {q in [p, 1]: kl(p, q) <= d}, from the definition."""
    low, high = p, 1.0
    for _ in range(80):
        q = (low + high) / 2
        if rel_entr(p, q) + rel_entr(1 - p, 1 - q) <= d:
            low = q
        else:
            high = q
    return low


@pytest.mark.parametrize(
    ("bound", "p", "d", "value"),
    [
        (kl_ucb, 0.0, 0.1, 0.095162582),
        (kl_ucb, 0.0, 0.5, 0.393469340),
        (kl_ucb, 0.1, 0.1, 0.282379139),
        (kl_lcb, 0.1, 0.1, 0.016564358),
        (kl_ucb, 0.5, 0.1, 0.712878631),
        (kl_ucb, 0.9, 0.1, 0.983435642),
        (kl_lcb, 1.0, 0.1, 0.904837418),
    ],
)
def test_known_values(bound, p, d, value):
    assert bound(p, d) == pytest.approx(value, abs=6e-10)


def test_known_values_of_cascade_kl_ucb():
    # N = 10, X = 5, t = 100
    assert level(100, 3.0) / 10 == pytest.approx(0.918671, abs=5e-7)
    assert kl_ucb(0.5, level(100, 3.0) / 10) == pytest.approx(0.958465, abs=5e-7)
    assert kl_ucb(0.5, level(100, 0.0) / 10) == pytest.approx(0.887909, abs=5e-7)


def test_exploration_level():
    assert level(1, 3.0) == level(1, 0.0) == 0.0
    assert level(2, 3.0) == pytest.approx(math.log(2))  # ln ln 2 < 0 does not count
    assert level(1000, 3.0) == pytest.approx(math.log(1000) + 3 * math.log(math.log(1000)), rel=1e-15)
    values = [level(t, 3.0) for t in range(1, 200)]
    assert values == sorted(values)


@given(probabilities, levels)
def test_bound_from_the_definition(p, d):
    # the definition itself is not known better where kl(p, q) is all rounding
    tolerance = 1e-9 if d >= 1e-9 else 1e-6
    assert kl_ucb(p, d) == pytest.approx(by_bisection(p, d), abs=tolerance)


@given(probabilities, levels)
def test_bounds_stay_between_p_and_the_end(p, d):
    assert p <= kl_ucb(p, d) <= 1.0
    assert 0.0 <= kl_lcb(p, d) <= p + 1.2e-16  # 1 - (1 - p) is not always p


@given(probabilities, levels)
def test_bounds_are_mirror_images(p, d):
    # of what 1 - p is when it has been rounded
    assert kl_lcb(1 - p, d) == 1.0 - kl_ucb(1 - (1 - p), d)


@given(probabilities, st.floats(0, 30), st.floats(0, 30))
def test_more_doubt_gives_a_higher_bound(p, d, more):
    low, high = sorted([d, more])
    assert kl_ucb(p, low) <= kl_ucb(p, high) + 1e-9


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-9, 30))
def test_a_better_item_has_a_higher_bound(p, other, d):
    low, high = sorted([p, other])
    assert kl_ucb(low, d) <= kl_ucb(high, d) + 1e-9


@given(st.floats(0, 1), st.floats(1e-9, 30))
def test_bound_is_below_pinskers(p, d):
    assert kl_ucb(p, d) <= p + math.sqrt(d / 2) + 1e-9


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.999999999, 1.0])
def test_no_doubt_and_no_knowledge(p):
    assert kl_ucb(p, 0.0) == kl_ucb(p, -1.0) == p
    assert kl_lcb(p, 0.0) == pytest.approx(p, abs=1.2e-16)
    assert kl_ucb(p, math.inf) == 1.0
    assert kl_lcb(p, math.inf) == 0.0


@pytest.mark.parametrize("d", [1e-15, 1e-6, 0.01, 1.0, 5.0, 40.0])
def test_closed_forms_at_the_ends(d):
    assert kl_ucb(0.0, d) == pytest.approx(1 - math.exp(-d), abs=1e-10)
    assert kl_ucb(1.0, d) == 1.0
    assert kl_lcb(1.0, d) == pytest.approx(math.exp(-d), abs=1e-10)
    assert kl_lcb(0.0, d) == 0.0


@pytest.mark.parametrize("d", [1e-40, 1e-18, 1e-13, 1e-12, 1e-11])
def test_hardly_any_doubt(d):
    for p in (1e-3, 0.1, 0.5, 0.9):
        assert kl_ucb(p, d) - p == pytest.approx(math.sqrt(2 * d * p * (1 - p)), rel=1e-2, abs=2e-10)


@settings(max_examples=200)
@given(st.floats(0, 1), st.floats(0.001, 0.999))
def test_divergence(p, q):
    assert kl(p, q) == pytest.approx(rel_entr(p, q) + rel_entr(1 - p, 1 - q), abs=1e-14)


def test_divergence_at_the_ends():
    assert kl(0.0, 0.0) == kl(1.0, 1.0) == 0.0
    assert kl(0.5, 0.0) == kl(0.5, 1.0) == kl(1.0, 0.0) == kl(0.0, 1.0) == math.inf
    assert kl(0.0, 0.5) == kl(1.0, 0.5) == pytest.approx(math.log(2))


def test_a_grid_near_one():
    """Cases in which Newton's steps are short at any distance."""
    for p in (0.2, 0.5, 0.9, 0.99, 0.9999):
        for d in np.geomspace(1e-3, 30, 40):
            assert kl_ucb(p, d) == pytest.approx(by_bisection(p, d), abs=1e-10)
