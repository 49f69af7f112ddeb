from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.forgetting.cascade_swklucb import CascadeSWKLUCB
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def test_first_steps_by_hand():
    """tau = 2, as for CascadeSWUCB: the window of step 4 holds steps 2 and 3, N = (1, 2, 1), X = (0, 1, 0)."""
    learner = CascadeSWKLUCB(window=2, ties="index").start(range(3), 2)
    learner.update([0, 1], 1)
    assert learner.scores() == {0: 1.0, 1: math.inf, 2: math.inf}
    assert learner.rank() == [1, 2]
    learner.update([1, 2], None)
    assert learner.scores() == pytest.approx({0: 1.0, 1: 0.5, 2: 0.5}, abs=1e-9)  # 1 - exp(-ln 2)
    assert learner.rank() == [0, 1]
    learner.update([0, 1], 2)
    assert (state(learner)["N"].tolist(), state(learner)["X"].tolist()) == ([1, 2, 1], [0, 1, 0])
    assert learner.scores() == pytest.approx({0: 0.5, 1: kl_ucb(0.5, math.log(2) / 2), 2: 0.5}, abs=1e-9)


@given(streams(4, 3), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_bounds_are_of_sums_over_the_last_steps(stream, window):
    policy = CascadeSWKLUCB(window=window)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), abs=1e-9)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_a_window_that_never_ends_is_klucb(stream):
    sw = CascadeSWKLUCB(window=1000).start(range(4), 3, seed=1)
    klucb = CascadeKLUCB(c=0).start(range(4), 3, seed=1)
    for shown, clicks in stream:
        assert sw.rank() == klucb.rank()
        sw.update(shown, clicks)
        klucb.update(shown, clicks)
    assert sw.scores() == klucb.scores()


@given(streams(6, 3))
@settings(max_examples=40, deadline=None)
def test_pruning_leaves_out_no_item(stream):
    learner = CascadeSWKLUCB(window=9, ties="index").start(range(6), 3)
    feed(stream, learner)
    for candidates in ([0, 1, 2, 3, 4, 5], [1, 3, 4, 5], [5, 2]):
        scores = learner.scores()
        assert learner.rank(candidates) == sorted(candidates, key=lambda a: (-scores[a], a))[:3]


@pytest.mark.parametrize(
    "policy",
    [
        CascadeSWKLUCB(),
        CascadeSWKLUCB(window=40, feedback="all"),
        CascadeSWKLUCB(window="doubling", restart=True),
        CascadeSWKLUCB(n_breakpoints=4, first_horizon=50),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=300, seed=3, told=told)
