from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from driftrank.policies.stationary.cascade_ts import CascadeTS
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_posterior_by_hand():
    """One click and two skips: Beta(2, 3), mean .4. A click is not a failure."""
    learner = CascadeTS().start(["a", "b"], 1)
    for clicked in ("a", None, None):
        learner.update(["a"], clicked)
    assert (state(learner)["S"].tolist(), state(learner)["F"].tolist()) == ([1, 0], [2, 0])
    assert learner.scores() == {"a": 0.4, "b": 0.5}


def test_draws_are_from_the_posterior():
    learner = CascadeTS(a0=0.5, b0=2).start(["a", "b"], 2)
    for clicked in ("a", None, None, "b"):
        learner.update(["a", "b"], clicked)
    drawn = {"a": [], "b": []}
    for key in range(3000):
        ranking = learner.rank(key=key)
        assert ranking.scores[0] >= ranking.scores[1]
        for item, theta in zip(ranking, ranking.scores, strict=True):
            drawn[item].append(theta)
    assert stats.kstest(drawn["a"], stats.beta(0.5 + 1, 2 + 3).cdf).pvalue > 1e-3
    assert stats.kstest(drawn["b"], stats.beta(0.5 + 1, 2 + 2).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(drawn["a"], drawn["b"])[0, 1]) < 0.06  # one draw each


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_counts_are_those_of_the_plain_version(stream):
    policy = CascadeTS()
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert state(learner)["S"].tolist() == plain.S.tolist()
    assert state(learner)["F"].tolist() == plain.F.tolist()


@pytest.mark.parametrize(
    "policy",
    [CascadeTS(), CascadeTS(a0=0.3, b0=4), CascadeTS(feedback="last"), CascadeTS(feedback="all")],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=300, seed=3)


@pytest.mark.parametrize("name", ["a0", "b0"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "flat", None])
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeTS(**{name: value})
