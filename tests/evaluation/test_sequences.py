"""Confidence sequences: oracle values, and the plain version."""

from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.evaluation.sequences import BUCKETS, bucket_error, lists_needed, mixture_width
from tests.reference import sequences as plain


def test_oracle_value():
    """X = 0,1,1,0,2 forty times, planned for 200: mean .8, variance .56 (from the specification of evaluation)."""
    half = math.sqrt(0.56) * mixture_width(200, 200)
    assert (0.8 - half, 0.8 + half) == pytest.approx((0.639379274, 0.960620726), abs=1e-9)
    low, high = plain.sequence([0, 1, 1, 0, 2] * 40, 200)
    assert (low[-1], high[-1]) == pytest.approx((0.639379274, 0.960620726), abs=1e-9)


def test_width_by_hand():
    """rho^2 = (5.9915 + 1.7903 + 1) / 100 = .087818; at t = 100: sqrt(2 * 9.7818 / 878.18 * ln(3.1276 / .05))."""
    assert mixture_width(100, 100) == pytest.approx(math.sqrt(2 * 9.7818 / 878.18 * math.log(3.1276 / 0.05)), rel=1e-4)


@pytest.mark.parametrize(("share", "half"), [(0.5, 0.0207), (0.2, 0.0257), (0.05, 0.0471)])
def test_half_widths_of_a_holdout(share, half):
    """Those of the specification after 20,000 lists: clicks on .35 of the lists, .41 of the live ones in the second
    half. A centred term has the variance p (1 - p) (1 / h + 1 / (1 - h)).
    """
    p = 0.35 + 0.03 * (1 - share)
    sd = math.sqrt(p * (1 - p) * (1 / share + 1 / (1 - share)))
    assert sd * mixture_width(20_000, 20_000) == pytest.approx(half, rel=0.015)


@pytest.mark.parametrize("t", [1, 10, 1000, 10**7])
def test_wider_than_one_look_everywhere(t):
    assert mixture_width(t, 1000) * math.sqrt(t) > 1.55 * 1.96 - 0.01


def test_lists_needed():
    n = lists_needed(0.01, 1.0, 20_000)
    assert mixture_width(n, 20_000) <= 0.01 < mixture_width(n - 1, 20_000)


def test_bucket_error_is_the_jackknife():
    rng = np.random.default_rng(1)
    psi, bucket = rng.normal(size=3000), rng.integers(0, BUCKETS, 3000)
    sums, counts = np.bincount(bucket, psi, BUCKETS), np.bincount(bucket, minlength=BUCKETS)
    found = bucket_error(sums.tolist(), counts.tolist())
    assert found == pytest.approx(plain.jackknife(psi, bucket), rel=1e-12)
    assert found == pytest.approx(psi.std() / math.sqrt(3000), rel=0.15)


def test_one_bucket_tells_nothing():
    assert bucket_error([3.0, 0.0], [5, 0]) == math.inf


def test_a_sequence_holds_at_all_times():
    """Of 200 runs that are looked at after every term from 100 on, about .01 miss; of normal intervals, about .4."""
    rng = np.random.default_rng(2)
    x = (rng.random((200, 3000)) < 0.3).astype(float)
    t = np.arange(1, 3001)
    missed = normal = 0
    for run in x:
        low, high = plain.sequence(run, 3000)
        missed += bool(((low > 0.3) | (high < 0.3))[99:].any())
        mean = np.cumsum(run) / t
        normal += bool((np.abs(mean - 0.3) > 1.96 * np.sqrt(mean * (1 - mean) / t))[99:].any())
    assert missed <= 10 < 50 < normal
