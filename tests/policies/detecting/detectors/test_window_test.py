from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.detecting.detectors import DetectorPlan, WindowTest
from tests.reference.detectors import PlainWindowTest, alarms

pytestmark = pytest.mark.interpreted  # short streams: compiling takes longer


def test_by_hand():
    """Sums of the halves 0 and 2, then 1 and 1."""
    assert WindowTest(window=4, b=1.5).run([0, 0, 1, 1]) == [4]
    assert WindowTest(window=4, b=1.5).run([0, 1, 0, 1]) == []
    assert WindowTest(window=4, b=1.5).run([1, 1, 0, 0]) == [4]
    assert WindowTest(window=4, b=2).run([0, 0, 1, 1]) == []  # more than b, not as much


def test_no_alarm_before_the_window_is_full():
    assert WindowTest(window=6, b=1.5).run([0, 0, 0, 1, 1]) == []


def test_nothing_is_left_after_an_alarm():
    """0, 0, 1, 1 fires; of the ones in the ring none may count against what follows."""
    assert WindowTest(window=4, b=1.5).run([0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1]) == [4]


def test_threshold_by_hand():
    """b = sqrt(400 ln(2 * 10 * 10^10)) = 102.02; a change by less than b / 400 = 0.255 is not seen."""
    numbers = WindowTest(window=800).numbers(DetectorPlan(10, 100_000))
    assert numbers["ring_b"] == pytest.approx(102.02, abs=0.005)
    assert numbers["ring_b"] / 400 == pytest.approx(0.255, abs=0.001)
    expected = math.sqrt(9 * 10 * (2 * 102.0227 + 3 * math.sqrt(800)) / 2e5)
    assert WindowTest(window=800).exploration(DetectorPlan(10, 100_000), 9) == pytest.approx(expected, rel=1e-5)


@given(
    st.lists(st.integers(0, 1), max_size=150),
    st.sampled_from([2, 6, 16, 34, 40]),
    st.sampled_from([0.5, 2, 3.5, "auto", "anytime"]),
)
@settings(max_examples=100)
def test_same_alarms_as_the_plain_version(stream, window, b):
    """Also with rings of several words, the last of them part full."""
    plain = alarms(lambda: PlainWindowTest(1, max(1, len(stream)), window=window, b=b), stream)
    assert WindowTest(window=window, b=b).run(stream) == plain


@pytest.mark.parametrize("options", [{"window": 3}, {"window": 0}, {"window": 2.0}, {"b": 0}, {"b": "wide"}])
def test_bad_values(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        WindowTest(**options)
