from __future__ import annotations

import numpy as np
import pytest

from driftrank.kernels.compile import specialise
from driftrank.kernels.observed import FEEDBACK, observed_prefix


def observed_of(clicks, shown, mode):
    return OBSERVED(clicks, shown, mode)  # noqa: F821


_observed = specialise(observed_of, {"OBSERVED": observed_prefix})


def observed(clicks, mode, shown=None):
    return _observed(np.array(clicks, np.int8), len(clicks) if shown is None else shown, FEEDBACK.index(mode))


@pytest.mark.parametrize(
    ("clicks", "first", "last"),
    [
        ([0, 0, 0, 0], 4, 4),  # no click: every position was observed
        ([1, 0, 0, 0], 1, 1),
        ([0, 1, 0, 0], 2, 2),
        ([0, 0, 0, 1], 4, 4),
        ([0, 1, 1, 0], 2, 3),
        ([1, 0, 0, 1], 1, 4),
        ([1, 1, 1, 1], 1, 4),
        ([1], 1, 1),
        ([0], 1, 1),
    ],
)
def test_which_positions_count(clicks, first, last):
    assert observed(clicks, "first") == first
    assert observed(clicks, "last") == last
    assert observed(clicks, "all") == len(clicks)


@pytest.mark.parametrize("mode", FEEDBACK)
def test_a_list_shorter_than_k(mode):
    """Only the positions shown count, whatever the rest of the vector holds."""
    assert observed([0, 0, 1, 1], mode, shown=2) == 2
    assert observed([0, 1, 1, 1], mode, shown=2) == 2
    assert observed([0, 0, 0, 0], mode, shown=1) == 1
    assert observed([1, 0, 1, 1], mode, shown=2) == (2 if mode == "all" else 1)


def test_modes_are_the_documented_ones():
    assert FEEDBACK == ("first", "last", "all")  # kernels see the place in this list
