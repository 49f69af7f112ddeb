from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from driftrank.kernels import pure
from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.memory.discounted import discount_for
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from tests.policies.streams import feed, repeat, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_first_steps_by_hand():
    learner = CascadeDUCB(discount=0.5, epsilon=0.5, ties="index").start(range(3), 2)
    assert learner.rank() == [0, 1]
    learner.update([0, 1], 2)
    assert learner.scores() == pytest.approx({0: 0.900517, 1: 1.900517, 2: math.inf}, abs=1e-6)
    assert learner.rank() == [2, 1]
    learner.update([2, 1], None)
    assert learner.scores() == pytest.approx({0: 1.496149, 1: 1.197136, 2: 1.057937}, abs=1e-6)
    assert learner.rank() == [0, 1]
    s = state(learner)
    assert s["N"] / s["unit"] == pytest.approx([0.5, 1.5, 1.0])
    assert s["X"] / s["unit"] == pytest.approx([0.0, 0.5, 0.0])


@pytest.mark.parametrize(("n_breakpoints", "expected"), [(1, 0.999209431), (9, 0.997628292)])
def test_auto_discount_of_the_paper(n_breakpoints, expected):
    numbers = CascadeDUCB(n_breakpoints=n_breakpoints).parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert numbers["discount"] == pytest.approx(expected, abs=5e-10)
    assert numbers["doubling"] == 0


def test_a_given_discount_ignores_the_horizon():
    for horizon in (None, 10, 10**6):
        numbers = CascadeDUCB(discount=0.9).parameters(RankingProblem(4, 2, horizon, horizon))
        assert (numbers["discount"], numbers["doubling"]) == (0.9, 0)


@pytest.mark.parametrize(("k", "gamma"), [(0, 0.75), (10, 0.9921875), (13, 0.99723786), (16, 0.99902344)])
def test_first_discounts_of_the_doubling_trick(k, gamma):
    assert pure(discount_for)(2**k, 1) == pytest.approx(gamma, abs=5e-9)


@pytest.mark.parametrize("horizon", [None, 5000])
def test_discount_doubles_at_powers_of_two(horizon):
    policy = CascadeDUCB() if horizon is None else CascadeDUCB(discount="doubling")
    learner = policy.start(range(3), 2, horizon=horizon)
    for t in range(1, 1100):
        expected = 1 - 0.25 / math.sqrt(2 ** int(math.log2(t)))
        assert state(learner)["gamma"][0] == pytest.approx(expected, abs=1e-15), t
        learner.update([0, 1], 1)
    assert state(learner)["gamma"][0] == 0.9921875


@given(streams(4, 3))
@settings(max_examples=40, deadline=None)
def test_counts_are_discounted_sums_over_the_past(stream):
    gamma, epsilon = 0.8, 0.7
    learner = CascadeDUCB(discount=gamma, epsilon=epsilon).start(range(4), 3)
    feed(stream, learner)
    n = len(stream)
    weight = gamma ** np.arange(n - 1, -1, -1.0)
    m = sum(gamma**s for s in range(n + 1))
    for a in range(4):
        seen, clicked = np.zeros(n), np.zeros(n)
        for s, (shown, clicks) in enumerate(stream):
            looked_at = clicks.index(1) + 1 if 1 in clicks else len(shown)
            if a in shown[:looked_at]:
                seen[s], clicked[s] = 1, clicks[shown.index(a)]
        N, X = weight @ seen, weight @ clicked
        expected = X / N + 2 * math.sqrt(epsilon * math.log(m) / N) if N else math.inf
        assert learner.scores()[a] == pytest.approx(expected, rel=1e-12)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_without_discount_the_radius_is_that_of_ucb1(stream):
    """gamma = 1 and epsilon = 3/8 give sqrt(1.5 ln t / N); CascadeUCB1 has ln(t-1), so it gets one more step."""
    ducb = CascadeDUCB(discount=1, epsilon=3 / 8).start(range(4), 3)
    ucb1 = CascadeUCB1().start(range(4), 3)
    feed(stream, ducb, ucb1)
    ucb1.update([])
    assert ducb.scores() == pytest.approx(ucb1.scores(), rel=1e-13)


@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_one_position_is_the_bandit_of_garivier_and_moulines(gamma):
    """D-UCB: sums of gamma^(t-s) over the pulls of an arm, padding 2 B sqrt(xi ln n_t / N_t) with B = 1."""
    generator = np.random.default_rng(1)
    xi, arms = 0.6, 4
    pulls, rewards = [], []
    learner = CascadeDUCB(discount=gamma, epsilon=xi, ties="index").start(range(arms), 1)
    for t in range(1, 301):
        mean = [0.2, 0.5, 0.7, 0.3] if t < 150 else [0.9, 0.5, 0.1, 0.3]
        index = []
        for arm in range(arms):
            N = sum(gamma ** (t - 1 - s) for s, pull in enumerate(pulls, 1) if pull == arm)
            X = sum(
                gamma ** (t - 1 - s) * r
                for s, (pull, r) in enumerate(zip(pulls, rewards, strict=True), 1)
                if pull == arm
            )
            n = sum(gamma ** (t - s) for s in range(1, t + 1))
            index.append(X / N + 2 * math.sqrt(xi * math.log(n) / N) if N else math.inf)
        pull = index.index(max(index))
        assert learner.rank() == [pull], t
        pulls.append(pull)
        rewards.append(int(generator.random() < mean[pull]))
        learner.update([pull], [rewards[-1]])
    assert len(set(pulls)) == arms


@pytest.mark.parametrize(
    "policy",
    [
        CascadeDUCB(),
        CascadeDUCB(discount=0.5, ties="index"),
        CascadeDUCB(unseen="paper", epsilon=0.9),
        CascadeDUCB(discount="doubling", restart=True),
        CascadeDUCB(discount="doubling", first_horizon=50, n_breakpoints=3),
        CascadeDUCB(discount=0.97, feedback="last"),
        CascadeDUCB(discount=0.97, feedback="all"),
        CascadeDUCB(discount=0.97, clock="pulls"),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=500, seed=3, told=told)


def test_only_observed_items_count():
    learner = CascadeDUCB(discount=0.9).start(["a", "b", "c"], 3)
    learner.update(["a", "b", "c"], [0, 1, 0])
    s = state(learner)
    assert (s["N"] / s["unit"]).tolist() == pytest.approx([1, 1, 0])
    assert learner.scores()["c"] == math.inf


def test_restart_wipes_the_past_and_the_clock():
    learner = CascadeDUCB(discount="doubling", restart=True, first_horizon=4).start(range(3), 2)
    for _ in range(7):
        learner.update([0, 1], 1)
    assert set(learner.scores().values()) == {math.inf}  # step 8 = 2 * 4 begins
    assert state(learner)["clock"][0] == 0


def test_the_papers_rule_for_unseen_items():
    learner = CascadeDUCB(discount=0.9, unseen="paper", ties="index").start(range(3), 2)
    learner.update([0, 1], 2)
    assert learner.scores()[2] == 3.0
    assert learner.rank() == [2, 1]
    for _ in range(200):  # observed once, an item's count fades but never is zero again
        learner.update([0, 2], None)
    assert learner.scores()[1] > 1e4


@pytest.mark.compiled
def test_more_than_a_million_steps():
    """gamma^-t overflows at 900,000 steps; the counts are rescaled before, and the scores stay what they must be."""
    policy = CascadeDUCB(n_breakpoints=1)
    gamma = policy.parameters(RankingProblem(3, 2, 100_000))["discount"]
    learner = policy.start(["a", "b", "c"], 2, horizon=100_000)
    learner.update(["b"], [1])
    steps = 600_000
    repeat(learner, ["a"], [0], steps)
    m = (1 - gamma ** (steps + 2)) / (1 - gamma)
    scores = learner.scores()
    assert math.log(scores["b"]) == pytest.approx(
        math.log(2 * math.sqrt(0.5 * math.log(m))) - steps / 2 * math.log(gamma)
    )
    repeat(learner, ["a"], [0], 600_000)
    scores = learner.scores()
    # an item observed all the time keeps this bonus: gaps below it are never resolved
    floor = 2 * math.sqrt(0.5 * (1 - gamma) * math.log(1 / (1 - gamma)))
    assert scores["a"] == pytest.approx(floor, rel=1e-9)
    assert floor == pytest.approx(0.106, abs=5e-4)
    assert 1e100 < scores["b"] < math.inf
    assert learner.rank(["a", "b"]) == ["b", "a"]
    learner.update(["b"], [0])
    repeat(learner, ["a", "b"], [0, 1], 600_000)
    scores = learner.scores()
    assert (scores["a"], scores["b"]) == pytest.approx((floor, 1 + floor), rel=1e-9)
    assert scores["c"] == math.inf


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("discount", v) for v in (0, -0.1, 1.01, math.nan, math.inf, "fast", None, True)),
        *(("epsilon", v) for v in (0, -1, math.nan, math.inf, "wide", None)),
        *(("n_breakpoints", v) for v in (0, -1, 1.5, "many", True)),
        *(("first_horizon", v) for v in (0, 1.5)),
        *(("unseen", v) for v in ("zero", None, 1)),
        *(("restart", v) for v in ("yes", None, 2)),
        *(("ties", v) for v in ("none", 0)),
        *(("feedback", v) for v in ("some", 0)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeDUCB(**{name: value})
