from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import driftrank as dr
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.compare import assert_same_lists
from tests.reference.index import level


@pytest.mark.parametrize(("c", "expected"), [(3, 0.958465), (0, 0.887909)])
def test_index_by_hand(c, expected):
    """N = 10, X = 5, t = 100."""
    learner = CascadeKLUCB(c=c).start(["a", "b"], 1)
    for n in range(99):
        learner.update(["a" if n < 10 else "b"], [int(n < 5)])
    assert learner.scores()["a"] == pytest.approx(expected, abs=1e-6)


def test_level():
    assert level(100, 3) / 10 == pytest.approx(0.918671, abs=1e-6)
    assert [level(1, c) for c in (0, 3)] == [0, 0]
    assert level(2, 3) == math.log(2)  # ln ln 2 < 0 does not count


@pytest.mark.parametrize(
    ("p", "d", "expected"),
    [
        (0, 0.1, 0.095162582),
        (0, 0.5, 0.393469340),
        (0.1, 0.1, 0.282379139),
        (0.5, 0.1, 0.712878631),
        (0.9, 0.1, 0.983435642),
    ],
)
def test_the_plain_bound_by_hand(p, d, expected):
    assert kl_ucb(p, d) == pytest.approx(expected, abs=1e-9)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream):
    for c in (0.0, 3.0):
        policy = CascadeKLUCB(c=c)
        learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
        feed(stream, learner, plain)
        assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), abs=1e-9)


@given(streams(6, 3))
@settings(max_examples=40, deadline=None)
def test_pruning_leaves_out_no_item(stream):
    """The list is that of the best scores, among all items and among some, after any past."""
    learner = CascadeKLUCB(c=0, ties="index").start(range(6), 3)
    feed(stream, learner)
    for candidates in ([0, 1, 2, 3, 4, 5], [1, 3, 4, 5], [5, 2]):
        scores = learner.scores()
        best = sorted(candidates, key=lambda a: (-scores[a], a))[:3]
        assert learner.rank(candidates) == best


@pytest.mark.parametrize(
    "policy",
    [
        CascadeKLUCB(),
        CascadeKLUCB(c=0),
        CascadeKLUCB(ties="index"),
        CascadeKLUCB(feedback="last"),
        CascadeKLUCB(initial="first_position"),
        CascadeKLUCB(order="increasing"),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K"), [(8, 3), (3, 3), (4, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=300, seed=3)


def test_only_observed_items_count():
    learner = CascadeKLUCB().start(["a", "b", "c"], 3)
    learner.update(["a", "b", "c"], [0, 1, 0])
    assert state(learner)["N"].tolist() == [1, 1, 0]
    assert learner.scores()["c"] == math.inf


@pytest.mark.parametrize(("K", "delta", "paper"), [(2, 0.15, 357.9), (8, 0.15, 149.1), (4, 0.075, 538.5)])
def test_regret_on_the_problem_of_the_paper(K, delta, paper):
    """Kveton et al. (2015), Table 1."""
    env = dr.environments.BLB(L=16, K=K, p=0.2, delta=delta)
    regret = dr.simulate(CascadeKLUCB(), env, horizon=100_000, runs=8, progress=False).regret("CascadeKLUCB")
    assert regret == pytest.approx(paper, rel=0.1)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "three", None])
def test_bad_values(value):
    with pytest.raises(ValueError, match="c="):
        CascadeKLUCB(c=value)


def test_items_clicked_always_or_never_have_finite_bounds():
    learner = CascadeKLUCB().start(["a", "b"], 2)
    for _ in range(200):
        learner.update(["b", "a"], "a")
    assert learner.scores()["a"] == 1.0
    n, f = 200, level(201, 3)
    assert learner.scores()["b"] == pytest.approx(1 - np.exp(-f / n), abs=1e-9)


@pytest.mark.parametrize("others", [3, 14, 100, 1000])
def test_pruning_keeps_ties(others):
    """Two items with the same past come first equally often; near 1 an inexact bound would prune the second."""
    learner = CascadeKLUCB().start(["a", "b", "c"], 1)
    for item, clicks in (("a", "01"), ("b", "10"), ("c", "10" * others)):
        for clicked in clicks:
            learner.update([item], [int(clicked)])
    first = [learner.rank(["a", "b"], k=1, key=key)[0] for key in range(100)]
    assert 25 < first.count("a") < 75
    first = [learner.rank(key=key)[0] for key in range(100)]
    assert 25 < first.count("a") < 75
    assert "c" not in first


def test_first_position_and_increasing_order_do_not_go_together():
    with pytest.raises(ValueError, match="order='increasing'"):
        CascadeKLUCB(initial="first_position", order="increasing")
