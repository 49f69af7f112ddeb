from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.policies.comparing.bubble_rank import BubbleRank
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

NOBODY = -2


def base(learner):
    s = state(learner)
    assert s["place"][s["base"]].tolist() == list(range(len(s["base"])))
    return s["base"].tolist()


def until_exchanged(learner, winner, most):
    """The number of clicks on ``winner`` alone, whenever it is compared, that put it on top of the base list."""
    wins = 0
    for _ in range(3 * most):
        ranking = learner.rank()
        compared = winner in ranking and ranking.memo[list(ranking).index(winner)] != NOBODY
        learner.update(ranking, [int(a == winner) for a in ranking])
        wins += compared
        if base(learner)[0] == winner:
            return wins
    raise AssertionError("never exchanged")


@pytest.mark.parametrize(("n", "needed"), [(1000, 111), (100_000, 185)])
def test_straight_wins_that_exchange_two_items(n, needed):
    learner = BubbleRank(initial="given").start(range(2), 2, horizon=n)
    assert until_exchanged(learner, 1, needed) == needed
    assert needed == math.floor(16 * math.log(n)) + 1


def test_a_settled_pair_is_shown_in_order_and_counts_no_more():
    learner = BubbleRank(initial="given", delta=0.5).start(range(2), 2)
    assert {tuple(learner.rank(key=key)) for key in range(20)} == {(0, 1)}  # step 1: position 1 has no partner
    learner.update(learner.rank(), None)
    assert {tuple(learner.rank(key=key)) for key in range(20)} == {(0, 1), (1, 0)}
    until_exchanged(learner, 1, 10)
    before = state(learner)["wins"].tolist()
    for _ in range(6):
        ranking = learner.rank()
        assert ranking == [1, 0]
        learner.update(ranking, [0, 1])
    assert state(learner)["wins"].tolist() == before
    assert base(learner) == [1, 0]


@pytest.mark.parametrize(("L", "K", "seed"), [(7, 3, 1), (5, 1, 2), (4, 4, 3), (6, 2, 4), (5, 5, 5), (1, 1, 6)])
@pytest.mark.parametrize("delta", ["auto", 0.2])
def test_same_lists_as_the_plain_version(L, K, seed, delta):
    policy = BubbleRank(delta=delta)
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=2500, seed=seed)


@pytest.mark.parametrize(
    "policy",
    [BubbleRank(extend="none", delta=0.3), BubbleRank(initial="given", delta=0.1), BubbleRank(horizon=2)],
    ids=lambda policy: policy.spec,
)
def test_same_lists_with_other_parameters(policy):
    assert_same_lists(policy, reference_of(policy), L=6, K=3, steps=1500, seed=7, told=False)


def test_parity_of_steps_selects_the_neighbours_compared():
    learner = BubbleRank(initial="given", extend="none", horizon=100).start(range(5), 5)
    pairs = [NOBODY, 2, 1, 4, 3], [1, 0, 3, 2, NOBODY]
    for t in range(1, 9):
        ranking = learner.rank()
        partner = dict(zip(ranking, ranking.memo, strict=True))
        assert [partner[a] for a in range(5)] == pairs[(t + 1) % 2]
        learner.update(ranking, None)


def test_exchanges_happen_half_of_the_time():
    learner = BubbleRank(initial="given", horizon=100).start(range(4), 4)
    learner.update(learner.rank(), None)
    lists = [tuple(learner.rank(key=key * 7919)) for key in range(4000)]
    counts = [lists.count(r) for r in ((0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2))]
    assert sum(counts) == 4000
    assert counts == pytest.approx([1000] * 4, abs=120)


def test_only_discordant_clicks_count():
    learner = BubbleRank(initial="given", horizon=100).start(range(2), 2)
    learner.update(learner.rank(), None)
    for clicks, wins in (([1, 1], 0), ([0, 0], 0), ([1, 0], 1)):
        ranking = learner.rank(key=5)
        learner.update(ranking, clicks)
        learner.update(learner.rank(), None)  # back to the parity that compares them
        assert state(learner)["wins"].sum() == wins
    assert state(learner)["wins"][ranking[0], ranking[1]] == 1


def test_items_from_outside():
    learner = BubbleRank(initial="given", horizon=100).start(range(5), 2)
    seen = {}
    for key in range(3000):
        ranking = learner.rank(key=key * 104_729)  # step 1: position 2 has no partner
        assert ranking[0] == 0
        rival = ranking[1] if ranking[1] != 1 else int(ranking.memo[1])
        assert int(ranking.memo[1]) == (rival if ranking[1] == 1 else 1)
        seen[rival, ranking[1] == 1] = seen.get((rival, ranking[1] == 1), 0) + 1
    assert set(seen) == {(rival, own) for rival in (2, 3, 4) for own in (True, False)}
    assert list(seen.values()) == pytest.approx([500] * 6, abs=90)


def test_an_item_from_outside_wins_the_last_position():
    learner = BubbleRank(initial="given", delta=0.5).start(range(3), 1)
    for _ in range(30):
        ranking = learner.rank()
        learner.update(ranking, [int(ranking[0] == 2)])
    assert base(learner)[0] == 2
    wins = state(learner)["wins"]
    assert wins[2].sum() == wins.sum() > 0
    # and is compared no more with those that it has beaten
    for _ in range(60):
        ranking = learner.rank()
        learner.update(ranking, [int(ranking[0] == 2)])
    assert learner.rank().memo[0] == NOBODY
    assert learner.rank() == [2]


def test_without_extension_items_below_are_never_shown():
    learner = BubbleRank(extend="none", delta=0.3).start(range(6), 3, seed=2)
    first = set(learner.rank())
    generator = np.random.default_rng(0)
    for _ in range(200):
        ranking = learner.rank()
        assert set(ranking) == first
        learner.update(ranking, (generator.random(3) < 0.5).astype(int))


def test_a_plain_list_teaches_the_same_without_items_from_outside():
    first, second = (BubbleRank(delta=0.2).start(range(5), 5, seed=1) for _ in range(2))
    generator = np.random.default_rng(0)
    for _ in range(400):
        ranking = first.rank()
        assert second.rank() == ranking
        clicks = [int(generator.random() < 0.2 * a) for a in ranking]
        first.update(ranking, clicks)
        second.update(list(ranking), clicks)
    assert first._ints.tolist() == second._ints.tolist()
    assert state(first)["wins"].sum() > 0


def test_a_plain_list_with_somebody_from_outside():
    learner = BubbleRank(initial="given", horizon=100).start(range(4), 2)
    learner.update([0, 3], [0, 1])  # step 1: position 2 is compared with those below
    expected = np.zeros((4, 4))
    expected[3, 1] = 1
    assert (state(learner)["wins"] == expected).all()
    learner.update([2, 3], [0, 1])  # neither is in its place: the comparison is unknown
    learner.update([0, 1], [0, 1])  # step 3: item 1 was compared with an unknown item
    assert (state(learner)["wins"] == expected).all()
    learner.update([1, 0], [0, 1])  # step 4: the pair at the top
    expected[0, 1] = 1
    assert (state(learner)["wins"] == expected).all()


def test_it_sorts_the_items():
    learner = BubbleRank(delta=0.05).start(range(5), 5, seed=3)
    generator = np.random.default_rng(1)
    for _ in range(6000):
        ranking = learner.rank()
        learner.update(ranking, [int(generator.random() < (0.9, 0.7, 0.5, 0.3, 0.1)[a]) for a in ranking])
    assert base(learner) == [0, 1, 2, 3, 4]


def test_candidates_are_shown_in_the_order_of_the_base_list():
    learner = BubbleRank(initial="given", extend="none", horizon=100).start(range(6), 3)
    assert learner.rank([5, 0, 3])[0] == 0
    assert sorted(learner.rank([5, 0, 3])) == [0, 3, 5]
    assert learner.rank([4, 1], k=1) == [1]
    learner.update(learner.rank(), None)
    ranking = learner.rank([4, 1, 5])  # step 2: positions 1 and 2
    assert sorted(ranking.memo) == [NOBODY, 1, 4]


def test_items_that_are_neighbours_only_among_the_candidates_change_places_too():
    learner = BubbleRank(initial="given", delta=0.5, extend="none").start(range(4), 3)
    for _ in range(40):
        ranking = learner.rank([0, 2])
        learner.update(ranking, [int(a == 2) for a in ranking])
    assert base(learner) == [2, 1, 0, 3]


def test_the_first_list_is_random_by_seed_or_given():
    lists = {tuple(base(BubbleRank(horizon=10).start(range(4), 2, seed=seed))) for seed in range(60)}
    assert len(lists) > 15
    assert base(BubbleRank(initial="given", horizon=10).start(["d", "a", "c"], 2)) == [0, 1, 2]


def test_new_items_go_to_the_end():
    learner = BubbleRank(initial="given", delta=0.5).start(["a", "b", "c"], 2)
    learner.remove_items(["a"])
    assert base(learner) == [1, 2, 0]
    learner.add_items(["d", "e"])
    assert base(learner) == [1, 2, 0, 3]
    assert state(learner)["wins"].shape == (4, 4)
    for _ in range(40):
        ranking = learner.rank()
        learner.update(ranking, [int(a == "e") for a in ranking])
    assert base(learner)[0] == 3
    won = state(learner)["wins"].copy()
    assert won[3].sum() > 0
    learner.remove_items(["e"])
    assert base(learner)[-1] == 3
    assert state(learner)["wins"][3].sum() == state(learner)["wins"][:, 3].sum() == 0


def test_it_needs_a_horizon_or_a_probability():
    with pytest.raises(ValueError, match=r"horizon=None.*BubbleRank\(horizon="):
        BubbleRank().start(range(3), 2)
    assert BubbleRank(delta=0.01).start(range(3), 2).rank()
    assert BubbleRank(horizon=9).start(range(3), 2).rank()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("delta", v) for v in (0, 1, -1, math.nan, "small", None)),
        *(("horizon", v) for v in (0, 2.5, "long")),
        *(("extend", v) for v in ("inside", None)),
        *(("initial", v) for v in ("best", None)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        BubbleRank(**{name: value})
