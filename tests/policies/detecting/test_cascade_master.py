from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.kernels.rng import policy_key, run_key
from driftrank.policies.alarms import Alarm
from driftrank.policies.base import RankingProblem
from driftrank.policies.detecting.cascade_master import CascadeMASTER
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

BASES = ("ucb1", "klucb")
#: no test can fail
NEVER = 1.0


def test_tests_of_the_paper_can_never_fail():
    """L = 10, n = 100,000, delta = 1/n: 6 (log2 n + 1) ln n^2 = 2432.9, times rho(n): 24.6. No reward is that large."""
    learner = CascadeMASTER(test_scale=1.0).start(range(10), 3, horizon=100_000)
    slack = 6 * (math.log2(1e5) + 1) * math.log(1e10)
    assert state(learner)["slack"][0] == pytest.approx(slack)
    assert slack == pytest.approx(2432.9, abs=0.05)
    assert slack * (math.sqrt(10 / 1e5) + 10 / 1e5) == pytest.approx(24.6, abs=0.05)
    learner = CascadeMASTER(test_scale=1e-3, delta=0.1).start(range(10), 3, horizon=100_000)
    assert state(learner)["slack"][0] == pytest.approx(6e-3 * (math.log2(1e5) + 1) * math.log(1e6))


def test_size_of_the_state():
    for L, n in ((10, 100_000), (1000, 100_000), (7, 1), (7, 2), (7, 1023), (7, 1024)):
        M = int(math.log2(n))
        assert CascadeMASTER().parameters(RankingProblem(L, 3, n, n))["orders"] == M + 1
        floats, ints = CascadeMASTER().start(range(L), 3, horizon=n).compiled.layout.sizes
        assert floats == 2 * L * (M + 2) + 2 * M + 70
        assert ints == M + 69


def test_blocks_and_instances():
    """Blocks of 1, 2, 4, ... steps; of the instances, which lie within each other, the shortest acts and learns."""
    L, learner = 4, CascadeMASTER(test_scale=NEVER).start(range(4), 2, horizon=4096)
    began = {}
    for t in range(1, 4096):
        s = {name: values.copy() for name, values in state(learner).items()}
        m, done, active = (int(s[name][0]) for name in ("order", "done", "active"))
        assert (m, done) == (int(math.log2(t)), t - 2 ** int(math.log2(t))), t
        alive = np.flatnonzero(s["alive"])
        assert alive[0] == active
        assert alive[-1] == m
        for order in range(m):
            if done % 2**order == 0:
                began.setdefault((m, order), []).append(int(s["alive"][order]))
        ranking = learner.rank()
        learner.update(ranking, t % 3 + 1)
        after = state(learner)
        others = np.arange(len(s["N"])) != active
        awake = int(after["active"][0])
        if awake != active and after["acted"][awake] == 0:
            others[awake] = False  # wiped, for it is to act for the first time
        assert (after["N"][others] == s["N"][others]).all()
        assert (after["X"][others] == s["X"][others]).all()
    rho = lambda t: math.sqrt(L / t) + L / t  # noqa: E731
    for (m, order), draws in began.items():
        assert len(draws) == 2 ** (m - order)
        chance = rho(2**m) / rho(2**order)
        if len(draws) >= 64:
            assert np.mean(draws) == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / len(draws)))


def _restarts(policy, steps, told, L=5, K=2, seed=0):
    """Steps at which learner and plain version restart, in a world that changes twice."""
    learner, plain = policy.start(range(L), K, seed=seed, horizon=steps if told else None), None
    plain = reference_of(policy)(L, K, steps if told else None)
    generator = np.random.default_rng(seed)
    for t in range(1, steps + 1):
        ranking = learner.rank()
        assert ranking == plain.rank(t, policy_key(run_key(seed, "", 0), t)), t
        alpha = 0.9 if (3 * t // steps) % 2 else 0.05
        clicks = (generator.random(K) < np.where(np.array(ranking) < 2, alpha, 0.1)).astype(int)
        learner.update(ranking, clicks)
        plain.update(t, ranking, clicks)
    return learner, plain.restarts


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("told", [True, False])
def test_restarts_are_those_of_the_plain_version(base, told):
    learner, restarts = _restarts(CascadeMASTER(base=base, test_scale=4e-4, delta=0.05, first_horizon=1024), 1500, told)
    assert learner.alarms == [Alarm(step, None, True) for step in restarts]
    assert 1 <= len(restarts) < 40


@pytest.mark.parametrize(
    "policy",
    [
        CascadeMASTER(),
        CascadeMASTER(base="ucb1", width=0.5, ties="index"),
        CascadeMASTER(c=3, feedback="last"),
        CascadeMASTER(base="ucb1", order="increasing", test_scale=1e-4),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K", "told"), [(7, 3, True), (3, 3, True), (5, 1, False)])
def test_same_lists_as_the_plain_version(policy, L, K, told):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=400, seed=3, told=told)


def _in_the_last_step(m, L=4, **values):
    """A learner before the last step of a block of order ``m``, with sums as given."""
    learner = CascadeMASTER(base="ucb1").start(range(L), 1, horizon=4096)
    for t in range(1, 2 ** (m + 1) - 1):
        learner.update([t % L], [0])
    s = state(learner)
    assert (s["order"][0], s["done"][0]) == (m, 2**m - 1)
    s["alive"][:] = 0
    s["alive"][m] = 1
    s["earned_before"][m] = 0.0
    for name, value in values.items():
        s[name][0] = value
    return learner


def _rho(t, L=4):
    return math.sqrt(L / t) + L / t


@pytest.mark.parametrize(("more", "alarms"), [(1e-9, 1), (-1e-9, 0)])
def test_something_became_better(more, alarms):
    """Test 1: 64 steps earned .9 on average, the least value of the block is 9 rho^ less."""
    slack = 0.9 / (18 * _rho(64))
    least = 0.9 - 9 * slack * _rho(64) - more
    learner = _in_the_last_step(6, earned=0.9 * 64 - 1, hoped=0.9 * 64, least=least, slack=slack)
    learner.update([0], [1])
    assert learner.alarm_count == alarms
    assert (state(learner)["order"][0], state(learner)["done"][0]) == ((0, 0) if alarms else (7, 0))


@pytest.mark.parametrize(("more", "alarms"), [(1e-9, 1), (-1e-9, 0)])
def test_something_became_worse(more, alarms):
    """Test 2: 64 steps earned 3 rho^ less than was hoped for, the last one of value min(1, U)."""
    slack = 0.1
    learner = _in_the_last_step(6, slack=slack)
    value = min(1.0, learner.scores()[0])
    state(learner)["hoped"][0] = 64 * (3 * slack * _rho(64) + more) + 5 - value
    state(learner)["earned"][0] = 5
    learner.update([0], [0])
    assert learner.alarm_count == alarms
    assert learner.alarms == [Alarm(127, None, True)] * alarms


def test_value_of_a_list_by_hand():
    """U = .5 + r and 0 + r with r = sqrt(.1 ln 3 / 2): 1 - (1 - U)(1 - U')."""
    learner = CascadeMASTER(base="ucb1", width=0.1, test_scale=NEVER).start(range(3), 2, horizon=4096)
    s = state(learner)
    for _ in range(31):  # up to a block of order 5
        learner.update([2], [0])
    s["alive"][:] = 0
    s["alive"][5], s["active"][0], s["acted"][5] = 1, 5, 3
    s["N"][5], s["X"][5] = [2, 2, 2], [1, 0, 0]
    s["mean"][:], s["spread"][:] = [0.5, 0, 0], math.sqrt(1 / 2)
    hoped, r = s["hoped"][0], math.sqrt(0.1 * math.log(3) / 2)
    ranking = learner.rank()
    assert ranking[0] == 0
    assert ranking.memo.tolist() == pytest.approx([0.5 + r, r])
    for shown in (ranking, list(ranking)):  # the same where the bounds are lost
        s["hoped"][0] = hoped
        saved = {name: values.copy() for name, values in s.items()}
        learner.update(shown, [0, 0])
        assert s["hoped"][0] - hoped == pytest.approx(1 - (0.5 - r) * (1 - r))
        for name, values in saved.items():
            s[name][:] = values
        learner.steps -= 1


def test_a_short_list_does_not_lower_the_least_value():
    learner = CascadeMASTER(base="ucb1", width=0.0, test_scale=NEVER).start(range(3), 2, horizon=4096)
    for _ in range(63):
        learner.update([0, 1, 2][:2], [0, 1])
    s = state(learner)
    s["alive"][:], s["alive"][6], s["active"][0], s["acted"][6] = 0, 1, 6, 1
    s["mean"][:] = [0.0, 0.5, 0.5]
    learner.update([0], [0])
    assert s["least"][0] == math.inf
    s["active"][0], s["mean"][:] = 6, [0.0, 0.5, 0.5]
    learner.update([0, 1], [0, 0])
    assert s["least"][0] == 0.5


@pytest.mark.parametrize("base", BASES)
def test_items_that_come_are_new_to_all_instances(base):
    learner = CascadeMASTER(base=base).start(["a", "b", "c"], 2, horizon=600)
    for t in range(300):
        learner.update(learner.rank(), t % 3 + 1)
    learner.remove_items(["a"])
    learner.add_items(["d", "e"])
    s = state(learner)
    assert not s["N"][:, [0, 3]].any()
    assert s["N"][:, 1].any()
    scores = learner.scores()
    assert scores["d"] == scores["e"] == math.inf


def test_orders_grow_with_an_unknown_horizon():
    learner = CascadeMASTER(test_scale=NEVER, first_horizon=256).start(range(3), 1)
    for t in range(1, 2100):
        m = int(math.log2(t))
        assert state(learner)["order"][0] == m
        log2_n = max(8, m + 1)
        assert state(learner)["slack"][0] == pytest.approx(6 * (log2_n + 1) * 2 * log2_n * math.log(2))
        learner.update(learner.rank(), None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("test_scale", v) for v in (0, -1, math.nan, math.inf, "small", None)),
        *(("delta", v) for v in (0, 1, -1, math.nan, "small", None, True)),
        *(("c", v) for v in (-1, math.nan, "small", None)),
        *(("width", v) for v in (-1, math.nan, "small", None)),
        *(("first_horizon", v) for v in (1, 2.5, "long", None)),
        *(("base", v) for v in ("ts", None, 0)),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeMASTER(**{name: value})
