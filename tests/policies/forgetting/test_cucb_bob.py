from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.kernels import pure
from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cucb_bob import CUCBBoB
from driftrank.policies.indices.exp3p import exp3p_draw, exp3p_learn, exp3p_rates
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def test_master_by_hand():
    """J = 2 arms, n = 10 pulls: beta = sqrt(ln(2) / 20), eta = 0.95 beta, g = 1.05 sqrt(2 ln(2) / 10)."""
    assert pure(exp3p_rates)(2, 10.0) == pytest.approx((0.186165, 0.176857, 0.390947), abs=1e-6)
    gain = np.zeros(2)
    assert [pure(exp3p_draw)(gain, 2, 10.0, u) for u in (0.0, 0.4999, 0.5001, 0.9999)] == [0, 0, 1, 1]
    pure(exp3p_learn)(gain, 2, 10.0, 0, 0.6)
    assert gain == pytest.approx([(0.6 + 0.186165) / 0.5, 0.186165 / 0.5], abs=1e-5)
    # p(0) = (1 - g) / (1 + exp(-eta 1.2)) + g/2 = 0.532200
    assert [pure(exp3p_draw)(gain, 2, 10.0, u) for u in (0.53219, 0.53221)] == [0, 1]


def test_rates_are_cut():
    assert pure(exp3p_rates)(1, 5.0) == (0, 0, 0)
    assert pure(exp3p_rates)(8, 3.0)[2] == 1


def test_blocks_of_the_paper():
    """L = 10, K = 3, n = 100,000: blocks of sqrt(3,000,000) = 1732.1 steps, windows 1, 2, ..., 1024."""
    numbers = CUCBBoB().parameters(RankingProblem(10, 3, 100_000, 100_000))
    assert (numbers["J"], numbers["ring_size"]) == (11, 1024)
    learner = CUCBBoB().start(range(10), 3, horizon=100_000)
    s = state(learner)
    assert (s["length"][0], s["windows"][0]) == (1733, 11)
    assert s["window"][0] == 2.0 ** s["arm"][0]


def test_every_block_begins_with_nothing():
    """L = 2, K = 1, n = 50: blocks of 10 steps, 5 of them, windows 1, 2, 4, 8."""
    learner = CUCBBoB().start(["a", "b"], 1, horizon=50, seed=3)
    s = state(learner)
    for block in range(5):
        p = _probabilities(s["gain"], 5)
        gain, arm = s["gain"].copy(), s["arm"][0]
        for step in range(10):
            assert (s["done"][0], s["N"][0]) == (step, min(step, s["window"][0]))
            learner.update(["a"], [int(step < 2 * block)])
        beta = math.sqrt(math.log(4) / 20)
        reward = np.where(np.arange(4) == arm, 2 * block / 10, 0.0)
        assert s["gain"] == pytest.approx(gain + (reward + beta) / p, rel=1e-12)
        assert set(learner.scores().values()) == {math.inf}


def _probabilities(gain, n):
    J = len(gain)
    w = np.exp(0.95 * math.sqrt(math.log(J) / (n * J)) * gain)
    g = min(1, 1.05 * math.sqrt(J * math.log(J) / n))
    return (1 - g) * w / w.sum() + g / J


def test_windows_are_drawn_for_every_run_and_block():
    drawn = []
    for seed in range(60):
        learner = CUCBBoB().start(["a", "b"], 1, horizon=50, seed=seed)
        for _ in range(2):
            drawn.append(int(state(learner)["arm"][0]))
            for _ in range(10):
                learner.update(learner.rank(), None)
    assert all(15 <= drawn.count(arm) <= 45 for arm in range(4))
    assert sum(first != second for first, second in zip(drawn[::2], drawn[1::2], strict=True)) > 30


def test_several_clicks_in_a_list_count_once():
    learner = CUCBBoB().start(["a", "b"], 2, horizon=50)
    learner.update(["a", "b"], [1, 1])
    assert state(learner)["clicks"][0] == 1


def test_without_a_horizon_the_master_resets_at_powers_of_two():
    learner = CUCBBoB(first_horizon=4).start(["a", "b"], 1)
    for t in range(1, 1500):
        n = max(4, 2 ** int(math.log2(t)))
        s = state(learner)
        assert (s["assumed"][0], s["length"][0]) == (n, math.ceil(math.sqrt(2 * n)))
        assert s["windows"][0] == int(math.log2(s["length"][0])) + 1
        if t == n > 4:
            assert not s["gain"].any()
        learner.update(["a"], [t % 2])


@pytest.mark.parametrize("policy", [CUCBBoB(), CUCBBoB(first_horizon=40, exploration=0.1)], ids=lambda p: p.spec)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=1300, seed=3, told=told)


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("exploration", v) for v in (-1, math.nan, "wide", None)), *(("first_horizon", v) for v in (0, 1.5, "long"))],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CUCBBoB(**{name: value})
