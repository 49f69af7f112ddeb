from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from driftrank.experiments.leaderboards.significance import holm, paired_p, student_p


@given(st.floats(-200, 200), st.integers(1, 2000))
def test_student_is_that_of_scipy(t: float, freedom: int) -> None:
    # the tail of scipy has only eight digits near 0, where the density is flat
    flat = 1.0 - 2.0 * abs(t) * scipy.stats.t.pdf(0.0, freedom)
    expected = flat if abs(t) < 1e-5 else 2.0 * scipy.stats.t.sf(abs(t), freedom)
    assert student_p(t, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("n", "shift"), [(2, 0.0), (5, 0.3), (12, 1.0), (40, -2.0), (40, 0.0)])
def test_paired_test_is_that_of_scipy(n: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(shift, 1.0, n), rng.normal(0.0, 1.0, n)
    assert paired_p(a - b) == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_cauchy_by_hand() -> None:
    """With one degree of freedom: 1 - 2 arctan(t) / pi, and a half at t = 1."""
    assert student_p(1.0, 1) == pytest.approx(0.5)
    assert student_p(math.sqrt(3.0), 1) == pytest.approx(1 / 3)


def test_nothing_to_test() -> None:
    assert math.isnan(paired_p([]))
    assert math.isnan(paired_p([3.0]))
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([2.0, 2.0]) == 0.0


def test_holm_by_hand() -> None:
    # sorted: .01 .02 .03 .04, times 4 3 2 1: .04 .06 .06 .04, and never less than the one before
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_leaves_out_what_was_not_tested() -> None:
    adjusted = holm([0.02, math.nan, 0.03])
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_nothing_and_bonferroni(values: list[float]) -> None:
    for p, adjusted in zip(values, holm(values), strict=True):
        assert p <= adjusted <= min(1.0, len(values) * p)
