"""CUSUM and Page-Hinkley."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.detecting.detectors import CUSUM, DetectorPlan, PageHinkley
from tests.reference.detectors import PlainCUSUM, PlainPageHinkley, alarms

pytestmark = pytest.mark.interpreted  # short streams: compiling takes longer


def test_cusum_by_hand():
    """After 0, 0 the mean is 0: the walk climbs to 0.9, 1.8, 2.7."""
    detector = CUSUM(calibration=2, slack=0.1, h=2)
    assert detector.run([0, 0, 1, 1, 1]) == [5]
    assert detector.run([0, 0, 1, 1]) == []
    assert CUSUM(calibration=2, slack=0.1, h=2.7 + 1e-9).run([0, 0, 1, 1, 1]) == []


def test_the_labels_that_give_the_mean_do_not_enter_the_walks():
    assert CUSUM(calibration=10, slack=0.1, h=2).run([0] * 5 + [1] * 5 + [1] * 5) == []  # 0.4 each
    assert CUSUM(calibration=10, slack=0.1, h=2).run([0] * 5 + [1] * 5 + [1] * 6) == [16]


def test_cusum_sees_a_fall():
    assert CUSUM(calibration=2, slack=0.1, h=2).run([1, 1, 0, 0, 0]) == [5]


def test_page_hinkley_by_hand():
    """Means 1/11, 2/12, 3/13: the walk climbs to 0.809, 1.542, 2.212."""
    assert PageHinkley(slack=0.1, h=2).run([0] * 10 + [1] * 3) == [13]
    assert PageHinkley(slack=0.1, h=2).run([1] * 10 + [0] * 3) == [13]
    assert PageHinkley(slack=0.1, h=2.3).run([0] * 10 + [1] * 3) == []


@given(st.lists(st.integers(0, 1), max_size=80), st.sampled_from([0.5, 1.5, "auto", "anytime"]), st.integers(0, 3))
@settings(max_examples=100)
def test_same_alarms_as_the_plain_versions(stream, h, slack):
    options = {"h": h, "slack": slack / 10 + 0.013}
    n = max(1, len(stream))
    assert CUSUM(calibration=5, **options).run(stream) == alarms(
        lambda: PlainCUSUM(1, n, calibration=5, **options), stream
    )
    assert PageHinkley(**options).run(stream) == alarms(lambda: PlainPageHinkley(1, n, **options), stream)


def test_defaults_of_the_paper():
    """h = ln(n / Upsilon), p = sqrt(Upsilon / n ln(n / Upsilon))."""
    plan = DetectorPlan(10, 100_000)
    assert CUSUM().numbers(plan)["walk_h"] == pytest.approx(math.log(100_000))
    assert CUSUM(n_breakpoints=9).numbers(plan)["walk_h"] == pytest.approx(math.log(100_000 / 9))
    assert PageHinkley().numbers(plan)["walk_h"] == pytest.approx(math.log(100_000))
    assert CUSUM().exploration(plan, 9) == pytest.approx(math.sqrt(9e-5 * math.log(100_000 / 9)))


def test_rare_clicks_that_stop_are_below_the_slack():
    """A mean of 0.05 that falls to 0 leaves no trace with a slack of 0.1."""
    stream = [0] * 19 + [1] + [0] * 10_000
    assert CUSUM(calibration=20, slack=0.1, h=2).run(stream) == []
    assert CUSUM(calibration=20, slack=0.01, h=2).run(stream) != []


@pytest.mark.parametrize("detector", [CUSUM, PageHinkley])
@pytest.mark.parametrize(
    "options", [{"h": 0}, {"h": "high"}, {"slack": -0.1}, {"slack": 1}, {"slack": np.nan}, {"n_breakpoints": 0}]
)
def test_bad_values(detector, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        detector(**options)


def test_bad_calibration():
    with pytest.raises(ValueError, match="calibration=0"):
        CUSUM(calibration=0)
