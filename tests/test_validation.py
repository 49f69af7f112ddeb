from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.validation import check_choice, check_integer, check_known, check_number


def test_choice():
    check_choice("ties", "index", ("random", "index"))
    with pytest.raises(ValueError, match=r"^ties='luck': must be one of 'random', 'index'$"):
        check_choice("ties", "luck", ("random", "index"))


@pytest.mark.parametrize("value", [1, 5, 10**30])
def test_integer(value):
    check_integer("n", value, 1)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, math.nan, math.inf])
def test_no_integer(value):
    with pytest.raises(ValueError, match=r"^n=.*: must be an integer of at least 1$"):
        check_integer("n", value, 1)


def test_integer_up_to():
    check_integer("n", 3, 1, 3)
    with pytest.raises(ValueError, match=r"^n=4: must be an integer from 1 to 3$"):
        check_integer("n", 4, 1, 3)


@pytest.mark.parametrize("value", [0, 0.0, 1, 0.5, np.float64(0.25), -0.0])
def test_number(value):
    check_number("p", value, 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0.5", None, 10**400, 0.5j])
def test_no_number(value):
    with pytest.raises(ValueError, match=r"^p=.*: must be a number in \[0, 1\]$"):
        check_number("p", value, 0, 1)


def test_open_ends():
    check_number("p", 0.5, 0, 1, open_low=True, open_high=True)
    for value in (0, 1):
        with pytest.raises(ValueError, match=rf"^p={value}: must be a number in \(0, 1\)$"):
            check_number("p", value, 0, 1, open_low=True, open_high=True)
    with pytest.raises(ValueError, match=r"in \[2, infinity\)$"):
        check_number("p", 1, 2)


def test_known():
    check_known("policy", "a", ["a", "b"])
    with pytest.raises(ValueError, match=r"^unknown policy 'alpa'; did you mean Alpha\? Known: Alpha, Beta$"):
        check_known("policy", "alpa", ["Beta", "Alpha"])
    with pytest.raises(ValueError, match=r"^unknown policy 'xyz'\. Known: Alpha$"):
        check_known("policy", "xyz", ["Alpha"])
    with pytest.raises(ValueError, match=r"^unknown policy 'xyz'\. Known: none$"):
        check_known("policy", "xyz", [])
