from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

import driftrank as dr
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_index_by_hand():
    """N = 4, X = 1, t = 101: .25 + sqrt(1.5 ln 100 / 4)."""
    learner = CascadeUCB1().start(["a", "b"], 1)
    for clicked in ("a", None, None, None):
        learner.update(["a"], clicked)
    for _ in range(96):
        learner.update(["b"], None)
    assert learner.steps == 100
    assert learner.scores()["a"] == pytest.approx(1.564130, abs=1e-6)


def test_no_bonus_in_the_first_two_steps():
    learner = CascadeUCB1().start(["a", "b"], 2)
    learner.update(["a", "b"], "b")
    assert learner.scores() == {"a": 0.0, "b": 1.0}  # t = 2: ln 1
    learner.update(["a"], None)
    assert learner.scores()["b"] == pytest.approx(1 + math.sqrt(1.5 * math.log(2)))


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream):
    policy = CascadeUCB1(exploration=0.51)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), rel=1e-13)


@pytest.mark.parametrize(
    "policy",
    [
        CascadeUCB1(),
        CascadeUCB1(ties="index"),
        CascadeUCB1(exploration=0.0),
        CascadeUCB1(feedback="last"),
        CascadeUCB1(feedback="all"),
        CascadeUCB1(initial="first_position"),
        CascadeUCB1(order="increasing"),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=400, seed=3)


def test_only_observed_items_count():
    learner = CascadeUCB1().start(["a", "b", "c"], 3)
    learner.update(["a", "b", "c"], [0, 1, 0])
    assert state(learner)["N"].tolist() == [1, 1, 0]
    assert learner.scores()["c"] == math.inf


@pytest.mark.parametrize(
    ("K", "delta", "paper", "ours"), [(2, 0.15, 1290.1, 1273.6), (8, 0.15, 574.8, 545.7), (4, 0.075, 1520.4, 1497.5)]
)
def test_regret_on_the_problem_of_the_paper(K, delta, paper, ours):
    """Kveton et al. (2015), Table 1, and an independent implementation."""
    env = dr.environments.BLB(L=16, K=K, p=0.2, delta=delta)
    regret = dr.simulate(CascadeUCB1(), env, horizon=100_000, runs=8, progress=False).regret("CascadeUCB1")
    assert regret == pytest.approx(ours, rel=0.06)
    assert regret == pytest.approx(paper, rel=0.1)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "wide", None])
def test_bad_values(value):
    with pytest.raises(ValueError, match="exploration"):
        CascadeUCB1(exploration=value)
