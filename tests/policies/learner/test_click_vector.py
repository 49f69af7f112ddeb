from __future__ import annotations

import numpy as np
import pytest

from driftrank.policies.learner.click_vector import click_vector

ABC = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("clicks", "vector"),
    [
        (None, [0, 0, 0]),
        ([0, 1, 0], [0, 1, 0]),
        ((1, 0, 1), [1, 0, 1]),
        (np.array([0, 0, 1]), [0, 0, 1]),
        (np.array([0.0, 1.0, 0.0]), [0, 1, 0]),
        ([False, True, True], [0, 1, 1]),
        (np.array([True, False, False]), [1, 0, 0]),
        (1, [1, 0, 0]),
        (3, [0, 0, 1]),
        (4, [0, 0, 0]),  # one below the last position: none
        (np.int64(2), [0, 1, 0]),
        (np.array(2), [0, 1, 0]),
        ("c", [0, 0, 1]),
        (np.str_("b"), [0, 1, 0]),
        (["c", "a"], [1, 0, 1]),
        (("b",), [0, 1, 0]),
    ],
)
def test_forms(clicks, vector):
    found = click_vector(ABC, clicks)
    assert found.tolist() == vector
    assert found.dtype == np.int8


def test_items_that_are_numbers():
    assert click_vector([30, 10, 20], 2).tolist() == [0, 1, 0]  # a position
    assert click_vector([30, 10, 20], 20, is_item=True).tolist() == [0, 0, 1]
    assert click_vector([3, 1, 2], 1).tolist() == [1, 0, 0]  # still a position
    assert click_vector([3, 1, 2], 1, is_item=True).tolist() == [0, 1, 0]
    assert click_vector([1.5, 2.5], 2.5).tolist() == [0, 1]
    assert click_vector([0, 1], [0, 1]).tolist() == [0, 1]  # a vector


def test_items_that_are_tuples():
    shown = [("a", 1), ("b", 2)]
    assert click_vector(shown, ("b", 2), is_item=True).tolist() == [0, 1]
    assert click_vector(shown, 2).tolist() == [0, 1]


def test_lists_of_other_lengths():
    assert click_vector([], None).tolist() == []
    assert click_vector([], []).tolist() == []
    assert click_vector(["a"], 2).tolist() == [0]
    assert click_vector(["a"], [1]).tolist() == [1]


@pytest.mark.parametrize(
    ("clicks", "message"),
    [
        (0, "clicks=0: a position must be from 1 to 3, or 4 for no click"),
        (5, "clicks=5"),
        (-1, "clicks=-1"),
        ([0, 1], r"clicks=\[0, 1\]: a vector must have a 0 or 1 for each of the 3 items shown"),
        ([0, 1, 0, 0], "a vector must have"),
        ([0, 2, 0], "a vector must have"),
        ([0, 0.5, 0], "a vector must have"),
        ([0, None, 0], "a vector must have"),
        ([0, float("nan"), 0], "a vector must have"),
        ([0, "b", 0], "a vector must have"),
        ([], "a vector must have"),
        ([[0, 1, 0]], "a vector must have"),
        ([[0], [1], [0]], "a vector must have"),
        (np.zeros((3, 1)), "a vector must have"),
        ("d", "clicks='d': not among the items shown, \\['a', 'b', 'c'\\]"),
        (["a", "d"], "clicks='d': not among"),
        (2.0, "clicks=2.0: not among"),
        (True, "clicks=True: must be a click vector, a position, an item, or None"),
        (np.False_, "must be a click vector, a position, an item, or None"),
        ({"a"}, "not among"),
    ],
)
def test_bad_feedback(clicks, message):
    with pytest.raises(ValueError, match=message):
        click_vector(ABC, clicks)


def test_an_item_that_was_not_shown():
    with pytest.raises(ValueError, match="clicks=2: not among the items shown"):
        click_vector([30, 10], 2, is_item=True)
