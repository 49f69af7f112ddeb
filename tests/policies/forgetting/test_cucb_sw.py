from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cucb_sw import CUCBSW
from tests.policies.streams import feed, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def test_index_by_hand():
    """N = 16, X = 4, n = 100: 1/4 + sqrt(3 ln(100) / 32) = 0.907065; with N = 4 it is cut at 1."""
    learner = CUCBSW(window=20).start(["a", "b", "c"], 1, horizon=100)
    for n in range(20):
        learner.update(["a" if n < 16 else "b"], [int(n < 4)])
    assert learner.scores() == pytest.approx({"a": 0.907065, "b": 1.0, "c": math.inf}, abs=1e-6)
    assert learner.rank() == ["c"]


def test_without_a_horizon_the_step_takes_its_place():
    learner = CUCBSW(window=90).start(["a"], 1)
    for _ in range(80):
        learner.update(["a"], [0])
    assert learner.scores()["a"] == pytest.approx(math.sqrt(1.5 * math.log(81) / 80), rel=1e-12)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, 3219),  # (10/3)^(1/3) 10^(10/3) = 3218.3
        ({"variation": 3.0}, 1548),  # 3218.3 / 3^(2/3) = 1547.2
        ({"n_breakpoints": 9}, 744),  # 3218.3 / 9^(2/3) = 743.8
        ({"form": "gap_dependent"}, 317),  # sqrt(10^5) = 316.2
        ({"form": "gap_dependent", "n_breakpoints": 10}, 100),
        ({"form": "gap_dependent", "variation": 1e-6}, 100_000),  # never more than n
        ({"variation": 1e-3}, 100_000),
        ({"window": 77}, 77),
    ],
)
def test_window(parameters, expected):
    assert CUCBSW(**parameters).parameters(RankingProblem(10, 3, 100_000, 100_000))["window"] == expected


def test_a_whole_number_is_not_rounded_up():
    """L = K and n = 1000: n^(2/3) = 100."""
    assert CUCBSW().parameters(RankingProblem(3, 3, 1000, 1000))["window"] == 100


@given(streams(4, 3), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream, window):
    policy = CUCBSW(window=window, exploration=0.2)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx(plain.index(len(stream) + 1), rel=1e-12)


@pytest.mark.parametrize(
    "policy",
    [CUCBSW(), CUCBSW(form="gap_dependent", variation=0.5), CUCBSW(window=40, exploration=0.1), CUCBSW(restart=True)],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=7, K=3, steps=400, seed=3, told=told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("variation", v) for v in (0, -1, math.nan, math.inf, "much", None)),
        *(("form", v) for v in ("gapless", None)),
        *(("exploration", v) for v in (-1, math.nan, "wide")),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CUCBSW(**{name: value})
