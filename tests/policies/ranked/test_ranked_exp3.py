from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.policies.base import RankingProblem
from driftrank.policies.ranked.ranked_exp3 import RankedEXP3
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


@pytest.mark.parametrize(("form", "rate"), [("loss", 0.0832555), ("auer", 0.0898215)])
def test_auto_rates(form, rate):
    numbers = RankedEXP3(form=form).parameters(RankingProblem(2, 1, 100, 100))
    assert (numbers["rate"], numbers["anytime"]) == (pytest.approx(rate, abs=5e-8), 0)
    assert RankedEXP3(form=form).parameters(RankingProblem(2, 1))["anytime"] == 1
    assert RankedEXP3(form=form, rate="anytime").parameters(RankingProblem(2, 1, 100, 100))["anytime"] == 1
    assert RankedEXP3(form=form, rate=0.25).parameters(RankingProblem(2, 1))["rate"] == 0.25


def test_first_steps_by_hand():
    loss = RankedEXP3().start([0, 1], 1, horizon=100)
    auer = RankedEXP3(form="auer").start([0, 1], 1, horizon=100)
    assert set(loss.scores().values()) == set(auer.scores().values()) == {0.5}
    loss.update([0], [0])
    auer.update([0], [1])
    assert loss.scores()[0] == pytest.approx(0.458468, abs=5e-7)
    assert auer.scores()[0] == pytest.approx(0.5204247, abs=5e-8)


@pytest.mark.parametrize(("L", "K", "steps"), [(7, 3, 2500), (5, 1, 2500), (4, 4, 2500), (1, 1, 20)])
@pytest.mark.parametrize("form", ["loss", "auer"])
def test_same_lists_as_the_plain_version(form, L, K, steps):
    policy = RankedEXP3(form=form)
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=steps, seed=L)


@pytest.mark.parametrize("policy", [RankedEXP3(), RankedEXP3(form="auer"), RankedEXP3(rate=0.02)], ids=lambda p: p.spec)
@pytest.mark.parametrize("seed", [1, 2])
def test_same_lists_without_a_horizon(policy, seed):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=1200, seed=seed, told=False)


def test_all_positions_learn_also_below_the_click():
    learner = RankedEXP3(rate=0.1).start(range(5), 3, seed=2)
    ranking = learner.rank()
    proposals = ranking.memo[::2].astype(int)
    assert ranking.memo[1::2].tolist() == pytest.approx([0.2] * 3)
    learner.update(ranking, 1)
    for i, b in enumerate(proposals):
        loss = 0.0 if i == 0 else 5.0  # the first was clicked, and its proposal always stands
        assert -state(learner)["gain"][i, b] == pytest.approx(loss)
    assert np.count_nonzero(state(learner)["gain"]) == 2


def test_a_click_on_a_replacement_is_no_reward():
    learner = RankedEXP3(rate=0.1).start(range(4), 2)
    ranking = next(r for r in (learner.rank(key=key) for key in range(100)) if r.memo[0] == r.memo[2])
    b = int(ranking.memo[0])
    assert ranking[0] == b != ranking[1]
    learner.update(ranking, [0, 1])
    gain = state(learner)["gain"]
    assert gain[1, b] == pytest.approx(-4.0)
    assert gain[1, ranking[1]] == 0.0


def test_replacements_are_uniform():
    learner = RankedEXP3(rate=1.0).start(range(4), 2)
    for i in range(2):
        state(learner)["weight"][i] = [1.0, 0, 0, 0]  # both positions want item 0
    second = [learner.rank(key=key)[1] for key in range(3000)]
    assert all(learner.rank(key=key)[0] == 0 for key in range(20))
    assert np.bincount(second, minlength=4) == pytest.approx([0, 1000, 1000, 1000], abs=100)


def test_the_probability_of_the_time_of_ranking_counts():
    learner = RankedEXP3(rate=0.5).start(range(3), 1, seed=1)
    late = learner.rank()
    b = late[0]
    for _ in range(5):
        learner.update([(b + 1) % 3], [0])
    before = state(learner)["gain"][0, b]
    learner.update(late, [0])
    assert before - state(learner)["gain"][0, b] == pytest.approx(3.0)


def test_a_plain_list_counts_with_the_present_probability():
    learner = RankedEXP3(rate=0.5).start(range(3), 1)
    learner.update([0], [0])
    p = learner.scores()[0]
    assert p == pytest.approx(1 / (1 + 2 * math.exp(1.5)))
    learner.update([0], [0])
    assert state(learner)["gain"][0, 0] == pytest.approx(-3 - 1 / p)
    for _ in range(50):  # the loss of an item that would never be drawn stays finite
        learner.update([0], [0])
    assert np.isfinite(state(learner)["gain"]).all()


def test_probabilities_are_those_among_the_candidates():
    learner = RankedEXP3(rate=0.5).start(range(4), 2)
    learner.update([0, 1], [0, 0])
    ranking = learner.rank([0, 3])
    assert sorted(ranking) == [0, 3]
    for i in range(2):
        gain = state(learner)["gain"][i]
        weight = np.exp(0.5 * gain)
        b = int(ranking.memo[2 * i])
        assert ranking.memo[2 * i + 1] == pytest.approx(weight[b] / (weight[0] + weight[3]))


def test_new_items_enter_with_the_mean_weight():
    learner = RankedEXP3().start(["a", "b", "c"], 2, horizon=10)
    for _ in range(5):
        learner.update(["a", "b"], [1, 0])
    learner.add_items(["d", "e"])
    scores = learner.scores()
    assert scores["d"] == pytest.approx(0.2)
    assert scores["e"] == pytest.approx(0.2)
    assert sum(scores.values()) == pytest.approx(1)
    assert np.isfinite(state(learner)["gain"]).all()
    k = learner.compiled.policy.parameters(learner.compiled.problem)["rate"]  # another number of items, another rate
    gain = state(learner)["gain"]
    assert state(learner)["weight"] == pytest.approx(np.exp(k * (gain - gain.max(axis=1, keepdims=True))))


def test_permuted_items_behave_permuted_in_the_long_run():
    """It magnifies rounding errors by a factor of some ten in every few hundred steps, so there must not be any."""
    order = [3, 0, 5, 1, 4, 2]
    first, second = (RankedEXP3().start(items, 3, horizon=4000) for items in (range(6), order))
    generator = np.random.default_rng(0)
    for t in range(4000):
        shown, other = first.rank(), second.rank()
        assert shown == other, t
        clicks = (generator.random(3) < 0.15 * np.array(shown)).astype(int)
        first.update(shown, clicks)
        second.update(other, clicks)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rate", v) for v in (0, -0.1, math.nan, math.inf, "fast", None, True)),
        *(("form", v) for v in ("win", None, 0)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        RankedEXP3(**{name: value})


def test_auers_rate_is_a_probability():
    assert RankedEXP3(rate=3).rate == 3
    with pytest.raises(ValueError, match="rate"):
        RankedEXP3(form="auer", rate=3)
