from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from driftrank.policies.base import RankingProblem
from driftrank.policies.comparing.top_rank import C, TopRank
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists
from tests.reference.top_rank import TopRank as PlainTopRank


def blocks(learner):
    s, out, begin = state(learner), [], 0
    while begin < len(s["order"]):
        end = s["end"][begin]
        items = s["order"][begin:end]
        assert (s["block"][items] == begin).all()
        out.append(sorted(int(a) for a in items))
        begin = end
    return out


def test_the_constant():
    assert pytest.approx(4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2)), rel=1e-15) == C
    assert pytest.approx(3.3436764, abs=5e-8) == C


@pytest.mark.parametrize(("delta", "needed"), [(0.01, 15), (0.001, 20), (1e-5, 29)])
def test_straight_wins_that_settle_a_pair(delta, needed):
    policies = [TopRank(delta=delta), TopRank(horizon=round(1 / delta))]
    for policy in policies:
        learner = policy.start(range(2), 1)
        for _ in range(needed - 1):
            learner.update([1], [1])
        assert blocks(learner) == [[0, 1]]
        learner.update([1], [1])
        assert blocks(learner) == [[1], [0]]
        assert learner.rank() == [1]
        assert learner.scores() == {0: -1.0, 1: 0.0}


@pytest.mark.parametrize("M", [1, 10, 100, 1000, 54321])
def test_the_threshold_when_clicks_go_both_ways(M):
    """The smallest S that settles a pair at a given M."""
    delta = 0.01
    needed = math.sqrt(2 * M * math.log(C * math.sqrt(M) / delta))
    S = math.ceil(needed)
    S += (S - M) % 2  # S and M are both odd or both even
    for lead, expected in ((S - 2, [[0, 1]]), (S, [[0], [1]])):
        if not 0 < lead <= M:
            continue
        learner = TopRank(delta=delta).start(range(2), 1)
        wins = state(learner)["wins"]
        wins[0, 1], wins[1, 0] = (M + lead) // 2 - 1, (M - lead) // 2
        learner.update([0], [1])
        assert blocks(learner) == expected


@pytest.mark.parametrize(("L", "K", "seed"), [(7, 3, 1), (5, 1, 2), (4, 4, 3), (6, 2, 4), (10, 5, 5), (1, 1, 6)])
@pytest.mark.parametrize("delta", ["auto", 0.9])
def test_same_lists_as_the_plain_version(L, K, seed, delta):
    """With a large delta relations are found soon, wrong ones and cycles among them."""
    policy = TopRank(delta=delta)
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=2000, seed=seed)


def test_lists_are_uniformly_random_within_blocks():
    learner = TopRank(delta=0.5).start(range(5), 3)
    state(learner)["worse"][2, [0, 1, 3, 4]] = 1
    learner.add_items([5])  # makes it compute the blocks
    learner.remove_items([5])
    counts = {}
    for key in range(4800):
        ranking = tuple(learner.rank([0, 1, 2, 3, 4], key=key))
        counts[ranking] = counts.get(ranking, 0) + 1
    assert set(counts) == {(2, *r) for r in itertools.permutations((0, 1, 3, 4), 2)}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])))
@settings(max_examples=60, deadline=None)
def test_blocks_of_any_relation_also_with_cycles(pairs):
    learner = TopRank(delta=0.5).start(range(7), 2)
    for i, j in pairs:
        state(learner)["worse"][i, j] = 1
    learner.remove_items([6])  # makes it compute the blocks
    plain = PlainTopRank(7, 2, delta=0.5)
    plain.worse = pairs
    assert blocks(learner) == [sorted(block) for block in plain.blocks()]


def test_items_not_shown_count_as_not_clicked():
    learner = TopRank(horizon=100).start(range(4), 2)
    learner.update([0, 1], [0, 1])
    assert state(learner)["wins"].tolist() == [[0] * 4, [1, 0, 1, 1], [0] * 4, [0] * 4]
    learner.update([0, 1], [1, 1])
    assert state(learner)["wins"].tolist() == [[0, 0, 1, 1], [1, 0, 2, 2], [0] * 4, [0] * 4]


def test_only_pairs_of_a_block_are_compared():
    learner = TopRank(delta=0.5).start(range(3), 3)
    while len(blocks(learner)) == 1:
        learner.update([0, 1, 2], [1, 0, 0])
    assert blocks(learner) == [[0], [1, 2]]
    before = state(learner)["wins"].copy()
    learner.update([0, 1, 2], [1, 0, 0])
    assert (state(learner)["wins"] == before).all()
    learner.update([0, 1, 2], [0, 0, 1])
    before[2, 1] += 1
    assert (state(learner)["wins"] == before).all()


def test_an_item_is_not_blamed_for_not_being_a_candidate():
    learner = TopRank(delta=0.1).start(range(5), 2, seed=1)
    for _ in range(60):
        ranking = learner.rank([0, 1, 2])
        learner.update(ranking, [int(a == 0) for a in ranking])
    wins = state(learner)["wins"]
    assert wins[:, 3:].sum() == 0
    assert wins[0, 1] > 0
    assert learner.rank([0, 1, 2])[0] == 0
    assert any({3, 4} & set(learner.rank(key=key)) for key in range(10))


def test_an_item_that_left_is_no_obstacle():
    """A removed item's slot is not a candidate, yet all present items are compared, also those not shown."""
    learner = TopRank(delta=0.1).start(range(5), 2, seed=1)
    learner.remove_items([4])
    ranking = learner.rank()
    learner.update(ranking, [1, 0])
    wins = state(learner)["wins"]
    assert wins[ranking[0]].sum() == 3
    assert wins[:, 4].sum() == 0


def test_new_items_start_in_the_first_block_with_nothing_known():
    learner = TopRank(delta=0.5).start(["a", "b", "c"], 1)
    for _ in range(20):
        learner.update(["a"], [1])
    assert blocks(learner) == [[0], [1, 2]]
    learner.add_items(["d"])
    assert blocks(learner) == [[0, 3], [1, 2]]
    assert {learner.rank(key=key)[0] for key in range(20)} == {"a", "d"}
    learner.update(["a"], [1])
    assert state(learner)["wins"][0, 3] == 0  # it was not shown yet
    learner.update(["d"], [0])
    learner.update(["a"], [1])
    assert state(learner)["wins"][0, 3] == 1
    learner.remove_items(["a"])  # what was worse than it alone is free
    assert blocks(learner) == [[0, 1, 2, 3]]
    assert set(learner.scores().values()) == {0.0}


def test_feedback_that_comes_late_is_compared_in_the_blocks_of_now():
    learner = TopRank(delta=0.5).start(range(2), 2)
    late = learner.rank()
    while len(blocks(learner)) == 1:
        learner.update([0, 1], [1, 0])
    before = state(learner)["wins"].copy()
    learner.update(late, [int(a == 1) for a in late])
    assert (state(learner)["wins"] == before).all()


def test_it_sorts_the_items():
    learner = TopRank(horizon=4000).start(range(5), 3, seed=3)
    generator = np.random.default_rng(1)
    for _ in range(4000):
        ranking = learner.rank()
        learner.update(ranking, [int(generator.random() < (0.9, 0.6, 0.35, 0.1, 0.1)[a]) for a in ranking])
    assert blocks(learner)[:3] == [[0], [1], [2]]
    assert learner.rank() == [0, 1, 2]
    assert learner.rank([4, 2, 1], k=2) == [1, 2]


def test_it_needs_a_horizon_or_a_probability():
    with pytest.raises(ValueError, match=r"horizon=None.*TopRank\(horizon="):
        TopRank().start(range(3), 2)
    assert TopRank(delta=0.01).start(range(3), 2).rank()
    one, two = TopRank(horizon=100), TopRank(delta=0.01)
    assert one.parameters(RankingProblem(3, 2, 50))["width"] == pytest.approx(
        two.parameters(RankingProblem(3, 2))["width"]
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("delta", v) for v in (0, 1, -1, math.nan, "small", None)), *(("horizon", v) for v in (0, 2.5, "long", True))],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        TopRank(**{name: value})
