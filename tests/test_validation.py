from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank import letor
from driftrank.clickmodels import PBM
from driftrank.environments import Abrupt, LearningToRank
from driftrank.environments.checks import check_environment
from driftrank.evaluation.targets import read_target
from driftrank.fitting.fit import fit_log
from driftrank.logs import drift
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PBM.fit("log.parquet"), "log='log.parquet': must be a log or its counts; driftrank.logs.open_log"),
        (lambda: drift("log.parquet"), "log='log.parquet': must be a log; driftrank.logs.open_log opens"),
        (lambda: fit_log("log.parquet", "CM"), "log='log.parquet': must be a log; driftrank.logs.open_log opens"),
        (lambda: PBM.best([0.1, 0.2], 1), "click model.best: called on the class PBM"),
        (lambda: PBM.reward([0.1, 0.2], [1]), "click model.reward: called on the class PBM"),
        (lambda: check_known("policy", 3, ["CascadeTS"]), "policy=3: must be a name. Known: CascadeTS"),
        (lambda: check_environment("Stationary"), "environment='Stationary': must be an environment object"),
        (lambda: check_environment(Abrupt), "must be an environment object, such as Abrupt"),
        (lambda: LearningToRank(3), "data=3: must be a file in the LETOR format"),
        (lambda: letor.read(3), "path=3: must be the path of a file in the LETOR format"),
        (lambda: Abrupt("yandex-like:5"), "queries='yandex-like:5': must be probabilities; .*yandex_like"),
        (lambda: read_target(Abrupt, None), "must be policies, their specs, rankings"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
