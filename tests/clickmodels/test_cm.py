from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.clickmodels import CM
from driftrank.kernels import rng
from driftrank.kernels.compile import specialise

MODEL = CM()


def click_many(m, alpha, key, items, counts, clicks):
    """The number of clicks at each position, over many users."""
    for user in range(counts.shape[0]):
        CLICK(m, alpha, DERIVE(key, user), items, clicks)  # noqa: F821
        for i in range(items.shape[0]):
            counts[user, i] = clicks[i]


_click_many = specialise(click_many, {"CLICK": CM.click, "DERIVE": rng.derive})


def users(alpha, items, n=50_000, key=12345):
    counts = np.zeros((n, len(items)), np.int8)
    clicks = np.zeros(len(items), np.int8)
    _click_many(
        MODEL.row(len(alpha), len(items)), np.array(alpha), np.uint64(key), np.array(items, np.uint32), counts, clicks
    )
    return counts


def test_known_values():
    assert MODEL.reward([0.5, 0.2], [0, 1]) == pytest.approx(0.6)
    clicked = users([0.5, 0.2], [0, 1])
    n = len(clicked)
    assert clicked.any(axis=1).mean() == pytest.approx(0.6, abs=5 * np.sqrt(0.24 / n))
    assert clicked[:, 0].mean() == pytest.approx(0.5, abs=5 * np.sqrt(0.25 / n))
    assert clicked[:, 1].mean() == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / n))  # seen by half, of whom a fifth click
    assert clicked.sum(axis=1).max() == 1  # nobody clicks twice


def test_positions_by_the_formula():
    alpha, items = [0.3, 0.8, 0.1, 0.6], [2, 0, 3, 1]
    clicked = users(alpha, items)
    examined = 1.0
    for i, a in enumerate(items):
        expected = examined * alpha[a]
        assert clicked[:, i].mean() == pytest.approx(expected, abs=5 * np.sqrt(expected / len(clicked)))
        examined *= 1 - alpha[a]
    assert MODEL.reward(alpha, items) == pytest.approx(1 - examined)


def test_whether_an_item_attracts_does_not_depend_on_the_list():
    """The attraction of a user does not depend on the list: the click is on the first attractive item."""
    alpha = [0.3, 0.5, 0.2, 0.4]
    attracts = np.column_stack([users(alpha, [a], n=2000)[:, 0] for a in range(4)]).astype(bool)
    for items in itertools.permutations(range(4), 3):
        clicked = users(alpha, items, n=2000)
        shown = attracts[:, items]
        first = np.zeros_like(shown)
        some = shown.any(axis=1)
        first[some, shown.argmax(axis=1)[some]] = True
        np.testing.assert_array_equal(clicked, first)


def test_items_attract_independently():
    pairs = np.column_stack([users([0.5] * 3, [a], n=40_000)[:, 0] for a in range(3)])
    correlation = np.corrcoef(pairs.T) - np.eye(3)
    assert np.abs(correlation).max() < 5 / np.sqrt(40_000)


def test_a_more_attractive_item_attracts_the_same_users_and_more():
    before, after = (users([alpha], [0], n=5000)[:, 0] for alpha in (0.3, 0.5))
    assert (after >= before).all()
    assert (after > before).any()


def test_certain_and_impossible_clicks():
    assert users([1.0, 0.0], [1, 0], n=1000).tolist() == [[0, 1]] * 1000
    assert not users([0.0, 0.0], [0, 1], n=1000).any()


def test_one_user():
    assert MODEL.simulate([0.0, 1.0, 1.0], [0, 2, 1], key=7) == [0, 1, 0]
    assert MODEL.simulate([0.5] * 4, [0, 1, 2], key=2**64 - 1) == MODEL.simulate([0.5] * 4, [0, 1, 2], key=2**64 - 1)
    assert MODEL.simulate([0.5], [], key=0) == []
    drawn = {tuple(MODEL.simulate([0.5] * 3, np.array([2, 1]), key=key)) for key in range(50)}
    assert drawn == {(0, 0), (0, 1), (1, 0)}


attractions = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=6)


@given(st.data())
def test_best_list_against_all_lists(data):
    alpha = data.draw(attractions)
    k = data.draw(st.integers(1, len(alpha)))
    best = MODEL.best(alpha, k)
    assert best == sorted(range(len(alpha)), key=lambda a: (-alpha[a], a))[:k]
    highest = max(MODEL.reward(alpha, items) for items in itertools.combinations(range(len(alpha)), k))
    assert MODEL.reward(alpha, best) == pytest.approx(highest, abs=1e-12)


def test_order_does_not_matter_to_the_reward():
    alpha = [0.3, 0.8, 0.1, 0.6]
    rewards = [MODEL.reward(alpha, items) for items in itertools.permutations([0, 1, 3])]
    assert rewards == pytest.approx([1 - 0.7 * 0.2 * 0.4] * 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MODEL.reward([0.5], [1]), r"ranking\[0\]=1: must be an integer from 0 to 0"),
        (lambda: MODEL.reward([0.5, 0.5], [0, -1]), r"ranking\[1\]=-1"),
        (lambda: MODEL.reward([0.5, 0.5], [0, 0]), r"ranking\[1\]=0: occurs twice"),
        (lambda: MODEL.reward([0.5, 0.5], [0.0]), r"ranking\[0\]=0.0"),
        (lambda: MODEL.reward([1.5], [0]), r"attraction\[0\]=1.5"),
        (lambda: MODEL.best([0.5], 2), "k=2: must be an integer from 1 to 1"),
        (lambda: MODEL.best([0.5], 0), "k=0"),
        (lambda: MODEL.best([], 1), "at least one number"),
        (lambda: MODEL.simulate([0.5], [0], key=-1), "key=-1"),
        (lambda: MODEL.simulate([0.5], [3], key=1), r"ranking\[0\]=3"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_models_are_values():
    assert CM() == CM()
    assert hash(CM()) == hash(CM())
