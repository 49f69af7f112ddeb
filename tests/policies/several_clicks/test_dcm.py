"""Policies for the dependent click model: what they learn from, and where they put what they like."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftrank as dr
from driftrank.kernels.structures import Candidates, Event, Ranking
from driftrank.policies.registry import parse_policy
from driftrank.policies.several_clicks.placement import ahead, placed
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists
from tests.reference.placement import place

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

NAMES = ["DCMKLUCB", "DCMUCB", "DCMDUCB", "DCMSWUCB", "DCMDKLUCB", "DCMSWKLUCB", "GLRTDCMKLUCB"]
DISCOUNTED = {"DCMDUCB", "DCMDKLUCB"}


def _ranked(p, s, e, c, r):
    """A list that is sorted already."""
    for i in range(r.items.shape[0]):
        r.items[i] = i
        r.score[i] = -i


class _State:
    def __init__(self, weights):
        self.ahead = np.array(ahead(weights), np.int32)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.integers(1, 9))
def test_the_kth_best_is_placed_at_the_kth_largest_weight(weights, shown):
    """Also in lists that are shorter than there are positions."""
    n = min(shown, len(weights))
    r = Ranking(np.zeros(n, np.uint32), np.zeros(n), np.zeros(0), np.zeros(0))
    placed(_ranked)(
        None, _State(weights), Event(1, 1.0, 0), Candidates(np.zeros(0), np.zeros(0), np.zeros(0), 0.0, 0.0), r
    )
    assert r.items.tolist() == place(range(len(r.items)), weights)
    assert r.score.tolist() == [-a for a in r.items.tolist()]


def test_every_order_of_four_positions():
    for weights in itertools.permutations((0.1, 0.2, 0.3, 0.4)):
        r = Ranking(np.zeros(4, np.uint32), np.zeros(4), np.zeros(0), np.zeros(0))
        placed(_ranked)(
            None, _State(weights), Event(1, 1.0, 0), Candidates(np.zeros(0), np.zeros(0), np.zeros(0), 0.0, 0.0), r
        )
        assert [weights[r.items.tolist().index(a)] for a in range(4)] == [0.4, 0.3, 0.2, 0.1]


@pytest.mark.parametrize("name", NAMES)
def test_positions_above_the_last_click_were_observed(name):
    """List (1, 2, 3, 4), clicks 0110: items 1, 2, 3 have the labels 0, 1, 1, and 4 is untouched."""
    learner = getattr(dr, name)(**({"discount": 1.0} if name in DISCOUNTED else {})).start(range(5), 4)
    learner.update([1, 2, 3, 4], [0, 1, 1, 0])
    assert state(learner)["N"].tolist() == [0, 1, 1, 1, 0]
    assert state(learner)["X"].tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("name", NAMES)
def test_the_best_item_is_placed_where_users_leave(name):
    policy = getattr(dr, name)(stop_after_click=(0.1, 0.9, 0.5), ties="index")
    learner = policy.start(range(3), 3, horizon=1000)
    while learner.steps < 600 or (name.startswith("GLRT") and learner.steps % 300 < 30):
        learner.update([2, 1, 0], [learner.steps % 9 == 0, learner.steps % 3 == 0, 1])
    scores = learner.scores()
    assert scores[0] > scores[1] > scores[2]
    if not name.startswith("GLRT"):  # where an item may be put on top
        assert learner.rank() == [2, 0, 1]
        assert learner.rank(k=2) == [1, 0]
        assert learner.rank([2, 1]) == [2, 1]
    assert learner.rank(k=1) == [0] or name.startswith("GLRT")


@pytest.mark.parametrize("name", NAMES)
def test_same_lists_as_the_plain_version_in_any_order(name):
    policy = getattr(dr, name)(stop_after_click=(0.2, 0.9, 0.1, 0.9), ties="index")
    assert_same_lists(policy, reference_of(policy), L=6, K=4, steps=250, seed=2, told=name != "DCMSWUCB")


def test_an_item_put_on_top_takes_the_place_of_the_worst():
    """The worst stands in the middle; it leaves, and what stood above it goes one down."""
    learner = dr.GLRTDCMKLUCB(stop_after_click=(0.5, 0.1, 0.9), explore=1.0).start(range(4), 3, horizon=1000)
    for n in range(12):  # 1 is the best, 2 the next, 3 the worst
        learner.update([3, 2, 1], [0, n % 2, 1])
        learner.update([0, 2, 1], [0, n % 2, 1])
    assert learner.rank([1, 2, 3]) == [2, 3, 1]
    assert learner.rank() == [0, 2, 1]  # it is the turn of item 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stop_after_click": ()}, "stop_after_click=.*one for every position"),
        ({"stop_after_click": "increasing"}, "stop_after_click='increasing'"),
        ({"stop_after_click": (0.5, float("nan"))}, r"stop_after_click\[1\]=nan"),
        ({"stop_after_click": (0.5, "x")}, r"stop_after_click\[1\]='x'"),
        ({"stop_after_click": (0.1, 0.5), "initial": "first_position"}, "stop_after_click=.*first_position"),
    ],
)
def test_wrong_values_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        dr.DCMKLUCB(**parameters)


def test_too_few_positions_are_refused_when_it_starts():
    with pytest.raises(
        ValueError, match=r"stop_after_click=\(0.5, 0.1\): must have a number for each of the k=3 positions"
    ):
        dr.DCMUCB(stop_after_click=(0.5, 0.1)).start(range(5), 3)


def test_termination_is_written_and_read():
    policy = dr.DCMUCB(stop_after_click=np.array([1, 0.25]))
    assert policy.spec == "DCMUCB:stop_after_click=[1.0;0.25]"
    assert parse_policy(policy.spec) == policy == dr.DCMUCB(stop_after_click=[1, 0.25])
    assert hash(policy) == hash(parse_policy(policy.spec))


def test_without_an_order_of_positions_it_is_the_policy_for_the_cascade_model():
    first, second = (
        dr.DCMKLUCB().start(range(6), 3, seed=4),
        dr.CascadeKLUCB(feedback="last").start(range(6), 3, seed=4),
    )
    generator = np.random.default_rng(0)
    for _ in range(200):
        shown = first.rank()
        assert shown == second.rank()
        clicks = generator.integers(0, 2, 3).tolist()
        first.update(shown, clicks)
        second.update(shown, clicks)


def test_first_position_means_on_top():
    learner = dr.DCMUCB(initial="first_position", stop_after_click=(0.9, 0.1, 0.5)).start(range(5), 3)
    for t in range(5):
        shown = learner.rank()
        assert shown[0] == t
        learner.update(shown, None)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 4))
def test_the_list_before_has_no_say(order, k):
    """``rank`` starts from any list of candidates."""
    learner = dr.DCMUCB(stop_after_click=(0.1, 0.4, 0.2, 0.9)).start(range(6), 4, seed=1)
    for n in range(40):
        learner.update([n % 6, (n + 1) % 6], [n % 4 == 0, n % 3 == 0])
    assert learner.rank(order, k=k) == learner.rank(k=k)


@pytest.mark.parametrize("name", NAMES)
def test_the_old_name_of_stop_after_click_works(name):
    """It was ``termination`` in policies, and stays so in old specs, saved learners and stores."""
    policy = getattr(dr, name)(termination=(0.2, 0.9))
    assert policy == getattr(dr, name)(stop_after_click=(0.2, 0.9)) == parse_policy(f"{name}:termination=[0.2;0.9]")
    assert policy.termination == policy.stop_after_click == (0.2, 0.9)
    assert policy.replace(termination=(0.5, 0.9)).stop_after_click == (0.5, 0.9)
    assert policy.spec == f"{name}:stop_after_click=[0.2;0.9]"
    with pytest.raises(ValueError, match=r"termination=\(0.1,\): must not be given beside stop_after_click"):
        getattr(dr, name)(termination=(0.1,), stop_after_click=(0.1,))
