from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from driftrank.policies.forgetting.cascade_dklucb import CascadeDKLUCB
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from tests.policies.streams import feed, repeat, streams
from tests.reference import reference_of
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def test_first_steps_by_hand():
    """gamma = 1/2, as for CascadeDUCB: N = (.5, 1.5, 1), X = (0, .5, 0) after two steps, m_3 = 1.75."""
    learner = CascadeDKLUCB(discount=0.5, ties="index").start(range(3), 2)
    learner.update([0, 1], 2)
    # m_2 = 1.5; N = (1, 1, 0), X = (0, 1, 0)
    assert learner.scores() == pytest.approx({0: 1 - math.exp(-math.log(1.5)), 1: 1.0, 2: math.inf}, abs=1e-9)
    assert learner.rank() == [2, 1]
    learner.update([2, 1], None)
    level = math.log(1.75)
    expected = {0: 1 - math.exp(-level / 0.5), 1: kl_ucb(1 / 3, level / 1.5), 2: 1 - math.exp(-level)}
    assert learner.scores() == pytest.approx(expected, abs=1e-9)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream):
    for policy in (CascadeDKLUCB(discount=0.8), CascadeDKLUCB(discount=0.8, clock="pulls")):
        learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
        feed(stream, learner, plain)
        assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), abs=1e-9)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_without_discount_it_is_klucb(stream):
    """m_t = t where gamma = 1, and c = 0 leaves the level ln t."""
    learner, klucb = CascadeDKLUCB(discount=1).start(range(4), 3), CascadeKLUCB(c=0).start(range(4), 3)
    feed(stream, learner, klucb)
    assert learner.scores() == pytest.approx(klucb.scores(), abs=1e-12)


@given(streams(6, 3))
@settings(max_examples=40, deadline=None)
def test_pruning_leaves_out_no_item(stream):
    learner = CascadeDKLUCB(discount=0.7, ties="index").start(range(6), 3)
    feed(stream, learner)
    for candidates in ([0, 1, 2, 3, 4, 5], [1, 3, 4, 5], [5, 2]):
        scores = learner.scores()
        assert learner.rank(candidates) == sorted(candidates, key=lambda a: (-scores[a], a))[:3]


@pytest.mark.parametrize(
    "policy",
    [
        CascadeDKLUCB(),
        CascadeDKLUCB(discount=0.97, clock="pulls", feedback="last"),
        CascadeDKLUCB(discount="doubling", restart=True),
        CascadeDKLUCB(n_breakpoints=4, first_horizon=50),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=300, seed=3, told=told)


def test_an_item_out_of_sight_for_ages():
    """Its count fades to nothing; its bound is 1, above all others and below an item never seen."""
    learner = CascadeDKLUCB(discount=0.9).start(["a", "b", "c"], 2)
    learner.update(["b"], [0])
    repeat(learner, ["a"], [0], 20_000)  # 0.9^20000 underflows
    scores = learner.scores()
    assert scores["b"] == 1.0
    assert scores["a"] == pytest.approx(1 - math.exp(-math.log(10) / 10), rel=1e-6)
    assert learner.rank() == ["c", "b"]
    learner.update(["b"], [0])
    assert learner.scores()["b"] == pytest.approx(1 - math.exp(-math.log(10)), rel=1e-6)
