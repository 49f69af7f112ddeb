from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from driftrank.policies.stationary.cascade_ucbv import CascadeUCBV
from tests.policies.streams import feed, repeat, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def test_index_by_hand():
    """p = .5, N = 1000, t = 100: .5 + sqrt(4 x .25 ln 100 / 1000) + 6 ln 100 / 1000."""
    learner = CascadeUCBV().start(["a", "b"], 1)
    for clicks in ([0], [1]):
        repeat(learner, ["a"], clicks, 500)
    learner.steps = 99
    assert learner.scores()["a"] == pytest.approx(0.5954924, abs=5e-8)


def test_items_never_observed_come_before_clipped_ones():
    learner = CascadeUCBV().start(["a", "b", "c"], 1)
    learner.update(["a"], "a")
    learner.update(["b"], None)
    assert learner.scores() == {"a": 1.0, "b": 1.0, "c": math.inf}
    assert {learner.rank(key=key)[0] for key in range(20)} == {"c"}
    shown = [learner.rank(["a", "b"], key=key)[0] for key in range(400)]  # a tie
    assert np.mean([item == "a" for item in shown]) == pytest.approx(0.5, abs=0.1)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream):
    policy = CascadeUCBV()
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), rel=1e-13)


@pytest.mark.parametrize(
    "policy",
    [CascadeUCBV(), CascadeUCBV(ties="index"), CascadeUCBV(feedback="last"), CascadeUCBV(order="increasing")],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=1500, seed=3)


@pytest.mark.parametrize("name", ["ties", "feedback", "order"])
def test_bad_values(name):
    with pytest.raises(ValueError, match=name):
        CascadeUCBV(**{name: "none"})
