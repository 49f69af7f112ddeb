from __future__ import annotations

import math

import pytest

from driftrank.policies.base import RankingProblem
from driftrank.policies.ranked.ranked_exp3 import RankedEXP3
from driftrank.policies.ranked.ranked_rexp3 import RankedREXP3
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_auto_parameters():
    numbers = RankedREXP3(variation=3).parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert numbers["batch"] == 2947
    assert numbers["rate"] == pytest.approx(0.0674, abs=5e-5)
    numbers = RankedREXP3(batch=500).parameters(RankingProblem(10, 3))
    assert (numbers["batch"], numbers["doubling"]) == (500, 0)
    assert numbers["rate"] == pytest.approx(math.sqrt(10 * math.log(10) / ((math.e - 1) * 500)))
    numbers = RankedREXP3(rate=0.3).parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert (numbers["rate"], numbers["auto_rate"]) == (0.3, 0)
    assert RankedREXP3().parameters(RankingProblem(1, 1, 10, 10))["batch"] == 1


def test_batches_are_exactly_as_long_as_they_should_be():
    learner = RankedREXP3(batch=3, rate=0.5).start(range(2), 1)
    for t in range(1, 10):
        learner.update([0], [1])
        assert (learner.scores()[0] == 0.5) == (t % 3 == 0), t


def test_one_long_batch_is_exp3():
    first = RankedREXP3(batch=1000, rate=0.2).start(range(5), 2)
    second = RankedEXP3(form="auer", rate=0.2).start(range(5), 2)
    for t in range(999):
        ranking = first.rank()
        assert ranking == second.rank()
        clicks = [int((a + t) % 5 < 2) for a in ranking]
        first.update(ranking, clicks)
        second.update(second.rank(), clicks)
    assert (state(first)["gain"] == state(second)["gain"]).all()
    assert state(first)["gain"].any()
    first.update(first.rank(), 1)
    assert not state(first)["gain"].any()


def test_batches_of_the_doubling_trick():
    """L = 4, V = 1: D = ceil((4 ln 4)^(1/3) n^(2/3)) for n = 1, 2, 4, ...: 2, 3, 5, 8, 12, 18, 29."""
    learner = RankedREXP3().start(range(4), 2)
    batches = []
    for t in range(1, 65):
        if t == 2 ** int(math.log2(t)):
            batches.append(int(state(learner)["batch"][0]))
            assert state(learner)["age"][0] == 0
            rate = min(1, math.sqrt(4 * math.log(4) / ((math.e - 1) * batches[-1])))
            assert state(learner)["rate"][0] == pytest.approx(rate)
        learner.update([0, 1], 1)
    assert batches == [2, 3, 5, 8, 12, 18, 29]


@pytest.mark.parametrize(("L", "K", "steps"), [(7, 3, 2500), (5, 1, 2500), (4, 4, 2500), (1, 1, 20)])
@pytest.mark.parametrize("policy", [RankedREXP3(), RankedREXP3(variation=20.0, rate=0.1)], ids=lambda p: p.spec)
def test_same_lists_as_the_plain_version(policy, L, K, steps):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=steps, seed=L)


@pytest.mark.parametrize("policy", [RankedREXP3(), RankedREXP3(batch=40)], ids=lambda p: p.spec)
def test_same_lists_without_a_horizon(policy):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=1200, seed=2, told=False)


def test_new_items_are_part_of_the_next_batch():
    learner = RankedREXP3(batch=2, rate=0.5).start(["a", "b"], 1)
    learner.update(["a"], [1])
    learner.add_items(["c"])
    learner.update(["a"], [1])
    assert learner.scores() == pytest.approx(dict.fromkeys("abc", 1 / 3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("batch", v) for v in (0, -3, 1.5, "long", None, True)),
        *(("rate", v) for v in (0, -0.1, 1.5, math.nan, math.inf, "fast", None, True)),
        *(("variation", v) for v in (0, -1, math.nan, math.inf, "much", None)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        RankedREXP3(**{name: value})
