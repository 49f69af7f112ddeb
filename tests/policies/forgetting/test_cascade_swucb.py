from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_first_steps_by_hand():
    learner = CascadeSWUCB(window=2, epsilon=0.5, ties="index").start(range(3), 2)
    assert learner.rank() == [0, 1]
    learner.update([0, 1], 1)
    assert learner.scores() == pytest.approx({0: 1.588705, 1: math.inf, 2: math.inf}, abs=1e-6)
    assert learner.rank() == [1, 2]
    learner.update([1, 2], None)
    assert learner.scores() == pytest.approx({0: 1.588705, 1: 0.588705, 2: 0.588705}, abs=1e-6)
    assert learner.rank() == [0, 1]
    learner.update([0, 1], 2)
    assert state(learner)["N"].tolist() == [1, 2, 1]
    assert state(learner)["X"].tolist() == [0, 1, 0]
    assert learner.scores() == pytest.approx({0: 0.588705, 1: 0.916277, 2: 0.588705}, abs=1e-6)
    assert learner.rank() == [1, 0]


@pytest.mark.parametrize(("n_breakpoints", "expected"), [(1, 2146), (9, 716)])
def test_auto_window_of_the_paper(n_breakpoints, expected):
    numbers = CascadeSWUCB(n_breakpoints=n_breakpoints).parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert (numbers["window"], numbers["doubling"]) == (expected, 0)


@pytest.mark.parametrize("horizon", [None, 5000])
def test_window_doubles_at_powers_of_two(horizon):
    policy = CascadeSWUCB() if horizon is None else CascadeSWUCB(window="doubling")
    learner = policy.start(range(5), 2, horizon=horizon)
    for t in range(1, 1100):
        n = 2 ** int(math.log2(t))
        assert state(learner)["window"][0] == max(5, math.ceil(2 * math.sqrt(n * math.log(n)))), t
        learner.update([0, 1], 1)
    assert state(learner)["window"][0] == 169  # 168.50 at k = 10


@pytest.mark.parametrize(("k", "tau"), [(10, 169), (13, 544), (16, 1706)])
def test_first_windows_of_the_doubling_trick(k, tau):
    """Those of horizons 2^k: 168.50, 543.39 and 1705.07, rounded up."""
    assert CascadeSWUCB().parameters(RankingProblem(10, 3, 2**k, 2**k))["window"] == tau


@given(streams(4, 3), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_counts_are_sums_over_the_last_steps(stream, window):
    epsilon = 0.7
    learner = CascadeSWUCB(window=window, epsilon=epsilon).start(range(4), 3)
    feed(stream, learner)
    t = len(stream) + 1
    N, X = np.zeros(4), np.zeros(4)
    for shown, clicks in stream[max(0, t - 1 - window) :]:
        looked_at = clicks.index(1) + 1 if 1 in clicks else len(shown)
        for a, c in zip(shown[:looked_at], clicks, strict=False):
            N[a] += 1
            X[a] += c
    for a in range(4):
        expected = X[a] / N[a] + math.sqrt(epsilon * math.log(min(t, window)) / N[a]) if N[a] else math.inf
        assert learner.scores()[a] == pytest.approx(expected, rel=1e-13)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_a_window_that_never_ends_is_ucb1(stream):
    """tau >= n and epsilon = 1.5 give CascadeUCB1, which has ln(t-1) for ln t and therefore gets one step more."""
    sw = CascadeSWUCB(window=1000, epsilon=1.5, ties="index").start(range(4), 3)
    ucb1 = CascadeUCB1(ties="index").start(range(4), 3)
    ucb1.update([])
    for shown, clicks in stream:
        assert sw.rank() == ucb1.rank()
        sw.update(shown, clicks)
        ucb1.update(shown, clicks)
    assert sw.scores() == pytest.approx(ucb1.scores(), rel=1e-13)


def test_a_window_of_one_step_remembers_one_step():
    learner = CascadeSWUCB(window=1).start(["a", "b", "c"], 2)
    learner.update(["a", "b"], "b")
    assert learner.scores() == {"a": 0.0, "b": 1.0, "c": math.inf}  # ln 1 = 0: no bonus
    learner.update(["c", "b"], "c")
    assert learner.scores() == {"a": math.inf, "b": math.inf, "c": 1.0}
    learner.update([])
    assert set(learner.scores().values()) == {math.inf}


@pytest.mark.parametrize("tau", [5, 40])
def test_one_position_is_the_bandit_of_garivier_and_moulines(tau):
    """SW-UCB: plain sums over the last tau pulls, padding B sqrt(xi ln(min(t, tau)) / N_t) with B = 1."""
    generator = np.random.default_rng(2)
    xi, arms = 0.6, 4
    pulls, rewards = [], []
    learner = CascadeSWUCB(window=tau, epsilon=xi, ties="index").start(range(arms), 1)
    for t in range(1, 301):
        mean = [0.2, 0.5, 0.7, 0.3] if t < 150 else [0.9, 0.5, 0.1, 0.3]
        recent = list(zip(pulls, rewards, strict=True))[-tau:]
        index = []
        for arm in range(arms):
            of_arm = [r for pull, r in recent if pull == arm]
            padding = math.sqrt(xi * math.log(min(t, tau)) / len(of_arm)) if of_arm else math.inf
            index.append(sum(of_arm) / len(of_arm) + padding if of_arm else math.inf)
        pull = index.index(max(index))
        assert learner.rank() == [pull], t
        pulls.append(pull)
        rewards.append(int(generator.random() < mean[pull]))
        learner.update([pull], [rewards[-1]])
    assert len(set(pulls)) == arms


@pytest.mark.parametrize(
    "policy",
    [
        CascadeSWUCB(),
        CascadeSWUCB(window=7, ties="index"),
        CascadeSWUCB(window=30, unseen="paper", epsilon=0.9),
        CascadeSWUCB(window="doubling", restart=True),
        CascadeSWUCB(window="doubling", first_horizon=50, n_breakpoints=3),
        CascadeSWUCB(window=40, feedback="last"),
        CascadeSWUCB(window=40, feedback="all"),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=300, seed=3, told=told)


@pytest.mark.parametrize("policy", [CascadeSWUCB(), CascadeSWUCB(window=1500)], ids=lambda policy: policy.spec)
def test_the_window_outgrows_the_first_capacity(policy):
    """Without a horizon the ring grows at 1024 and 2048 steps; the plain version keeps everything."""
    assert_same_lists(policy, reference_of(policy), L=4, K=2, steps=2200, seed=5, told=False)


def test_only_observed_items_count():
    """The paper's pseudo-code counts displayed items, its text observed ones."""
    learner = CascadeSWUCB(window=10).start(["a", "b", "c"], 3)
    learner.update(["a", "b", "c"], [0, 1, 0])
    assert state(learner)["N"].tolist() == [1, 1, 0]
    assert learner.scores()["c"] == math.inf


def test_the_papers_rule_for_unseen_items():
    learner = CascadeSWUCB(window=2, unseen="paper").start(["a", "b", "c"], 2)
    assert set(learner.scores().values()) == {2.0}
    for _ in range(3):
        learner.update(["a", "b"], "b")
    assert learner.scores()["c"] == 2.0
    learner.update(["c"], None)
    learner.update(["c"], None)
    assert learner.scores()["a"] == 2.0  # it has left the window


def test_items_that_leave_are_taken_out_of_the_window():
    learner = CascadeSWUCB(window=6).start(["a", "b", "c"], 2)
    other = CascadeSWUCB(window=6).start(["a", "b", "c"], 2)
    for clicked in ("a", "b", None, "b"):
        learner.update(["a", "b"], clicked)
        other.update(["b"] if clicked != "a" else [], clicked if clicked != "a" else None)
    learner.remove_items(["a"])
    learner.add_items(["a"])
    for _ in range(6):  # what a held must not be taken away a second time
        assert learner.scores() == other.scores()
        for each in (learner, other):
            each.update(["c"], None)
    assert learner.scores() == other.scores()


def test_state_is_as_documented():
    for window, L, K in ((50, 10, 3), (7, 3, 3)):
        learner = CascadeSWUCB(window=window).start(range(L), K, horizon=1000)
        assert learner.compiled.layout.sizes == (4 * L + 3, window * K + 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("window", v) for v in (0, -1, 2.5, math.nan, "long", None, True)),
        *(("epsilon", v) for v in (0, -1, math.nan, math.inf, "wide", None)),
        *(("n_breakpoints", v) for v in (0, -1, 1.5, "many", True)),
        *(("first_horizon", v) for v in (0, 1.5)),
        *(("unseen", v) for v in ("zero", None, 1)),
        *(("restart", v) for v in ("yes", None, 2)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeSWUCB(**{name: value})
