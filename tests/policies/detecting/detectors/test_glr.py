from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.detecting.detectors import GLR
from driftrank.policies.detecting.detectors.convex_hull import VERTICES
from tests.reference.detectors import PlainGLR, alarms, statistic


@st.composite
def zeros_and_ones(draw):
    """Streams of all kinds: any labels, coins that change, coins that drift."""
    seed = draw(st.integers(0, 2**32))
    n = draw(st.integers(0, 300))
    kind = draw(st.sampled_from(["any", "pieces", "drift", "rare"]))
    if kind == "any":
        return draw(st.lists(st.integers(0, 1), max_size=60))
    rng = np.random.default_rng(seed)
    if kind == "pieces":
        p = np.repeat(rng.random(4), 75)[:n]
    elif kind == "drift":
        p = np.linspace(*rng.random(2), n)
    else:
        p = np.repeat([0.01, 0.05, 0.99], 100)[:n]
    return (rng.random(n) < p).astype(int).tolist()


@pytest.mark.parametrize(
    ("stream", "G", "at"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], 8 * math.log(2), 4),
        ([0] * 10 + [1] * 4, 8.375774, 10),
        ([0] * 10 + [1] * 10, 13.862944, 10),
        ([0, 0, 0], 0, 0),
        ([1, 1], 0, 0),
        ([], 0, 0),
    ],
)
def test_statistic_by_hand(stream, G, at):
    assert GLR().statistic(stream) == (pytest.approx(G, abs=1e-6), at)


def test_threshold_by_hand():
    """ln(3 N^(3/2) / delta), and 2 T(x) + 6 ln(1 + ln N) worked out with another tool's Lambert function."""
    assert GLR(delta=0.05).beta(8) == pytest.approx(7.213507, abs=1e-6)
    assert GLR(delta=0.05).beta(14) == pytest.approx(8.052931, abs=1e-6)
    assert GLR(delta=0.05, threshold="jmlr").beta(8) == pytest.approx(7.213507 - math.log(3), abs=1e-6)
    assert GLR(delta=0.05, threshold="exact").beta(8) == pytest.approx(33.3, abs=0.05)
    assert GLR().beta(8, horizon=100) == pytest.approx(math.log(3 * 8**1.5 * 100))


def lambert(y):
    """The u >= 1 with u - ln u = y."""
    from scipy.special import lambertw

    return -float(lambertw(-np.exp(-y), -1).real)


@pytest.mark.parametrize(("N", "delta"), [(2, 0.5), (8, 0.05), (1000, 1e-5), (10**6, 1e-9)])
def test_exact_threshold(N, delta):
    def tilde(x):
        if x >= lambert(1 / math.log(1.5)):
            return math.exp(1 / lambert(x)) * lambert(x)
        return 1.5 * (x - math.log(math.log(1.5)))

    x = math.log(3 * N**1.5 / delta) / 2
    T = 2 * tilde((lambert(1 + x) + math.log(math.pi**2 / 3)) / 2)
    expected = 2 * T + 6 * math.log(1 + math.log(N))
    assert GLR(delta=delta, threshold="exact").beta(N) == pytest.approx(expected, rel=1e-9)


def test_alarm_by_hand():
    """At the fourth one the ratio is 8.375774, the threshold 8.052931."""
    assert GLR(delta=0.05).run([0] * 10 + [1] * 10) == [14]
    assert GLR(delta=0.05).run([0, 0, 0, 0, 1, 1, 1, 1]) == []


@given(zeros_and_ones())
@settings(max_examples=150)
def test_hulls_find_what_a_full_scan_finds(stream):
    value, _ = GLR().statistic(stream)
    assert value == pytest.approx(statistic(stream)[0], abs=1e-9)


@given(
    zeros_and_ones(),
    st.sampled_from([0.5, 0.05, 1e-4, "auto", "anytime"]),
    st.sampled_from(["leading", "jmlr"]),
    st.sampled_from([1, 1, 7]),
)
@settings(max_examples=150)
def test_fires_when_a_full_scan_does(stream, delta, threshold, every):
    """No test is put off too long, and none is missed."""
    options = {"delta": delta, "threshold": threshold, "every": every}
    assert GLR(**options).run(stream) == alarms(lambda: PlainGLR(1, max(1, len(stream)), **options), stream)


@pytest.mark.parametrize("p", [0.5, 0.03])
@pytest.mark.compiled
def test_a_million_tosses_of_a_coin_need_few_points(p):
    stream = np.random.default_rng(1).random(1_000_000) < p
    detector = GLR(delta=1e-6)
    state, fired = detector._watch(detector._labels(stream), restart=False)
    assert not fired.any()
    assert 5 < state["hull_size"].max() < VERTICES / 2
    for side, size in enumerate(state["hull_size"][0]):
        assert state["hull"][0, side, size - 1].tolist() == [1_000_000, stream.sum()]


def farey(order):
    """A stream whose lower hull has a corner for every fraction up to 1 with denominators up to ``order``."""
    slopes = sorted({(a / b, a, b) for b in range(1, order) for a in range(b + 1) if math.gcd(a, b) == 1})
    return [y for _, a, b in slopes for y in [1] * a + [0] * (b - a)]


def test_a_full_hull_drops_the_flattest_corners():
    """Small is left out, and what is left finds nearly the same."""
    stream = farey(20)
    detector = GLR(delta=1e-300)  # so that it never fires
    state, fired = detector._watch(detector._labels(stream), restart=False)
    assert state["hull_size"].max() == VERTICES
    assert not fired.any()
    at, ones = state["hull"][0, 0].astype(np.int64).T
    assert (at[-1], ones[-1]) == (len(stream), sum(stream))
    assert (np.cumsum([0, *stream])[at] == ones).all()  # points of the walk, and convex
    assert (np.diff(ones)[1:] * np.diff(at)[:-1] > np.diff(ones)[:-1] * np.diff(at)[1:]).all()
    value, full = detector.statistic(stream)[0], statistic(stream)[0]
    assert value <= full + 1e-9
    assert value == pytest.approx(full, rel=1e-3)


@pytest.mark.compiled
def test_false_alarms_are_rare():
    """A hundred streams that never change: with delta = 0.01 each may cry wolf once in a hundred."""
    rng = np.random.default_rng(0)
    cries = sum(bool(GLR(delta=0.01).run(rng.random(2000) < p)) for p in np.linspace(0.02, 0.98, 100))
    assert cries <= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": "small"}, "delta"),
        ({"threshold": "none"}, "threshold='none'"),
        ({"every": 0}, "every=0"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message):
        GLR(**options)


@pytest.mark.parametrize("stream", [[0, 2], [0.5], ["a"]])
def test_other_labels_are_refused(stream):
    with pytest.raises(ValueError, match="zeros and ones"):
        GLR().run(stream)
