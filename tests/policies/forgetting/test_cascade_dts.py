from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from driftrank.policies.forgetting.cascade_dts import CascadeDTS
from driftrank.policies.stationary.cascade_ts import CascadeTS
from tests.policies.streams import feed, repeat, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_posterior_by_hand():
    """gamma = 1/2: a click three steps ago, two skips since. S = 1/4, F = 1/2 + 1, and the prior stays."""
    learner = CascadeDTS(discount=0.5, a0=2, b0=3).start(["a", "b"], 1)
    for clicked in ("a", None, None):
        learner.update(["a"], clicked)
    assert learner.scores() == pytest.approx({"a": 2.25 / 6.75, "b": 0.4}, rel=1e-15)


def test_draws_are_from_the_posterior():
    learner = CascadeDTS(discount=0.5, a0=0.5, b0=2).start(["a", "b"], 2)
    for clicked in ("a", None, "b"):
        learner.update(["a", "b"], clicked)
    rankings = [learner.rank(key=key) for key in range(3000)]
    drawn = [r.scores[r.index("a")] for r in rankings]
    assert stats.kstest(drawn, stats.beta(0.5 + 0.25, 2 + 1.5).cdf).pvalue > 1e-3


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_without_discount_it_is_ts_draw_by_draw(stream):
    dts, ts = CascadeDTS(discount=1).start(range(4), 3, seed=1), CascadeTS().start(range(4), 3, seed=1)
    for shown, clicks in stream:
        first, second = dts.rank(), ts.rank()
        assert (list(first), first.scores.tolist()) == (list(second), second.scores.tolist())
        dts.update(shown, clicks)
        ts.update(shown, clicks)
    assert dts.scores() == ts.scores()


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_counts_are_those_of_the_plain_version(stream):
    policy = CascadeDTS(discount=0.8)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx((1 + plain.X) / (2 + plain.N), rel=1e-12)


@pytest.mark.parametrize(
    "policy",
    [
        CascadeDTS(),
        CascadeDTS(a0=0.3, b0=4, feedback="last"),
        CascadeDTS(discount="doubling", restart=True),
        CascadeDTS(n_breakpoints=4, first_horizon=50),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=300, seed=3, told=told)


def test_an_item_out_of_sight_for_ages_is_as_good_as_new():
    learner = CascadeDTS(discount=0.9).start(["a", "b", "c"], 2)
    learner.update(["b"], [1])
    repeat(learner, ["a"], [0], 20_000)
    assert learner.scores() == pytest.approx({"a": 1 / 12, "b": 0.5, "c": 0.5}, rel=1e-9)
    assert np.isfinite(learner.rank().scores).all()


@pytest.mark.parametrize("name", ["a0", "b0"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "flat", None])
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeDTS(**{name: value})
