"""Beliefs of policies about items, and the lists by estimates alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import driftrank as dr
from driftrank.kernels import kernel
from driftrank.kernels.layout import field
from driftrank.policies.contract.worlds import ITEMS
from driftrank.policies.estimates import Belief, believe_counts
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.registry import policies
from tests.quick import others_are_slow

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

OURS = [name for name, cls in policies().items() if cls.__module__.startswith("driftrank.") and not cls.oracle]
ATTRACTION = dict(zip(ITEMS, (0.7, 0.5, 0.3, 0.2, 0.1, 0.05), strict=True))
#: policies that estimate no attraction, and why
WITHOUT = {
    "BatchRank": "counts clicks at all positions, observed or not: items are compared, not estimated",
    "BubbleRank": "compares neighbours",
    "TopRank": "compares items of a block",
    "DBGD": "compares rankers",
    "PDGD": "compares items of a list",
    "Random": "learns nothing",
    "RankedEXP3": "weighs items by how much they earned, divided by how probable they were",
    "RankedEXP3S": "weighs items",
    "RankedREXP3": "weighs items",
}


def clicks_in(model, ranking, generator):
    """The clicks of a user of the kind that a policy is made for."""
    clicks = [0] * len(ranking)
    for position, item in enumerate(ranking):
        if model == "PBM" and generator.random() >= 1 / (position + 1):
            continue
        if generator.random() < ATTRACTION[item]:
            clicks[position] = 1
            if model == "CM" or (model == "DCM" and generator.random() < 0.9):
                break
    return clicks


def played(policy, steps=3000, horizon=3000):
    learner = policy.start(ITEMS, 3, seed=5, horizon=horizon)
    generator = np.random.default_rng(6)
    for _ in range(steps):
        ranking = learner.rank()
        learner.update(ranking, clicks_in(policy.click_model, ranking, generator))
    return learner


@pytest.mark.parametrize("name", others_are_slow(OURS))
@pytest.mark.compiled
def test_estimates_are_near_the_truth(name):
    policy = policies()[name]()
    learner = played(policy)
    beliefs = learner.beliefs()
    assert list(beliefs) == learner.items
    scores = learner.scores()
    for item, belief in beliefs.items():
        numbers = (belief.estimate, belief.bonus, belief.samples, belief.score)
        assert all(number is None or math.isfinite(number) for number in numbers)
        assert belief.score == (scores[item] if math.isfinite(scores[item]) else None)
        if belief.samples is not None:
            assert 0 <= belief.samples <= learner.steps * (1 + 1e-9)
        if belief.estimate is None or name in WITHOUT:
            assert belief.bonus is None
            assert belief.estimate is None
            assert not belief.samples
            continue
        if belief.bonus is not None:
            assert belief.estimate + belief.bonus == pytest.approx(belief.score)
            assert belief.bonus > -1e-9
        # the standard deviation of a mean of so many clicks, five times; PBM divides by how often was looked
        looks = belief.samples / (3 if policy.click_model == "PBM" else 1)
        # DCM takes all that lies above the last click for looked at, also where users left without one
        slack = 0.1 if policy.click_model == "DCM" else 0.0
        truth = ATTRACTION[item]
        tolerance = 5 * math.sqrt(max(truth * (1 - truth), 0.05) / max(looks, 1)) + 1 / (looks + 1) + slack
        assert abs(belief.estimate - truth) < tolerance, (item, belief)
    known = sum(belief.estimate is not None for belief in beliefs.values())
    assert known == 0 if name in WITHOUT else known >= 3
    if name not in WITHOUT:
        assert max(belief.samples for belief in beliefs.values()) > 5
    # bonuses are for policies that look at indices, not for those that draw
    assert any(b.bonus is not None for b in beliefs.values()) == (policy.optimistic and name not in WITHOUT)


@pytest.mark.parametrize("name", others_are_slow(OURS))
def test_greedy_is_by_estimates_or_else_by_scores(name):
    learner = played(policies()[name](), 300)
    beliefs = learner.beliefs()
    candidates = list(reversed(ITEMS))
    if name in WITHOUT:
        worth = learner.scores()
    else:
        worth = {item: -math.inf if b.estimate is None else b.estimate for item, b in beliefs.items()}
    expected = sorted(candidates, key=lambda item: -worth[item])  # stable
    before = learner._floats.tobytes(), learner._ints.tobytes()
    for k in (1, 3, 6):
        assert learner.greedy(candidates, k) == expected[:k]
    assert learner.greedy(candidates) == expected[:3]
    assert set(learner.greedy()) == set(expected[:3]) or len({worth[i] for i in ITEMS}) < 6
    assert learner.greedy(candidates[:2]) == [item for item in expected if item in candidates[:2]]
    assert learner.greedy(candidates, 99) == expected
    assert (learner._floats.tobytes(), learner._ints.tobytes()) == before


def test_before_the_first_click():
    learner = dr.CascadeUCB1().start(["a", "b", "c"], 2)
    assert learner.beliefs()["b"] == Belief(None, None, 0.0, None)
    assert learner.greedy() == ["a", "b"]
    assert learner.greedy(["c", "a", "b"], 3) == ["c", "a", "b"]
    learner.update(["b"], 1)
    assert learner.greedy(["c", "a", "b"], 3) == ["b", "c", "a"]
    learner.update(["a"], None)
    assert learner.greedy(["c", "a", "b"], 3) == ["b", "a", "c"]  # seen and never clicked, but seen
    assert learner.greedy(["c", "a", "b"], 3, seen=True) == ["b", "a"]
    for k in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="k="):
            learner.greedy(k=k)
    for candidates in ([], ["x"]):
        with pytest.raises(ValueError, match=r"candidates|'x'"):
            learner.greedy(candidates)


def test_nothing_is_believed_of_nothing():
    learner = dr.CascadeTS().start([], 2, slots=4)
    assert learner.beliefs() == {}
    with pytest.raises(ValueError, match="no items"):
        learner.greedy()


def test_discounted_counts_are_the_true_ones():
    """N = sum of gamma^age, whatever unit the state counts in."""
    for policy in (dr.CascadeDUCB(discount=0.9), dr.CascadeDKLUCB(discount=0.9), dr.CascadeDTS(discount=0.9)):
        learner = policy.start(["a", "b"], 1)
        for n in range(4000):  # the unit is brought back to 1 on the way
            learner.update(["a"], [n % 2])
        for _ in range(3):
            learner.update(["b"], 1)
        beliefs = learner.beliefs()
        assert beliefs["a"].samples == pytest.approx(0.9**3 * 10, rel=1e-9)
        assert beliefs["b"].samples == pytest.approx(1 + 0.9 + 0.81)
        assert beliefs["a"].estimate == pytest.approx(1 / 1.9)
        assert beliefs["b"].estimate == pytest.approx(1.0)


def test_time_takes_from_discounted_counts():
    learner = dr.CascadeDUCB(half_life=10).start(["a", "b"], 1)
    for now in (0.0, 10.0):
        learner.update(["a"], 1, now=now)
    assert learner.beliefs(now=10.0)["a"].samples == pytest.approx(1.5)
    assert learner.beliefs(now=30.0)["a"].samples == pytest.approx(0.375)
    assert learner.beliefs(now=30.0)["a"].estimate == pytest.approx(1.0)


def test_counts_of_a_window():
    for policy in (dr.CascadeSWUCB(window=20), dr.CascadeSWTS(window=20), dr.CUCBSW(window=20)):
        learner = policy.start(["a", "b"], 1)
        for n in range(100):
            learner.update(["a" if n < 85 else "b"], [n % 2])
        beliefs = learner.beliefs()
        assert (beliefs["a"].samples, beliefs["b"].samples) == (5.0, 15.0)
        assert beliefs["a"].estimate == pytest.approx(2 / 5)


def test_positions_are_summed():
    for policy in (dr.PBMUCB(examination=(1, 0.5)), dr.PBMDUCB(examination=(1, 0.5), discount=1)):
        learner = policy.start(["a", "b"], 2)
        for clicks in ([1, 0], [1, 0]):
            learner.update(["a", "b"], clicks)
        learner.update(["b", "a"], [1, 1])
        beliefs = learner.beliefs()
        assert (beliefs["a"].samples, beliefs["b"].samples) == (3.0, 3.0)
        assert beliefs["a"].estimate == pytest.approx(3 / 2.5)
        assert beliefs["b"].estimate == pytest.approx(1 / 2)


@pytest.mark.parametrize("policy", [dr.CascadeLinUCB(c=1), dr.CascadeLinTS(), dr.CascadeLinTS(sigma=0.5)], ids=str)
def test_items_with_features(policy):
    """Samples are those of items like it; those of items at a right angle say nothing."""
    features = {"a": [1, 0], "b": [0, 2], "c": [2, 0], "d": [1, 1]}
    learner = policy.start(list(features), 1, features=features)
    for n in range(40):
        learner.update(["a"], [n % 2])
    beliefs = learner.beliefs()
    assert beliefs["a"].samples == pytest.approx(40)
    assert beliefs["a"].estimate == pytest.approx(0.5, abs=0.03)
    assert beliefs["b"].estimate is None
    assert beliefs["b"].samples == 0
    assert beliefs["c"].samples == pytest.approx(10)
    assert beliefs["c"].estimate == pytest.approx(2 * beliefs["a"].estimate)
    assert 0 < beliefs["d"].samples < 40
    assert learner.greedy(k=4)[-1] == "b"


def test_samples_since_a_change():
    learner = dr.CascadeRegimeTS().start(["a", "b"], 1, seed=1)
    for _ in range(400):
        learner.update(["a"], [0])
    assert learner.beliefs()["a"].samples > 300
    for _ in range(100):
        learner.update(["a"], [1])
    assert learner.alarm_count
    assert learner.beliefs()["a"].samples < 120
    assert learner.beliefs()["a"].estimate > 0.8


class _Leader(IndexPolicy):
    """A user's policy that states no estimates."""

    def fields(self, p):
        return {"N": field("L"), "X": field("L")}

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return (s.X[a] + 1.0) / (s.N[a] + 1.0)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            s.N[r.items[i]] += 1.0
            s.X[r.items[i]] += clicks[i]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0


class _Estimator(_Leader):
    """The same with estimates."""

    optimistic = True
    believe = staticmethod(believe_counts)


def test_users_policies_state_estimates():
    for policy, belief, best in (
        (_Leader(), Belief(None, None, None, 0.6), "a"),  # by scores
        (_Estimator(), Belief(0.5, pytest.approx(0.1), 4.0, 0.6), "b"),
    ):
        learner = policy.start(["a", "b"], 1)
        for n in range(4):
            learner.update(["b"], [n % 2])
        assert learner.beliefs()["b"] == belief
        assert learner.greedy() == [best]
