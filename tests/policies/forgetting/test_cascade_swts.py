from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftrank as dr
from driftrank.policies.forgetting.cascade_swts import CascadeSWTS
from tests.policies.streams import feed, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def test_posterior_by_hand():
    """The window of two steps holds two skips: Beta(2, 3 + 2)."""
    learner = CascadeSWTS(window=2, a0=2, b0=3).start(["a", "b"], 1)
    for clicked in ("a", None, None):
        learner.update(["a"], clicked)
    assert learner.scores() == {"a": 2 / 7, "b": 0.4}


@given(streams(4, 3), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_counts_are_sums_over_the_last_steps(stream, window):
    policy = CascadeSWTS(window=window)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    N, X = plain.counts()
    assert list(learner.scores().values()) == ((1 + X) / (2 + N)).tolist()


def test_a_window_that_never_ends_is_ts():
    """The same draws, so the same regret to the last bit."""
    env = dr.environments.Abrupt(dr.queries.yandex_like(2, seed=0), k=3, period=150)
    result = dr.simulate(["CascadeTS", "CascadeSWTS:window=1000"], env, horizon=600, runs=2, progress=False)
    assert result.values[:, 0].tolist() == result.values[:, 1].tolist()


@pytest.mark.parametrize(
    "policy",
    [
        CascadeSWTS(),
        CascadeSWTS(window=40, a0=0.3, b0=4, feedback="all"),
        CascadeSWTS(window="doubling", restart=True),
        CascadeSWTS(n_breakpoints=4, first_horizon=50),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=300, seed=3, told=told)


@pytest.mark.parametrize("name", ["a0", "b0"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "flat", None])
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeSWTS(**{name: value})
