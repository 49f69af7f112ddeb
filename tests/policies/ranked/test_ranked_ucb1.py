from __future__ import annotations

import math

import pytest

from driftrank.policies.ranked.ranked_ucb1 import RankedUCB1
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_first_steps_by_hand():
    learner = RankedUCB1(ties="index").start(range(3), 1)
    clicks = {0: 1, 1: 0, 2: 0}
    for a in range(3):
        assert learner.rank() == [a]  # those never proposed come first
        learner.update(learner.rank(), [clicks[a]])
    bonus = math.sqrt(0.51 * math.log(4))
    assert learner.scores() == pytest.approx({0: 1 + bonus, 1: bonus, 2: bonus})
    learner.update([0], [0])
    bonus = math.sqrt(0.51 * math.log(5))
    assert learner.scores() == pytest.approx({0: 0.5 + bonus / math.sqrt(2), 1: bonus, 2: bonus})


@pytest.mark.parametrize(("L", "K", "seed"), [(7, 3, 1), (5, 1, 2), (4, 4, 3), (1, 1, 4)])
def test_same_lists_as_the_plain_version(L, K, seed):
    policy = RankedUCB1()
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=2000, seed=seed, told=False)


@pytest.mark.parametrize("policy", [RankedUCB1(exploration=2.0), RankedUCB1(ties="index")], ids=lambda p: p.spec)
def test_same_lists_with_other_parameters(policy):
    assert_same_lists(policy, reference_of(policy), L=6, K=2, steps=1000, seed=5)


def test_a_position_learns_about_its_proposal_not_the_replacement():
    learner = RankedUCB1(ties="index").start(range(3), 2)
    ranking = learner.rank()
    assert ranking[0] == 0
    assert ranking[1] in (1, 2)  # both positions wanted item 0
    learner.update(ranking, [0, 1])
    s = state(learner)
    assert s["N"].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert s["X"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert learner.rank()[0] == 1


def test_a_plain_list_counts_as_proposed():
    learner = RankedUCB1().start(range(3), 2)
    learner.update([2, 0], [0, 1])
    s = state(learner)
    assert s["N"].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert s["X"].tolist() == [[0, 0, 0], [1, 0, 0]]


def test_only_candidates_are_proposed():
    learner = RankedUCB1().start(range(5), 3)
    for _ in range(30):
        ranking = learner.rank([1, 4], k=2)
        assert set(ranking.memo[::2]) <= {1, 4}
        learner.update(ranking, [0, 1])
    s = state(learner)
    assert s["N"].sum() == 60
    assert s["N"][:, [0, 2, 3]].sum() == 0


def test_new_items_come_first():
    learner = RankedUCB1().start(["a", "b"], 1)
    for _ in range(10):
        learner.update(learner.rank(), [1])
    learner.remove_items(["b"])
    learner.add_items(["c"])
    assert learner.rank() == ["c"]
    learner.update(["c"], [0])
    learner.add_items(["d"])
    assert state(learner)["N"].shape == (1, 3)
    assert learner.rank() == ["d"]
    assert learner.scores()["d"] == math.inf


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "wide", None])
def test_bad_values(value):
    with pytest.raises(ValueError, match="exploration"):
        RankedUCB1(exploration=value)
