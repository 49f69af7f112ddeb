from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from driftrank.policies.base import RankingProblem
from driftrank.policies.comparing.batch_rank import BatchRank
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

NOTHING = -2.0  # in the memo


def batches(learner):
    """The batches, from the top: how many positions, which stage, which items."""
    s, K = state(learner), learner.k
    out, b = [], 0
    while b < K:
        end = b + s["size"][b] if b + s["size"][b] < K else s["active"][0]
        items = s["order"][b:end]
        assert (s["batch"][items] == b).all()
        out.append((int(s["size"][b]), int(s["stage"][b]), sorted(int(a) for a in items)))
        b += int(s["size"][b])
    assert sorted(s["order"]) == list(range(len(s["order"])))
    assert (s["batch"][s["order"][s["active"][0] :]] == -1).all()
    return out


def play(learner, attraction, steps, seed=0):
    """Clicks that do not depend on the order: each item shown attracts for itself."""
    generator = np.random.default_rng(seed)
    for _ in range(steps):
        ranking = learner.rank()
        learner.update(ranking, [int(generator.random() < attraction[a]) for a in ranking])
    return learner


@pytest.mark.parametrize(
    ("n", "level", "lengths"), [(100, 9.186709, (74, 295, 1179)), (10**5, 18.843337, (185, 737, 2948))]
)
def test_constants(n, level, lengths):
    assert BatchRank().parameters(RankingProblem(10, 3, n, n))["level"] == pytest.approx(level, abs=5e-7)
    learner = BatchRank(horizon=n).start(range(2), 2)
    seen = []
    for _ in lengths:
        length = int(state(learner)["length"][0])
        seen.append(length)
        for _ in range(length):  # all items alike: no split
            assert state(learner)["length"][0] == length
            learner.update(learner.rank(), [0, 0])
    assert tuple(seen) == lengths


def test_two_items_that_are_not_yet_far_enough_apart():
    learner = BatchRank(horizon=100).start(range(2), 2)
    for n in range(74):
        ranking = learner.rank()
        learner.update(ranking, [int(n < (50 if a == 0 else 20)) for a in ranking])
    s = state(learner)
    assert s["low"][0] == pytest.approx(0.428338, abs=5e-7)
    assert s["high"][1] == pytest.approx(0.515293, abs=5e-7)
    assert batches(learner) == [(2, 1, [0, 1])]
    assert s["count"].tolist() == s["clicks"].tolist() == [0, 0]


def test_two_items_that_are_far_apart_are_split():
    learner = BatchRank(horizon=100).start(range(2), 2)
    for n in range(74):
        assert batches(learner) == [(2, 0, [0, 1])]
        ranking = learner.rank()
        learner.update(ranking, [int(n < (60 if a == 1 else 10)) for a in ranking])
    assert batches(learner) == [(1, 0, [1]), (1, 0, [0])]
    assert all(learner.rank(key=key) == [1, 0] for key in range(10))
    assert learner.rank().memo[::2].tolist() == [NOTHING] * 2  # nothing left to learn


def test_the_largest_split_is_taken():
    learner = play(BatchRank(horizon=100).start(range(4), 4), [0.99, 0.98, 0.97, 0.01], 74)
    assert batches(learner) == [(3, 0, [0, 1, 2]), (1, 0, [3])]


def test_items_below_the_last_position_are_eliminated():
    # three good items for two positions: nothing to split, the fourth and fifth are out
    learner = BatchRank(horizon=100).start(range(5), 2)
    play(learner, [0.9, 0.9, 0.9, 0.02, 0.02], 74 * 3)
    assert batches(learner) == [(2, 1, [0, 1, 2])]
    assert {a for key in range(50) for a in learner.rank(key=key)} == {0, 1, 2}
    scores = learner.scores()
    assert min(scores[a] for a in (0, 1, 2)) > max(scores[3], scores[4])


def test_first_elimination_at_the_papers_scale():
    """Showing ten items on three positions takes four steps; in the last, two positions are filled up."""
    learner = BatchRank(horizon=10**5).start(range(10), 3)
    attraction = [1.0] * 3 + [0.0] * 7
    play(learner, attraction, 185 * 4 - 1)
    assert batches(learner) == [(3, 0, list(range(10)))]
    play(learner, attraction, 1)
    assert batches(learner) == [(3, 1, [0, 1, 2])]


@pytest.mark.parametrize(("L", "K", "seed"), [(7, 3, 1), (5, 1, 2), (4, 4, 3), (6, 5, 4), (10, 3, 5), (1, 1, 6)])
def test_same_lists_as_the_plain_version(L, K, seed):
    policy = BatchRank()
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=3000, seed=seed)


def test_same_lists_with_a_horizon_of_its_own():
    policy = BatchRank(horizon=60)
    for told in (True, False):
        assert_same_lists(policy, reference_of(policy), L=6, K=3, steps=2000, seed=7, told=told)


def test_it_finds_the_best_items_in_order():
    learner = play(BatchRank(horizon=5000).start(range(6), 3), [0.1, 0.9, 0.1, 0.6, 0.1, 0.35], 15_000)
    assert learner.rank() == [1, 3, 5]
    assert [items for _, _, items in batches(learner)] == [[1], [3], [5]]


def test_lists_are_in_uniformly_random_order():
    learner = BatchRank(horizon=100).start(range(4), 3)
    counts = {}
    for key in range(4800):
        ranking = tuple(learner.rank(key=key))
        counts[ranking] = counts.get(ranking, 0) + 1
    assert set(counts) == set(itertools.permutations(range(4), 3))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_items_that_are_due_and_those_that_fill_up_are_mixed_uniformly():
    learner = BatchRank(horizon=100).start(range(5), 3)
    learner.update([0, 1, 2], None)  # now 3 and 4 are due, and one of the others fills up
    counts = {}
    for key in range(5400):
        ranking = tuple(learner.rank(key=key))
        counts[ranking] = counts.get(ranking, 0) + 1
    expected = {r for r in itertools.permutations(range(5), 3) if {3, 4} <= set(r)}
    assert set(counts) == expected
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_items_that_fill_up_are_not_counted():
    learner = BatchRank(horizon=100).start(range(5), 3)
    learner.update([0, 1, 2], [1, 0, 0])
    ranking = learner.rank()
    learner.update(ranking, [1, 1, 1])
    s = state(learner)
    assert s["count"].tolist() == [1, 1, 1, 1, 1]
    assert s["clicks"].tolist() == [1, 0, 0, 1, 1]


def test_a_plain_list_teaches_the_same():
    first, second = (BatchRank(horizon=50).start(range(5), 2, seed=1) for _ in range(2))
    generator = np.random.default_rng(0)
    for _ in range(1500):
        ranking = first.rank()
        clicks = [int(generator.random() < 0.2 * a) for a in ranking]
        assert second.rank() == ranking
        first.update(ranking, clicks)
        second.update(list(ranking), clicks)
    assert first._ints.tolist() == second._ints.tolist()
    assert state(first)["active"][0] < 5


def test_feedback_of_an_earlier_stage_counts_for_nothing():
    learner = BatchRank(horizon=100).start(range(2), 2)
    late = [learner.rank() for _ in range(3)]
    for _ in range(73):
        learner.update(learner.rank(), None)
    last = learner.rank()
    learner.update(last, None)
    assert batches(learner) == [(2, 1, [0, 1])]
    learner.update(last, [1, 1])  # the same list twice
    assert batches(learner) == [(2, 1, [0, 1])]
    for ranking in late:
        learner.update(ranking, [1, 1])
    assert batches(learner) == [(2, 1, [0, 1])]
    assert max(state(learner)["count"]) <= 1


def test_a_stage_ends_without_items_that_are_not_there():
    """Item 4 is not a candidate: the others go through their stages, and it stays until it has been shown."""
    learner = BatchRank(horizon=100).start(range(5), 2)
    for _ in range(74 * 2):
        ranking = learner.rank([0, 1, 2, 3])
        learner.update(ranking, [int(a < 2) for a in ranking])
    assert batches(learner) == [(2, 1, [0, 1, 4])]
    assert set(learner.rank([3, 4])) == {3, 4}  # an eliminated item is better than none
    for _ in range(300):  # now it is there, and the worst
        ranking = learner.rank()
        learner.update(ranking, [int(a < 2) for a in ranking])
    for _ in range(300):
        ranking = learner.rank()
        learner.update(ranking, [int(a < 2) for a in ranking])
    assert batches(learner) == [(2, 2, [0, 1])]


def test_an_absent_item_is_no_obstacle_to_a_split():
    learner = BatchRank(horizon=100).start(range(4), 3)
    for _ in range(74):
        ranking = learner.rank([0, 1, 2])
        learner.update(ranking, [int(a == 2) for a in ranking])
    assert batches(learner) == [(1, 0, [2]), (2, 0, [0, 1, 3])]
    assert learner.rank([0, 1, 2])[0] == 2
    assert learner.rank([0, 1, 3], k=2)[0] in (0, 1, 3)


def test_items_are_not_placed_below_others_for_being_absent():
    learner = BatchRank(horizon=100).start(range(4), 3)
    for _ in range(74):
        learner.update(learner.rank([0, 1]), [1, 1])
    assert batches(learner) == [(3, 1, [0, 1, 2, 3])]


def test_shorter_lists_and_few_candidates():
    learner = play(BatchRank(horizon=100).start(range(6), 3), [0.9, 0.5, 0.2, 0.02, 0.02, 0.02], 3000)
    assert learner.rank() == [0, 1, 2]
    assert learner.rank(k=1) == [0]
    assert learner.rank(k=2) == [0, 1]
    assert learner.rank([2, 1]) == [1, 2]
    assert learner.rank([5, 0, 4])[0] == 0
    assert sorted(learner.rank([5, 3])) == [3, 5]


def test_a_new_item_joins_the_lowest_batch_which_restarts():
    learner = play(BatchRank(horizon=100).start(range(6), 3), [0.9, 0.5, 0.2, 0.02, 0.02, 0.02], 3000)
    assert [items for _, _, items in batches(learner)] == [[0], [1], [2]]
    learner.remove_items([1])  # settled at position 2; item 2 moves up
    assert batches(learner) == [(1, 0, [0]), (2, 0, [1, 2])]
    assert learner.rank([0, 2, 3]) == [0, 2, 3]
    learner.add_items(["new"])
    assert batches(learner) == [(1, 0, [0]), (2, 0, [1, 2])]
    assert {frozenset(learner.rank(key=key)) for key in range(20)} == {frozenset([0, 2, "new"])}
    learner.add_items(["more", "most"])
    assert batches(learner) == [(1, 0, [0]), (2, 0, [1, 2, 6, 7])]
    assert state(learner)["count"][[1, 2, 6, 7]].tolist() == [0] * 4
    learner.remove_items([0])  # the first batch vanishes: all is in one
    assert batches(learner) == [(3, 0, [0, 1, 2, 6, 7])]
    learner.remove_items([4])  # an eliminated one
    assert batches(learner) == [(3, 0, [0, 1, 2, 4, 6, 7])]


def test_batches_stay_consistent_when_items_come_and_go():
    generator = np.random.default_rng(1)
    attraction = dict(enumerate(generator.random(8)))
    learner = BatchRank(horizon=3).start(range(8), 4, seed=1)  # short stages: batches split and shrink often
    shapes = set()
    for n in range(1500):
        candidates = [a for a in learner.items if generator.random() < 0.9] or learner.items
        ranking = learner.rank(candidates)
        learner.update(ranking, [int(generator.random() < attraction[a]) for a in ranking])
        if n % 5 == 0:
            batches(learner)
        if generator.random() < 0.01:
            learner.remove_items([generator.choice(learner.items)])
            new = max(attraction) + 1
            attraction[new] = generator.random()
            learner.add_items([new])
        shapes.add(tuple((size, len(items)) for size, _, items in batches(learner)))
    assert len(shapes) > 5
    assert max(len(shape) for shape in shapes) >= 3


def test_it_needs_a_horizon():
    with pytest.raises(ValueError, match=r"horizon=None.*BatchRank\(horizon="):
        BatchRank().start(range(3), 2)
    assert BatchRank().start(range(3), 2, horizon=50).rank()
    assert BatchRank(horizon=7).parameters(RankingProblem(3, 2, 50, 50))["horizon"] == 7


@pytest.mark.parametrize("value", [0, -1, 1.5, "long", True])
def test_bad_values(value):
    with pytest.raises(ValueError, match="horizon"):
        BatchRank(horizon=value)
