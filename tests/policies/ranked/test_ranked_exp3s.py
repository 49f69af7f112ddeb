from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.policies.base import RankingProblem
from driftrank.policies.ranked.ranked_exp3s import RankedEXP3S
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_auto_parameters():
    numbers = RankedEXP3S(n_breakpoints=9).parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert numbers["rate"] == pytest.approx(0.0860, abs=5e-5)
    assert numbers["sharing"] == 1e-5
    assert RankedEXP3S().parameters(RankingProblem(10, 3, 5, 5))["rate"] == 1.0
    numbers = RankedEXP3S(rate=0.25, sharing=0.5).parameters(RankingProblem(10, 3))
    assert (numbers["rate"], numbers["sharing"]) == (0.25, 0.5)


def test_first_step_by_hand():
    """w = (1, 1), g = .1, a = .01, reward 1 on arm 0: exp(.1) + 2 x .01 e / 2 and 1 + .01 e."""
    learner = RankedEXP3S(rate=0.1, sharing=0.01).start([0, 1], 1)
    assert learner.scores() == {0: 0.5, 1: 0.5}
    learner.update([0], [1])
    assert state(learner)["weight"][0].tolist() == pytest.approx([1.1323537, 1.0271828], abs=5e-8)
    assert learner.scores()[0] == pytest.approx(0.5219153, abs=5e-8)


def test_all_weights_share_also_without_a_reward():
    learner = RankedEXP3S(rate=0.1, sharing=0.1).start(range(3), 2)
    state(learner)["weight"][:] = [[4.0, 1.0, 1.0], [1.0, 1.0, 7.0]]
    ranking = learner.rank()
    learner.update(ranking, [0, 0])
    part = math.e * 0.1 / 3
    assert state(learner)["weight"] == pytest.approx(
        np.array([[4.0, 1.0, 1.0], [1.0, 1.0, 7.0]]) + part * np.array([[6], [9]])
    )


def test_probability_of_the_time_of_ranking_counts():
    learner = RankedEXP3S(rate=0.3, sharing=0.0).start(range(3), 1, seed=1)
    ranking = learner.rank()
    assert ranking.memo[1] == pytest.approx(1 / 3)
    state(learner)["weight"][0, (ranking[0] + 1) % 3] = 5.0
    learner.update(ranking, [1])
    assert state(learner)["weight"][0, ranking[0]] == pytest.approx(math.exp(0.3))  # exp(g / (1/3 x 3))


def test_weights_stay_within_the_numbers():
    learner = RankedEXP3S(rate=1.0, sharing=1.0).start(range(2), 1)
    for _ in range(600):  # by a factor of about 1 + e a step: e^780 in all
        learner.update([0], [1])
    weight = state(learner)["weight"][0]
    assert weight.max() < 1e103
    # the share x of arm 0 settles where x = (x exp(1) + e/2) / (x exp(1) + 1 - x + e)
    x = weight[0] / weight.sum()
    assert x == pytest.approx((x * math.e + math.e / 2) / (x * math.e + 1 - x + math.e), rel=1e-9)


@pytest.mark.parametrize(("L", "K", "steps"), [(7, 3, 2500), (5, 1, 2500), (4, 4, 2500), (1, 1, 20)])
@pytest.mark.parametrize("policy", [RankedEXP3S(), RankedEXP3S(n_breakpoints=9, sharing=0.01)], ids=lambda p: p.spec)
def test_same_lists_as_the_plain_version(policy, L, K, steps):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=steps, seed=L)


@pytest.mark.parametrize(
    "policy", [RankedEXP3S(), RankedEXP3S(rate=0.1), RankedEXP3S(sharing=0.001)], ids=lambda p: p.spec
)
def test_same_lists_without_a_horizon(policy):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=1200, seed=2, told=False)


def test_it_returns_to_an_arm_that_lost():
    """With shared weights, a change is followed at once; without, the past weighs too much."""
    shares = []
    for sharing in (0.0, 1e-3):
        learner = RankedEXP3S(rate=0.2, sharing=sharing).start(range(3), 1, seed=4)
        for t in range(1600):
            ranking = learner.rank()
            learner.update(ranking, [int(ranking[0] == (0 if t < 1200 else 2))])
        shares.append(learner.scores()[2])
    assert shares[0] < 0.1
    assert shares[1] > 0.8


def test_new_items_enter_with_the_mean_weight():
    learner = RankedEXP3S(rate=0.4).start(["a", "b", "c"], 2, horizon=10)
    for _ in range(5):
        learner.update(["a", "b"], [1, 0])
    learner.add_items(["d", "e"])
    scores = learner.scores()
    assert scores["d"] == pytest.approx(0.2)
    assert scores["e"] == pytest.approx(0.2)
    assert sum(scores.values()) == pytest.approx(1)


def test_probabilities_are_those_among_the_candidates():
    learner = RankedEXP3S(rate=0.2).start(range(4), 2, horizon=100)
    state(learner)["weight"][:] = [[4.0, 1.0, 1.0, 2.0], [1.0, 1.0, 7.0, 9.0]]
    ranking = learner.rank([0, 3])
    for i, weight in enumerate(((4.0, 2.0), (1.0, 9.0))):
        b = int(ranking.memo[2 * i])
        expected = 0.8 * weight[(0, 3).index(b)] / sum(weight) + 0.1
        assert ranking.memo[2 * i + 1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rate", v) for v in (0, -0.1, 1.5, math.nan, math.inf, "fast", None, True)),
        *(("sharing", v) for v in (-0.1, 1.5, math.nan, math.inf, "all", None, True)),
        *(("n_breakpoints", v) for v in (0, 1.5, None, "many")),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        RankedEXP3S(**{name: value})
