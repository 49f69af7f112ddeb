"""Policies for the position-based model: PBM-UCB, PBM-PIE, and those that forget."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftrank as dr
from driftrank.policies.registry import parse_policy
from driftrank.policies.several_clicks import pie
from tests.policies.streams import feed, repeat, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists
from tests.reference.pbm import LARGEST, bound

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

UCB = ["PBMUCB", "PBMDUCB", "PBMSWUCB"]
PIE = ["PBMPIE", "PBMDPIE", "PBMSWPIE"]
#: forget nothing
KEEP = {
    "PBMDUCB": {"discount": 1.0},
    "PBMDPIE": {"discount": 1.0},
    "PBMSWUCB": {"window": 1000},
    "PBMSWPIE": {"window": 1000},
}


def make(name, **parameters):
    return getattr(dr, name)(**parameters)


@pytest.mark.parametrize("name", UCB)
def test_the_index_by_hand(name):
    """10 times at each of two positions with kappa = (1, 1/2), 6 clicks, t = 100: theta = 6/15, and
    sqrt(20/15) sqrt(ln(100)/(2 15)) = 0.4524094."""
    learner = make(name, examination=(1, 0.5), **KEEP.get(name, {})).start(list("abcd"), 2)
    for n in range(10):
        learner.update(["a", "b"], [n < 4, 0])
        learner.update(["b", "a"], [0, n < 2])
    for _ in range(79):
        learner.update(["c", "d"], None)
    assert learner.scores()["a"] == pytest.approx(0.4 + 0.4524094, abs=1e-7)


def test_epsilon_widens_the_bonus():
    narrow, wide = (dr.PBMUCB(epsilon=e).start(list("ab"), 2) for e in (0.0, 3.0))
    for learner in (narrow, wide):
        for _ in range(5):
            learner.update(["a", "b"], [0, 0])
    assert wide.scores()["a"] == pytest.approx(2 * narrow.scores()["a"])


@pytest.mark.parametrize("name", UCB + PIE)
def test_every_position_counts(name):
    learner = make(name, **KEEP.get(name, {})).start(range(4), 3)
    learner.update([2, 0, 1], [1, 0, 0])
    assert state(learner)["N"].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert state(learner)["X"].tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_examination_is_one_over_the_position_by_default():
    learner = dr.PBMPIE().start(range(4), 3)
    assert state(learner)["kappa"].tolist() == [1, 1 / 2, 1 / 3]
    learner.update([0, 1, 2], [1, 1, 1])
    assert learner.scores() == pytest.approx({0: 1, 1: 2, 2: 3, 3: 0})


@pytest.mark.parametrize("name", UCB)
def test_the_best_item_is_placed_where_users_examine(name):
    learner = make(name, examination=(0.5, 1.0, 0.8), **KEEP.get(name, {})).start(range(3), 3)
    for n in range(300):
        learner.update([2, 1, 0], [n % 30 == 0, n % 3 == 0, n % 2 == 0])
    assert learner.rank() == [2, 0, 1]
    assert learner.rank(k=2) == [1, 0]


# -- PIE


@pytest.mark.parametrize("name", PIE)
def test_at_first_the_items_take_turns(name):
    learner = make(name).start(range(5), 3)
    lists = []
    for _ in range(5):
        lists.append(learner.rank())
        learner.update(lists[-1], None)
    assert lists == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]]
    if name != "PBMDPIE":
        assert state(learner)["N"].tolist() == [[1, 1, 1]] * 5


def test_turns_leave_out_items_that_cannot_be_shown():
    learner = dr.PBMPIE().start(range(5), 3)
    assert learner.rank([4, 2, 0]) == [0, 2, 4]
    learner.update([0, 1], None)
    assert learner.rank([4, 2, 0], k=2) == [2, 4]
    learner.update([0, 1], None)
    assert learner.rank([1, 0]) == [0, 1]


@pytest.mark.parametrize("name", PIE)
def test_only_the_last_leader_is_replaced_half_of_the_time(name):
    """Three clear leaders, three items that may be better, and two that are not."""
    learner = make(name, examination=(0.5, 1.0, 0.25), **KEEP.get(name, {})).start(range(8), 3, seed=1)
    for n in range(200):
        learner.update([0, 1, 2], [n % 5 == 0, n % 2 == 0, n % 16 == 0])  # theta = 0.4, 0.5, 0.26
        learner.update([1, 6, 7], [n % 4 == 0, 0, 0])
    for item in (3, 4, 5):  # little is known of these
        learner.update([item], [0])
    lists = [learner.rank(key=key) for key in range(2000)]
    top = {tuple(shown[:2]) for shown in lists}
    assert len(top) == 1
    assert set(top.pop()) == {0, 1}
    last = [shown[2] for shown in lists]
    assert set(last) == {2, 3, 4, 5}
    assert last.count(2) == pytest.approx(1000, abs=90)
    for item in (3, 4, 5):
        assert last.count(item) == pytest.approx(1000 / 3, abs=60)


counts = st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(st.lists(counts, min_size=3, max_size=3), st.floats(0.01, 1.5), st.floats(0.01, 12))
@settings(max_examples=300)
def test_whether_an_item_may_be_better(pairs, theta, delta):
    """Without inverting a bound, the same as with the root search."""
    kappa = np.array([1.0, 0.7, 0.2])
    N, S = (np.array(column, float) for column in zip(*pairs, strict=True))
    p = SimpleNamespace(K=3, unseen_mean=-1.0)
    s = SimpleNamespace(N=N, X=S, kappa=kappa, mean=np.zeros(1), radius=np.zeros(1))
    dr.PBMPIE.refresh(p, s, 0)
    looks = kappa * min(theta, LARGEST)
    at_theta = np.stack((np.log(looks), np.log(1 - looks), looks / (1 - looks)), axis=1).ravel()
    if N.any():
        U = bound(N, S, kappa, delta)
        if abs(U - min(theta, LARGEST)) < 1e-9:
            return
        expected = min(theta, LARGEST) <= U
    else:
        expected = True
    assert pie._may_be_better(p, s, 0, theta, at_theta, delta) == expected


def test_the_bound_by_hand():
    """Never clicked: sum_k N_k ln(1/(1 - kappa_k U)) = delta; of one position with kappa = 1, U = 1 - exp(-delta/N)."""
    assert bound([4, 0], [0, 0], [1, 0.5], 2.0) == pytest.approx(1 - math.exp(-0.5))
    q = bound([3, 5], [0, 0], [1, 0.5], 2.0)
    assert -3 * math.log(1 - q) - 5 * math.log(1 - q / 2) == pytest.approx(2.0)
    assert bound([1, 1], [1, 1], [1, 0.5], 2.0) == LARGEST


def test_items_that_come_later_are_tried_out():
    learner = dr.PBMPIE().start(range(6), 2, seed=2)
    for n in range(400):
        learner.update(learner.rank(), [n % 2, 0])
    learner.add_items([9])
    shown = [learner.rank(key=key) for key in range(400)]
    assert all(items[0] != 9 for items in shown)
    assert any(items[1] == 9 for items in shown)


# -- forgetting


@pytest.mark.parametrize("name", UCB + PIE)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(name, told):
    policy = make(name, examination=(0.25, 1.0, 0.5, 0.5), epsilon=0.5, ties="index")
    assert_same_lists(policy, reference_of(policy), L=7, K=4, steps=250, seed=3, told=told)


@given(streams(4, 3), st.integers(1, 30), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=3))
@settings(max_examples=40, deadline=None)
def test_a_window_holds_the_last_steps_by_position(stream, window, renewals):
    """Also when items are forgotten in between: what else was shown with them stays at its position."""
    learner = dr.PBMSWUCB(window=window).start(range(4), 3)
    steps = []
    for t, (shown, clicks) in enumerate(stream):
        for when, a in renewals:
            if when == t:
                learner.renew([a])
                steps = [[cell for cell in step if cell[0] != a] for step in steps]
        learner.update(shown, clicks)
        steps = [*steps, [(a, i, c) for i, (a, c) in enumerate(zip(shown, clicks, strict=True))]][-window:]
    N, X = np.zeros((4, 3)), np.zeros((4, 3))
    for step in steps:
        for a, i, c in step:
            N[a, i] += 1
            X[a, i] += c
    assert np.array_equal(state(learner)["N"], N)
    assert np.array_equal(state(learner)["X"], X)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_without_forgetting_it_is_the_stationary_policy(stream):
    learners = [make(name, **KEEP.get(name, {})).start(range(4), 3, seed=1) for name in UCB]
    feed(stream, *learners)
    expected = learners[0].scores()
    for learner in learners[1:]:
        assert learner.scores() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["PBMDUCB", "PBMDPIE"])
def test_counts_do_not_overflow(name):
    """The unit of the counts is 2^n after n steps at a discount of 1/2: far more than floats can hold."""
    learner = make(name, discount=0.5, examination=(1, 0.5)).start(list("abc"), 2)
    learner.update(["c"], [1])
    repeat(learner, ["a", "b"], [1, 0], 3000)
    # N_t(1/2) = 2: a has 2 clicks of 2 looks, b none of 1
    bonus = {"a": math.sqrt(2 * math.log(2) / 2) / 2, "b": math.sqrt(2 * math.log(2) / 2)}
    scores = learner.scores()
    for item, theta in (("a", 1.0), ("b", 0.0)):
        assert scores[item] == pytest.approx(theta + (bonus[item] if name == "PBMDUCB" else 0.0))
    assert not np.isnan(scores["c"])
    assert set(learner.rank()) <= {"a", "b", "c"}


def test_half_life():
    """A click an hour ago weighs half of one now."""
    learner = dr.PBMDPIE(half_life="1h", examination=(0.5,)).start(list("ab"), 1)
    learner.update(["a"], [1], now=0)
    learner.update(["a"], [0], now=3600)
    assert learner.scores()["a"] == pytest.approx(0.5 / (0.5 * 1.5))


# -- parameters


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"examination": (1.0, 0.0)}, r"examination\[1\]=0.0: must be a number in \(0, 1\]"),
        ({"examination": (1.5,)}, r"examination\[0\]=1.5"),
        ({"examination": "half"}, "examination='half': must be 'auto'"),
        ({"examination": []}, "examination="),
        ({"epsilon": -1}, "epsilon=-1"),
    ],
)
def test_wrong_values_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        dr.PBMPIE(**parameters)


def test_too_few_positions_are_refused_when_it_starts():
    with pytest.raises(ValueError, match=r"examination=\(1.0, 0.5\): must have a number for each of the k=3 positions"):
        dr.PBMUCB(examination=(1, 0.5)).start(range(5), 3)


def test_feedback_and_order_are_no_parameters():
    for name in ("feedback", "order"):
        with pytest.raises(TypeError, match=name):
            dr.PBMUCB(**{name: "all"})
    assert parse_policy("PBMUCB:examination=[1;0.5]") == dr.PBMUCB(examination=(1.0, 0.5))
