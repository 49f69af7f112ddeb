from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.kernels.compile import pure, specialise
from driftrank.kernels.rng import derive
from driftrank.kernels.structures import Candidates, Event, Ranking
from driftrank.kernels.top_k import ORDER, TIES, arrange, insert

RANDOM, INDEX = TIES.index("random"), TIES.index("index")


def offer_all(order, scores, token, key, ties, first, end, items, score):
    """Offer the items in the given order; returns how many were taken."""
    r = Ranking(items, score, score, score)
    c = Candidates(order, token, score, 0.0, 0.0)
    e = Event(1, 1.0, key)
    filled = first
    for j in range(order.shape[0]):
        a = order[j]
        filled = INSERT(r, first, filled, end, scores[a], a, e, c, ties)  # noqa: F821
    return filled


_offer_all = specialise(offer_all, {"INSERT": insert})


def best(scores, k, *, ties=INDEX, order=None, key=1, token=None, first=0, size=None):
    L = len(scores)
    items = np.full(size or first + k, 999, np.uint32)
    score = np.full(len(items), -7.0)
    order = np.arange(L) if order is None else np.asarray(order)
    token = np.arange(L) if token is None else np.asarray(token)
    filled = _offer_all(
        order.astype(np.uint32),
        np.asarray(scores, np.float64),
        token.astype(np.int64),
        np.uint64(key),
        ties,
        first,
        first + k,
        items,
        score,
    )
    assert filled == first + min(k, len(order))
    return items.tolist(), score.tolist()


few = st.sampled_from([0.0, 0.25, 0.5, 1.0, float("inf")])
score_lists = st.lists(few | st.floats(-2, 2), min_size=1, max_size=12)


@given(st.data())
def test_it_sorts(data):
    scores = data.draw(score_lists)
    k = data.draw(st.integers(1, len(scores)))
    order = data.draw(st.permutations(range(len(scores))))
    expected = sorted(range(len(scores)), key=lambda a: (-scores[a], a))[:k]
    items, score = best(scores, k, order=order)
    assert items == expected
    assert score == [scores[a] for a in expected]


@given(st.data())
def test_random_ties_are_sorted_by_their_hash_whatever_the_order_of_visiting(data):
    scores = data.draw(st.lists(few, min_size=1, max_size=12))
    k = data.draw(st.integers(1, len(scores)))
    key = data.draw(st.integers(0, 2**64 - 1))
    with np.errstate(over="ignore"):
        luck = [int(pure(derive)(np.uint64(key), a)) for a in range(len(scores))]
    expected = sorted(range(len(scores)), key=lambda a: (-scores[a], luck[a]))[:k]
    for _ in range(2):
        order = data.draw(st.permutations(range(len(scores))))
        assert best(scores, k, ties=RANDOM, order=order, key=key)[0] == expected


@given(st.data())
def test_permuted_slots_behave_permuted(data):
    scores = data.draw(st.lists(few, min_size=1, max_size=10))
    k = data.draw(st.integers(1, len(scores)))
    slots = data.draw(st.permutations(range(len(scores))))  # item n moves to slot slots[n]
    moved, token = [0.0] * len(scores), [0] * len(scores)
    for item, slot in enumerate(slots):
        moved[slot], token[slot] = scores[item], item
    plain = best(scores, k, ties=RANDOM, key=5)[0]
    assert best(moved, k, ties=RANDOM, key=5, token=token)[0] == [slots[item] for item in plain]


def test_random_ties_are_fair():
    firsts = np.bincount([best([0.5] * 4, 2, ties=RANDOM, key=key * 7919)[0][0] for key in range(2000)], minlength=4)
    assert abs(firsts - 500).max() < 5 * np.sqrt(2000 * 3 / 16)


def test_fewer_items_than_positions():
    assert best([0.1, 0.2], 4, size=4)[0] == [1, 0, 999, 999]


@pytest.mark.parametrize("ties", [RANDOM, INDEX])
def test_positions_outside_are_left_alone(ties):
    items, score = best([0.1, 0.9, 0.5, 0.7], 2, first=1, size=5, ties=ties)
    assert items == [999, 1, 3, 999, 999]
    assert score == [-7.0, 0.9, 0.7, -7.0, -7.0]


def arranged(items, score, order):
    ARRANGE(Ranking(items, score, score, score), order)  # noqa: F821


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_either_way_up(n):
    turn = specialise(arranged, {"ARRANGE": arrange})
    items, score = np.arange(n).astype(np.uint32), np.linspace(1, 0, n)
    turn(items, score, ORDER.index("decreasing"))
    assert items.tolist() == list(range(n))
    turn(items, score, ORDER.index("increasing"))
    assert items.tolist() == list(range(n))[::-1]
    assert score.tolist() == np.linspace(1, 0, n)[::-1].tolist()
