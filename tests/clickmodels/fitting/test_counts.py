from __future__ import annotations

import numpy as np
import pytest

from driftrank.clickmodels.fitting.counts import ListCounts, Pairs, PositionCounts

PAIRS = Pairs(np.array(["a", "b"]), np.array([0, 0, 1], np.int32), np.array([7, 8, 7]))


def test_pairs() -> None:
    assert len(PAIRS) == 3
    assert PAIRS.starts.tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="query has 2 pairs, items 3: must be the same number"):
        Pairs(np.array(["a"]), np.zeros(2, np.int32), np.arange(3))
    with pytest.raises(ValueError, match="query: holds 0 to 2, must be from 0 to 1"):
        Pairs(np.array(["a", "b"]), np.array([0, 2], np.int32), np.arange(2))
    with pytest.raises(ValueError, match="must ascend"):
        Pairs(np.array(["a", "b"]), np.array([1, 0], np.int32), np.arange(2))


def test_position_counts() -> None:
    one = np.ones(2, np.int64)
    counts = PositionCounts(PAIRS, np.array([0, 2]), np.array([1, 4]), 0 * one, one, one, one, one)
    assert (len(counts), counts.k) == (2, 4)
    with pytest.raises(ValueError, match="clicks has 1 rows, pair 2: must be the same number"):
        PositionCounts(PAIRS, np.array([0, 2]), one, one, one, one[:1], one, one)
    with pytest.raises(ValueError, match="pair: holds 0 to 3, must be from 0 to 2"):
        PositionCounts(PAIRS, np.array([0, 3]), one, one, one, one, one, one)
    with pytest.raises(ValueError, match="rank: holds 1 to 63, must be from 0 to 62"):
        PositionCounts(PAIRS, np.array([0, 1]), np.array([1, 63]), one, one, one, one, one)


def test_list_counts() -> None:
    slots = np.array([[1, 0], [2, -1]])
    counts = ListCounts(PAIRS, slots, np.array([3, 1]), np.array([5, 5]))
    assert (len(counts), counts.k) == (2, 2)
    with pytest.raises(ValueError, match="lists has 1 rows, slots 2: must be the same number"):
        ListCounts(PAIRS, slots, np.array([3, 1]), np.array([5]))
    with pytest.raises(ValueError, match=r"slots of shape \(2, 63\): must be \(lists, positions\), at most 62"):
        ListCounts(PAIRS, np.zeros((2, 63), int), np.array([3, 1]), np.array([5, 5]))
    with pytest.raises(ValueError, match="slots: holds -1 to 3, must be from -1 to 2"):
        ListCounts(PAIRS, slots + (slots == 2), np.array([3, 1]), np.array([5, 5]))
    with pytest.raises(ValueError, match="mask: a click below position 2"):
        ListCounts(PAIRS, slots, np.array([4, 1]), np.array([5, 5]))
