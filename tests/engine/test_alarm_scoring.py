"""Alarms held against the truth: the simulator's counts against plain ones, from the whole history of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import MEASURES, Simulator, Task, Unit
from driftrank.engine.alarm_scoring import HEAD, count_alarms, note_change, watch_size
from driftrank.environments import Abrupt, Churn
from driftrank.environments.base import Environment
from driftrank.kernels.rng import run_key, users_key
from driftrank.policies.base import Policy

COUNTS = [MEASURES.index(name) for name in ("alarms", "detected", "delay", "false_alarms")]
LEVELS = {"q": [0.9, 0.8, 0.6, 0.3, 0.2, 0.1]}
Raised = list[tuple[int, int | None, bool]]


def raised_alarms(policy: Policy, env: Environment, steps: int, run: int) -> Raised:
    """Step, item and scope of every alarm of a learner that is stepped by hand."""
    key = run_key(0, "q", run)
    learner = policy.start(range(len(LEVELS["q"])), env.k, horizon=steps, query="q", run=run)
    starts, alphas, _, _, live = env.unroll(1, steps, "q", run, 0)
    out: Raised = []
    for n, begin in enumerate(starts):
        if env.churns:
            learner.renew(np.flatnonzero(live[n] == 2).tolist())
        for t in range(begin, steps + 1 if n + 1 == len(starts) else starts[n + 1]):
            ranking = learner.rank(np.flatnonzero(live[n]).tolist() if env.churns else None)
            before = learner.alarm_count
            learner.update(ranking, env.users().simulate(alphas[n], list(ranking), users_key(key, t)))
            new = learner.alarm_count - before
            out += [(alarm.step, alarm.item, alarm.everything) for alarm in learner.alarms[-new:]] if new else []
    return out


def changes_and_news(env: Environment, steps: int, run: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(step, item) of every unannounced change, and of every item that leaves or is announced."""
    starts, alphas, _, _, live = env.unroll(1, steps, "q", run, 0)
    known: dict[int, float] = {}
    changes, news = [], []
    for begin, alpha, there in zip(starts, alphas, live if env.churns else [[1] * 6] * len(starts), strict=True):
        for a in range(len(alpha)):
            if there[a] != 1:
                news.append((int(begin), a))
            elif a in known and known[a] != alpha[a]:
                changes.append((int(begin), a))
            if there[a]:
                known[a] = alpha[a]
    return changes, news


def counted(alarms: Raised, env: Environment, steps: int, run: int) -> tuple[int, int, int, int]:
    """Alarms, breakpoints detected, the sum of their delays, false alarms."""
    changes, news = changes_and_news(env, steps, run)
    found: dict[int, int] = {}
    false = 0
    for n, (t, a, _) in enumerate(alarms):
        cleared = [step for step, item, everything in alarms[:n] if everything or item == a]
        # an alarm clears at the end of its step, news at the beginning
        since = max([0, *cleared, *(b for b, item in news if item == a and b <= t)])
        own = [b for b, item in changes if item == a and since < b <= t]
        latest = max([b for b, _ in changes if b <= t], default=None)
        if not own:
            false += 1
        elif own[-1] == latest:
            found.setdefault(latest, t - latest + 1)
    return len(alarms), len(found), sum(found.values()), false


WORLDS = {
    "abrupt": Abrupt(LEVELS, k=3, period=300),
    "churn": Churn(LEVELS, k=3, period=150, announced=False),
    "announced": Churn(LEVELS, k=3, period=150, announced=True),
    "absent": Churn(LEVELS, k=3, period=150, announced=False, absent=2),
}


@pytest.mark.parametrize("restart", ["global", "local"])
@pytest.mark.parametrize("world", WORLDS)
def test_counts_of_the_simulator(restart: str, world: str) -> None:
    policy = dr.GLRTCascadeKLUCB(delta=0.9, explore=0.2, restart=restart, threshold="jmlr")
    env, steps = WORLDS[world], 2000
    task = Task((policy,), env, steps, 0, (steps // 2, steps))
    measures = Simulator(task, 0).run(Unit(0, "q", (0, 1)), lambda done: True)
    assert measures is not None
    for run in (0, 1):
        alarms = raised_alarms(policy, env, steps, run)
        assert tuple(measures[run, 1, COUNTS]) == counted(alarms, env, steps, run)
        early = [alarm for alarm in alarms if alarm[0] <= steps // 2]
        assert tuple(measures[run, 0, COUNTS]) == counted(early, env, steps, run)
    assert measures[:, 1, COUNTS[0]].min() > 0
    if world != "announced":
        assert measures[:, 1, COUNTS[1]].sum() > 0


def test_announced_changes_need_not_be_detected() -> None:
    """After an announcement an alarm could only be false; without one, the policy finds most changes."""
    policies = ["GLRTCascadeKLUCB"]  # compiled for the other tests already
    queries = {"q": [0.9, 0.6, 0.3, 0.1, 0.05]}
    quiet, loud = (
        dr.simulate(
            policies, Churn(queries, k=2, period=4000, announced=announced), horizon=40_000, runs=4, progress=False
        )
        for announced in (True, False)
    )

    def measure(result: Any, name: str) -> float:
        return float(result.values[MEASURES.index(name), 0, 0, :, -1].mean())

    assert measure(quiet, "detected") == 0
    assert measure(quiet, "alarms") == measure(quiet, "false_alarms") <= 0.5
    assert measure(loud, "detected") > 2
    assert measure(loud, "false_alarms") <= 0.5


def test_alarms_by_hand() -> None:
    """Three items; the first changes at step 11, the second at 21."""
    watch, totals = np.zeros(watch_size(3)), np.zeros(len(MEASURES))
    all_present = np.zeros(0, np.int8)

    def now(*alpha: float, begin: int) -> None:
        note_change(watch, np.array(alpha), all_present, begin)

    def alarm(a: int, everything: int, t: int) -> list[float]:
        count_alarms(watch, a, everything, t, totals)
        return totals[COUNTS].tolist()

    now(0.1, 0.2, 0.3, begin=1)
    assert alarm(0, 0, 5) == [1, 0, 0, 1]  # nothing has changed yet
    now(0.5, 0.2, 0.3, begin=11)
    assert alarm(1, 0, 12) == [2, 0, 0, 2]  # not this one
    assert alarm(0, 0, 15) == [3, 1, 5, 2]  # steps 11 .. 15
    assert alarm(0, 0, 16) == [4, 1, 5, 3]  # it was cleared
    now(0.5, 0.9, 0.4, begin=21)
    assert alarm(2, 0, 21) == [5, 2, 6, 3]  # at once
    assert alarm(1, 0, 30) == [6, 2, 6, 3]  # true, but the breakpoint was detected already
    now(0.6, 0.9, 0.4, begin=31)
    now(0.6, 0.1, 0.4, begin=41)
    assert alarm(0, 1, 45) == [7, 2, 6, 3]  # true, but too late: the change before the last one
    assert alarm(1, 0, 46) == [8, 2, 6, 4]  # everything was started anew, this one too
    now(0.6, 0.2, 0.4, begin=51)
    assert alarm(-1, 1, 52) == [9, 3, 8, 4]  # on none in particular
    assert watch[HEAD : HEAD + 3].tolist() == [0, 0, 0]


def test_policies_that_detect_nothing_raise_nothing() -> None:
    result = dr.simulate(["CascadeUCB1"], WORLDS["abrupt"], horizon=700, progress=False)
    assert not result.values[COUNTS].any()
