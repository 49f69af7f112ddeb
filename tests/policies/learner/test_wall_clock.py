"""Forgetting in time: half lives and windows given as durations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftrank as dr
from driftrank.policies.base import RankingProblem
from driftrank.policies.contract.checks import CHECKS
from driftrank.policies.forgetting.cascade_dklucb import CascadeDKLUCB
from driftrank.policies.forgetting.cascade_dts import CascadeDTS
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swklucb import CascadeSWKLUCB
from driftrank.policies.forgetting.cascade_swts import CascadeSWTS
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.forgetting.cucb_sw import CUCBSW
from driftrank.policies.registry import parse_policy
from tests.policies.streams import state, streams
from tests.reference import reference_of
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

HOUR = 3600.0
START = 1.7e9  # a time as the service tells it
DISCOUNTED = [CascadeDUCB, CascadeDKLUCB, CascadeDTS]
WINDOWED = [CascadeSWUCB, CascadeSWKLUCB, CascadeSWTS, CUCBSW]


def mean(learner):
    s = state(learner)
    return s["X"][0] / s["N"][0]


def means_by_hour(policy, per_hour):
    """The mean of an item that is clicked always for ten hours, and then never again, hour by hour from then on."""
    learner = policy.start(["a", "b"], 1)
    out = []
    for n in range(30 * per_hour):
        learner.update(["a"], [int(n < 10 * per_hour)], now=START + n * HOUR / per_hour)
        if n >= 10 * per_hour and (n + 1) % per_hour == 0:
            out.append(mean(learner))
    return np.array(out)


@pytest.mark.parametrize("cls", DISCOUNTED)
def test_the_speed_of_forgetting_does_not_depend_on_traffic(cls):
    few, many = (means_by_hour(cls(half_life="3h"), per_hour) for per_hour in (12, 120))
    assert few == pytest.approx(many, abs=0.01)
    hours = np.arange(1, 21)
    left = 0.5 ** (hours / 3) * (1 - 0.5 ** (10 / 3)) / (1 - 0.5 ** ((10 + hours) / 3))  # of the weight
    assert many == pytest.approx(left, abs=0.003)


def test_steps_forget_faster_with_more_traffic():
    """What the test above would find without wall-clock time."""
    few, many = (means_by_hour(CascadeDTS(discount=0.98), per_hour) for per_hour in (12, 120))
    assert few[0] > 0.5 > 0.2 > many[0]


@pytest.mark.parametrize("cls", WINDOWED)
def test_a_window_ends_at_the_same_hour_whatever_the_traffic(cls):
    for per_hour in (12, 120):
        means = means_by_hour(cls(window="6h"), per_hour)
        assert means[:7] == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0, 0], abs=1e-9)


def test_rank_discounts_up_to_its_time():
    learner = CascadeDTS(half_life=100.0).start(["a", "b"], 1)
    for t in range(4):
        learner.update(["a"], [t % 2], now=START)  # S = F = 2
    assert learner.scores(now=START) == {"a": 0.5, "b": 0.5}
    learner.update(["a"], [1], now=START)  # S = 3, F = 2
    assert learner.scores(now=START)["a"] == pytest.approx(4 / 7)
    assert learner.scores(now=START + 100)["a"] == pytest.approx(2.5 / 4.5)
    assert learner.scores(now=START + 300)["a"] == pytest.approx(1.375 / 2.625)
    assert learner.scores(now=START - 1e6)["a"] == pytest.approx(4 / 7)  # time that goes backwards is no time
    later = [learner.rank(now=START + 1e9, key=key) for key in range(400)]
    assert 140 < sum(ranking == ["a"] for ranking in later) < 260  # nothing is left: both are as good as new


def test_the_bonus_by_hand():
    """Half a life after two observations: N = sqrt(2), X = sqrt(1/2), and three steps, of which sqrt(2) are left."""
    ducb = CascadeDUCB(half_life="10s").start(["a", "b"], 1)
    pulls = CascadeDUCB(half_life="10s", clock="pulls").start(["a", "b"], 1)
    dkl = CascadeDKLUCB(half_life="10s").start(["a", "b"], 1)
    for learner in (ducb, pulls, dkl):
        learner.update(["a"], [1], now=START)
        learner.update(["a"], [0], now=START)
    N, m = math.sqrt(2), math.sqrt(2) + 1
    bonus = 2 * math.sqrt(0.5 * math.log(m) / N)
    assert ducb.scores(now=START + 5)["a"] == pytest.approx(0.5 + bonus, rel=1e-12)
    bonus = 2 * math.sqrt(0.5 * math.log(N) / N)
    assert pulls.scores(now=START + 5)["a"] == pytest.approx(0.5 + bonus, rel=1e-12)
    assert dkl.scores(now=START + 5)["a"] == pytest.approx(kl_ucb(0.5, math.log(m) / N), abs=1e-9)


@pytest.mark.parametrize("cls", DISCOUNTED)
def test_late_feedback_counts_as_made_at_the_latest_time_seen(cls):
    late, timely = cls(half_life="1h").start(["a", "b"], 2), cls(half_life="1h").start(["a", "b"], 2)
    for n, now in enumerate([0, 50, 20, 100, -1e9, 110]):
        late.update(["a", "b"], n % 2 + 1, now=START + now)
        timely.update(["a", "b"], n % 2 + 1, now=START + max(0, 50 * (n > 0), 100 * (n > 2), 110 * (n > 4)))
    assert late._floats.tolist() == timely._floats.tolist()


@pytest.mark.parametrize("cls", DISCOUNTED)
def test_years_without_feedback(cls):
    learner = cls(half_life="1s").start(["a", "b", "c"], 2)
    now = START
    for gap in (1, 400, 1e3, 1e5, 1e9, 1, 700, 700, 700):
        now += gap
        for later in (0, 1, 1e4, 1e9):
            assert not any(math.isnan(u) for u in learner.scores(now=now + later).values())
            assert not np.isnan(learner.rank(now=now + later).scores).any()
        learner.update(["a", "b"], 2, now=now)
        s = state(learner)
        assert all(np.isfinite(s[name]).all() for name in ("N", "X", "unit", "clock"))
        assert s["N"][0] / s["unit"][0] >= 1.0
    learner.update(["a"], [0], now=now + 1e9)
    s = state(learner)
    assert s["N"][0] == pytest.approx(s["unit"][0])  # one observation, and nothing of those before
    if cls is not CascadeDTS:
        assert learner.scores(now=now + 1e9)["a"] < learner.scores(now=now + 1e9)["b"] < math.inf


@pytest.mark.parametrize("policy", [cls(half_life=40.0) for cls in DISCOUNTED], ids=lambda policy: policy.spec)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    """Without times, a step lasts a second."""
    assert_same_lists(policy, reference_of(policy), L=6, K=3, steps=300, seed=3, told=told)


@pytest.mark.compiled
def test_in_a_simulation_a_step_lasts_a_second():
    env = dr.environments.Abrupt(dr.queries.yandex_like(2, seed=0), k=3, period=300)
    specs = ["CascadeSWTS:window=80", "CascadeSWTS:window=80s"]
    result = dr.simulate(specs, env, horizon=1200, runs=2, progress=False)
    assert result.values[:, 0].tolist() == result.values[:, 1].tolist()


# -- windows -----------------------------------------------------------------------------------------------------------


@given(streams(4, 3), st.lists(st.integers(-3, 9), min_size=60, max_size=60), st.integers(1, 25))
@settings(max_examples=60, deadline=None)
def test_counts_are_sums_over_the_last_seconds(stream, gaps, capacity):
    span = 12
    learner = CascadeSWUCB(window=f"{span}s", capacity=capacity).start(range(4), 3)
    now, steps = START, []
    for (shown, clicks), gap in zip(stream, gaps, strict=False):
        now += gap
        learner.update(shown, clicks, now=now)
        looked_at = clicks.index(1) + 1 if 1 in clicks else len(shown)
        seen = max([now] + [time for time, _ in steps])  # late ones count as made at the latest time seen
        if not any(seen - time < span for time, _ in steps):
            seen = now  # nobody is left who has seen a later time
        steps.append((seen, list(zip(shown[:looked_at], clicks, strict=False))))
        steps = [(time, pairs) for time, pairs in steps if seen - time < span][-capacity:]
    N, X = np.zeros(4), np.zeros(4)
    for _, pairs in steps:
        for a, click in pairs:
            N[a] += 1
            X[a] += click
    s = state(learner)
    assert (s["N"].tolist(), s["X"].tolist()) == (N.tolist(), X.tolist())
    assert s["held"][0] == len(steps)
    for a in range(4):
        bonus = math.sqrt(0.5 * math.log(len(steps) + 1) / N[a]) if N[a] else math.inf
        assert learner.scores()[a] == pytest.approx(X[a] / max(N[a], 1) + bonus, rel=1e-12)


def test_the_ring_grows_up_to_the_capacity():
    learner = CascadeSWTS(window="1w", capacity=3000).start(["a", "b"], 1)
    sizes = set()
    for n in range(5000):
        learner.update(["a"], [int(n < 1000)], now=START + n)
        sizes.add(len(state(learner)["time"]))
        assert state(learner)["held"][0] == min(n + 1, 3000)
    assert sizes == {1024, 2048, 3000}
    assert state(learner)["N"][0] == 3000
    assert state(learner)["X"][0] == 0  # the clicks were the oldest
    assert CascadeSWTS(window="1w").parameters(RankingProblem(2, 1, 10**6, 10**6))["ring_size"] == 100_000


def test_a_removed_item_leaves_a_window_in_time():
    learner = CascadeSWUCB(window="10s").start(["a", "b", "c"], 2)
    for now in range(8):
        learner.update(["a", "b"], [0, 1], now=now)
    learner.remove_items(["a"])
    learner.add_items(["d"])
    for now in range(8, 40):
        learner.update(["d", "b"], [1, 0], now=now)
    assert state(learner)["N"].tolist() == [10, 0, 0]
    assert state(learner)["X"].tolist() == [10, 0, 0]


# -- what every policy must do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        "same_seed_same_run",
        "rank_is_pure",
        "save_and_load_change_nothing",
        "late_and_lost_feedback",
        "state_is_bounded",
        "numbers_are_finite",
        "items_come_and_go",
        "item_that_returns_is_new",
        "spec_round_trips",
        "bad_values_are_refused",
    ],
)
@pytest.mark.parametrize("spec", ["CascadeDUCB:half_life=5m", "CascadeDTS:half_life=90", "CascadeSWUCB:window=2m"])
def test_contract(spec, check):
    CHECKS[check](parse_policy(spec))


@pytest.mark.parametrize("spec", ["CascadeDTS:half_life=7d", "CascadeSWUCB:window=24h,capacity=2000"])
def test_saving_keeps_the_time(spec, tmp_path):
    policy = parse_policy(spec)
    assert policy.spec == spec
    learner = policy.start(["a", "b", "c"], 2, seed=1)
    for n in range(1500):
        learner.update(["a", "b"], n % 3 + 1, now=START + n * 120)
    learner.save(tmp_path / "learner")
    other = dr.load(tmp_path / "learner")
    now = START + 1500 * 120 + HOUR
    assert learner.scores(now=now) == other.scores(now=now)
    for n in range(50):
        assert learner.rank(now=now) == other.rank(now=now)
        for each in (learner, other):
            each.update(["a", "c"], n % 3 + 1, now=now)
        now += HOUR
    assert learner._floats.tolist() == other._floats.tolist()


# -- bad values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["7 days", "-7d", "0h", "week", 0, -1.0, math.nan, math.inf, True, [7]])
def test_bad_half_lives(value):
    with pytest.raises(ValueError, match=r"^half_life.*: must be"):
        CascadeDTS(half_life=value)


@pytest.mark.parametrize("value", ["24 hours", "-24h", "0s", "day", 0, 1.5, math.nan, True, None])
def test_bad_windows(value):
    with pytest.raises(ValueError, match=r"^window.*: must be"):
        CascadeSWUCB(window=value)


@pytest.mark.parametrize("discount", [0.99, 1, "doubling"])
def test_a_half_life_excludes_a_discount(discount):
    with pytest.raises(ValueError, match=r"half_life='7d': cannot be combined with discount"):
        CascadeDUCB(half_life="7d", discount=discount)


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None])
def test_bad_capacities(value):
    with pytest.raises(ValueError, match="capacity"):
        CascadeSWUCB(window="1h", capacity=value)
