"""The skeleton of policies that detect changes, and the named ones made of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from driftrank.policies.base import RankingProblem
from driftrank.policies.detecting.cascade_cd import CascadeCD
from driftrank.policies.detecting.forced_exploration import SCHEDULES
from driftrank.policies.detecting.presets import CascadeCUSUM, CascadeMUCB, CascadePHT, GLRTCascadeKLUCB, GLRTCascadeUCB
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes ten times as long

ALWAYS = {"delta": 0.05}  # fires at the fourth one after ten zeros


def numbers(policy, L=10, K=3, horizon=100_000):
    return policy.parameters(RankingProblem(L, K, horizon))


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_breakpoints", "p"), [(1, 0.0339), (10, 0.1073), (9, 0.1018)])
def test_exploration_by_hand(n_breakpoints, p):
    """sqrt(Upsilon L ln n / n) for L = 10, n = 100,000."""
    found = numbers(GLRTCascadeKLUCB(n_breakpoints=n_breakpoints))
    assert found["explore"] == pytest.approx(p, abs=5e-5)
    assert SCHEDULES[found["schedule"]] == "constant"


def test_defaults_of_the_papers():
    glr = numbers(GLRTCascadeUCB())
    assert glr["glr_level"] == pytest.approx(math.log(3 * 100_000))  # delta = 1/n
    assert glr["width"] == 1.5
    assert numbers(CascadeMUCB())["ring_b"] == pytest.approx(102.02, abs=0.005)
    cusum = numbers(CascadeCUSUM())
    assert cusum["walk_h"] == pytest.approx(math.log(100_000))
    assert cusum["explore"] == pytest.approx(math.sqrt(math.log(100_000) / 100_000))


def test_without_a_horizon_nothing_needs_one():
    for policy in (GLRTCascadeKLUCB(), GLRTCascadeUCB(), CascadeMUCB()):
        found = numbers(policy, horizon=None)
        assert SCHEDULES[found["schedule"]] == "diminishing"
        assert found["explore"] == 1.0
    assert numbers(GLRTCascadeKLUCB(), horizon=None)["glr_anytime"]
    assert numbers(CascadeMUCB(), horizon=None)["ring_anytime"]
    assert numbers(CascadePHT(), horizon=None)["walk_anytime"]
    assert numbers(CascadeCUSUM(), horizon=None)["explore_anytime"]
    constant = numbers(GLRTCascadeKLUCB(explore=0.02), horizon=None)  # p is known, so the schedule is
    assert SCHEDULES[constant["schedule"]] == "constant"
    assert constant["explore"] == 0.02


@pytest.mark.parametrize(
    ("policy", "numbers_in_all"),
    [
        (GLRTCascadeKLUCB(), lambda L: 267 * L + 136),
        (GLRTCascadeUCB(), lambda L: 267 * L + 136),
        (CascadeCUSUM(), lambda L: 10 * L + 136),
        (CascadePHT(), lambda L: 10 * L + 136),
        (CascadeMUCB(window=100), lambda L: (7 + 10) * L + 136),
    ],
    ids=lambda value: getattr(value, "spec", ""),
)
def test_size_of_the_state(policy, numbers_in_all):
    for L in (4, 9):
        assert sum(CompiledPolicy.of(policy, RankingProblem(L, 2, 100)).layout.sizes) == numbers_in_all(L)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"explore": 1.1}, "explore"),
        ({"explore": "often"}, "explore"),
        ({"explore": -1, "schedule": "diminishing"}, "explore"),
        ({"schedule": "weekly"}, "schedule='weekly'"),
        ({"restart": "both"}, "restart='both'"),
        ({"n_breakpoints": 0}, "n_breakpoints=0"),
        ({"delta": 2}, "delta"),
        ({"c": -1}, "c=-1"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message):
        GLRTCascadeKLUCB(**options)


def test_a_base_class_is_not_a_policy():
    import driftrank as dr

    assert not hasattr(dr, "ChangeDetection")
    assert hasattr(dr, "GLRTCascadeUCB")


# -- forced exploration ------------------------------------------------------------------------------------------------


def forced_steps(policy, steps, L=4):
    """Which item is shown at which step, where only item L is ever clicked, and so shown unless another is forced."""
    learner = policy.start(range(L + 1), 1)
    out = {}
    for t in range(1, steps + 1):
        ranking = learner.rank(key=t)
        a = ranking[0]
        if a != L:
            out[t] = a
        learner.update(ranking, [int(a == L)])
    return out


def test_constant_schedule():
    """L = 5, p = 0.25: a period of 20 steps, in the first five of which items 0 .. 4 are on top."""
    shown = forced_steps(GLRTCascadeUCB(explore=0.25, width=0, delta=1e-9), 60)
    assert shown == {begin + j: j - 1 for begin in (0, 20, 40) for j in (1, 2, 3, 4)}


def test_period_is_at_least_the_number_of_items():
    """p = 1 is pure exploration; no item is left out."""
    learner = GLRTCascadeUCB(explore=1, delta=1e-9).start(range(3), 1)
    seen = []
    for t in range(9):
        seen += learner.rank(key=t)
        learner.update(learner.rank(key=t), [0])
    assert seen == [0, 1, 2] * 3


def test_diminishing_schedule():
    """L = 5, p = 1/2: sweep i begins 5 i^2 steps after the start."""
    shown = forced_steps(GLRTCascadeUCB(schedule="diminishing", explore=0.5, width=0, delta=1e-9), 100)
    assert shown == {5 * i * i + j: j - 1 for i in range(5) for j in (1, 2, 3, 4) if 5 * i * i + j <= 100}


def test_episode_schedule_explores_more_after_every_restart():
    """p_k = p_0 sqrt(k + 1): periods floor(L / p) of 20, then of floor(20 / sqrt 2)."""
    learner = GLRTCascadeUCB(schedule="episode", explore=0.25, **ALWAYS).start(range(5), 1)
    assert state(learner)["sweep"][1] == 20
    for y in [0] * 10 + [1] * 4:
        learner.update([3], [y])
    assert learner.alarm_count == 1
    assert state(learner)["sweep"][1] == math.floor(20 / math.sqrt(2))


def test_random_schedule():
    """Any item, with probability p; at other steps the best."""
    shown = forced_steps(GLRTCascadeUCB(schedule="random", explore=0.25, width=0, delta=1e-9), 2000)
    late = [a for t, a in shown.items() if t > 10]
    assert len(late) / 1990 == pytest.approx(0.25 * 4 / 5, abs=0.03)
    assert np.bincount(late, minlength=4).min() > 60


def test_no_exploration():
    assert max(forced_steps(GLRTCascadeUCB(explore=0, width=0, delta=1e-9), 300)) <= 5


def test_forced_item_goes_on_top_and_the_others_follow_by_index():
    learner = GLRTCascadeUCB(explore=0.1, width=0, delta=1e-9).start(range(4), 3)
    for items, clicks in (([0, 1, 2], [0, 0, 0]), ([3], [1]), ([2], [1]), ([1], [0])):
        learner.update(items, clicks)  # means 0, 0, 1/2, 1
    learner.steps = 40  # the next sweep begins: 4 / 0.1 = 40
    state(learner)["sweep"][0] = 40
    assert list(learner.rank()) == [0, 3, 2]
    learner.steps = 42
    assert list(learner.rank())[:2] == [2, 3]  # it was in the list already
    assert learner.rank([0, 1, 3], k=2)[0] == 3  # it may not be shown
    assert learner.rank(k=1) == [2]


def test_forced_item_in_increasing_order():
    learner = GLRTCascadeUCB(explore=0.1, width=0, delta=1e-9, order="increasing").start(range(4), 3)
    for items, clicks in (([0, 1, 2], [0, 0, 0]), ([3], [1]), ([2], [1]), ([1], [0])):
        learner.update(items, clicks)
    learner.steps = 40
    state(learner)["sweep"][0] = 40
    assert list(learner.rank()) == [0, 2, 3]


def test_new_items_have_their_turn_last():
    learner = GLRTCascadeUCB(explore=1, delta=1e-9).start(["b", "a", "c"], 1)
    first = []
    for _ in range(3):
        first += learner.rank()
        learner.update(learner.rank(), [0])
    learner.remove_items([first[0]])
    learner.add_items(["d"])
    assert [learner._slots.names[n] for n in state(learner)["turn"]] == [*first[1:], "d"]


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_global_restart_drops_the_rest_of_the_step():
    learner = GLRTCascadeUCB(**ALWAYS, feedback="all").start(["a", "b", "c"], 3)
    for y in [0] * 10 + [1] * 3:
        learner.update(["c", "a", "b"], [0, y, 1])
    assert state(learner)["N"].tolist() == [13, 13, 13]
    learner.update(["c", "a", "b"], [0, 1, 1])
    assert [(alarm.step, alarm.item, alarm.everything) for alarm in learner.alarms] == [(14, "a", True)]
    assert state(learner)["N"].tolist() == [0, 0, 0]  # that of b was seen after the alarm
    assert state(learner)["hull_size"].tolist() == [[1, 1]] * 3
    assert set(learner.scores().values()) == {math.inf}


def test_local_restart_wipes_one_item():
    learner = GLRTCascadeUCB(**ALWAYS, feedback="all", restart="local").start(["a", "b", "c"], 3)
    for y in [0] * 10 + [1] * 4:
        learner.update(["c", "a", "b"], [0, y, 1])
    assert [(alarm.step, alarm.item, alarm.everything) for alarm in learner.alarms] == [(14, "a", False)]
    assert state(learner)["N"].tolist() == [0, 14, 14]
    assert state(learner)["since"].tolist() == [14, 0, 0]
    learner.update(["a"], [0])
    for _ in range(5):
        learner.update(["b"], [1])
    # t = 21: its own clock is at 7, that of the others at 21
    assert learner.scores()["a"] == pytest.approx(math.sqrt(1.5 * math.log(7)))
    assert learner.scores()["c"] == pytest.approx(math.sqrt(1.5 * math.log(21) / 14))


def test_clock_of_a_global_restart():
    learner = GLRTCascadeKLUCB(**ALWAYS).start(["a", "b"], 1)
    for y in [0] * 10 + [1] * 4:
        learner.update(["a"], [y])
    learner.update(["b"], [0])
    learner.update(["b"], [0])
    # t = 17, so ln(17 - 14) = ln 3 and N = 2: kl(0, u) = ln(3)/2 at u = 1 - 3^(-1/2)
    assert learner.scores()["b"] == pytest.approx(1 - 3**-0.5)


def test_clock_of_pulls():
    learner = CascadeCUSUM(feedback="all").start(["a", "b", "c"], 2)
    for _ in range(6):
        learner.update(["a", "b"], [0, 0])
    assert learner.scores()["a"] == pytest.approx(math.sqrt(1.5 * math.log(12) / 6))
    learner.remove_items(["b"])
    assert learner.scores()["a"] == pytest.approx(math.sqrt(1.5 * math.log(6) / 6))


def test_an_item_that_is_renewed_has_a_new_clock():
    learner = GLRTCascadeKLUCB(**ALWAYS).start(["a", "b"], 1)
    for _ in range(10):
        learner.update(["a"], [0])
    learner.renew(["a"])
    assert learner.alarms == []  # announced, so it need not be detected
    assert learner.scores()["a"] == math.inf
    learner.update(["a"], [0])
    learner.update(["b"], [0])
    assert learner.scores()["a"] == pytest.approx(1 - 1 / 3)  # t = 13, its third step


# -- the same as the plain versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        GLRTCascadeUCB(delta=0.3, explore=0.3),
        GLRTCascadeUCB(delta=0.3, explore=0.3, restart="local"),
        GLRTCascadeUCB(delta=0.3, explore=0.2, schedule="episode"),
        GLRTCascadeUCB(delta=0.3, explore=0.4, schedule="diminishing", restart="local", ties="index"),
        GLRTCascadeUCB(delta=0.3, explore=0.4, schedule="random", order="increasing"),
        GLRTCascadeUCB(delta=0.3, schedule="episode", restart="local", feedback="last", every=3),
        GLRTCascadeKLUCB(delta=0.3, restart="local", c=3),
        CascadeCUSUM(h=2, calibration=10, n_breakpoints=3),
        CascadeCUSUM(h=2, calibration=10, clock="steps", restart="global", schedule="auto"),
        CascadePHT(h=2, explore=0.2),
        CascadeMUCB(window=20, b=5),
        CascadeMUCB(window=20, b=5, schedule="random", restart="local", clock="pulls"),
    ],
    ids=lambda policy: policy.spec,
)
def test_same_lists_as_the_plain_version(policy):
    """With parameters that raise alarms, and also where nobody knows how long it takes."""
    for told in (True, False):
        plain = []

        def remembered(L, K, horizon, plain=plain):
            plain.append(reference_of(policy)(L, K, horizon))
            return plain[-1]

        assert_same_lists(policy, remembered, L=5, K=2, steps=400, seed=3, told=told)
        assert len(plain[0].alarms) >= 2


@pytest.mark.parametrize(
    "policy",
    [
        CascadeCD(base="ts", detector="window", window=20, b=5, restart="local"),
        CascadeCD(base="ucbv", detector="pht", h=2, schedule="diminishing"),
    ],
    ids=lambda policy: policy.spec,
)
def test_any_base_with_any_detector(policy):
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=300, seed=3, told=False)


def test_named_policies_are_choices_of_the_general_one():
    """The same kernels, so nothing is compiled twice."""
    assert CascadeCD().kernels() is GLRTCascadeKLUCB().kernels()
    assert CascadeCD(base="ucb1", detector="cusum", h=3).kernels() is CascadeCUSUM().kernels()
    assert CascadeCD(base="ucb1").kernels() is not CascadeCD(base="ts").kernels()
    assert numbers(CascadeCD()) == numbers(GLRTCascadeKLUCB())
