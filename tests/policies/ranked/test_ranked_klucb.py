from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.policies.ranked.ranked_klucb import RankedKLUCB
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.compare import assert_same_lists


@pytest.mark.parametrize(("L", "K", "steps", "seed"), [(6, 3, 500, 1), (5, 1, 1000, 2), (3, 3, 600, 3), (1, 1, 50, 4)])
def test_same_lists_as_the_plain_version(L, K, steps, seed):
    policy = RankedKLUCB()
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=steps, seed=seed, told=False)


@pytest.mark.parametrize("policy", [RankedKLUCB(c=3), RankedKLUCB(ties="index")], ids=lambda p: p.spec)
def test_same_lists_with_other_parameters(policy):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=400, seed=5)


def test_scores_are_the_bounds_of_the_top_position():
    learner = RankedKLUCB().start(range(3), 2)
    for clicks in ([1, 0], [0, 1], [0, 0], [1, 1]):
        learner.update([0, 1], clicks)
    expected = {0: kl_ucb(0.5, math.log(5) / 4), 1: math.inf, 2: math.inf}
    assert learner.scores() == pytest.approx(expected, abs=1e-8)


def test_the_start_of_the_search_changes_nothing():
    learner = RankedKLUCB().start(range(6), 2, seed=3)
    generator = np.random.default_rng(0)
    for _ in range(300):
        ranking = learner.rank()
        learner.update(ranking, (generator.random(2) < 0.15 * np.array(ranking)).astype(int))
        expected = learner.rank()
        kept = state(learner)["latest"].copy()
        for guess in range(-1, 6):
            state(learner)["latest"][:] = guess
            assert learner.rank() == expected
        state(learner)["latest"][:] = kept


def test_new_items_come_first():
    learner = RankedKLUCB().start(["a", "b"], 1)
    for _ in range(10):
        learner.update(learner.rank(), [1])
    learner.remove_items(["a"])
    assert learner.rank() == ["b"]
    learner.add_items(["c", "d"])
    assert set(learner.rank(["b", "c"])) == {"c"}
    assert learner.scores()["d"] == math.inf


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "wide", None])
def test_bad_values(value):
    with pytest.raises(ValueError, match="c="):
        RankedKLUCB(c=value)
