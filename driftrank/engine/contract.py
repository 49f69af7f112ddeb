"""A public check of policies: simulator and learner make the same lists."""

from __future__ import annotations

import numpy as np

from driftrank.engine.simulator import Simulator
from driftrank.engine.task import Task, Unit
from driftrank.environments import Abrupt
from driftrank.environments.base import Environment
from driftrank.kernels.rng import run_key, users_key
from driftrank.policies.base import Policy
from driftrank.policies.registry import PolicyLike, as_policy


def small_world(k: int = 3) -> Environment:
    """Ten items, and a change every 150 steps."""
    return Abrupt({"q": [0.7, 0.5, 0.45, 0.3, 0.2, 0.2, 0.1, 0.05, 0.02, 0.0]}, k=k, period=150)


def check_simulation(
    policy: PolicyLike, steps: int = 500, k: int = 3, seed: int = 0, environment: Environment | None = None
) -> None:
    """Check that the simulator and a learner advanced step by step agree at every step, to the last bit.

    ``environment`` is by default a small world with abrupt changes and ``k`` positions.
    """
    policy = as_policy(policy)
    environment = small_world(k) if environment is None else environment
    task = Task((policy,), environment, steps, seed, tuple(range(1, steps + 1)))
    measures = Simulator(task, 0).run(Unit(0, environment.names[0], (0, 1)), lambda done: True)
    assert measures is not None
    for run in (0, 1):
        by_hand = stepped_by_hand(policy, environment, steps, seed, run)
        different = np.flatnonzero((by_hand != measures[run, :, : by_hand.shape[1]]).any(axis=1))
        assert not len(different), f"{policy.spec}: simulator and learner differ at step {different[0] + 1}, run {run}"


def stepped_by_hand(policy: Policy, environment: Environment, steps: int, seed: int, run: int) -> np.ndarray:
    """The measures of a run at every step, by a learner instead of the simulator."""
    query = environment.names[0]
    model = environment.users()
    key = run_key(seed, query, run)
    features = environment.features(query) if policy.contextual else None
    items = range(len(environment.queries[query]))
    learner = policy.start(items, environment.k, features=features, seed=seed, horizon=steps, query=query, run=run)
    out = np.zeros((steps, 4))  # up to the number of alarms
    totals = np.zeros(4)
    starts, alphas, optimal, _, live = environment.unroll(1, steps, query, run, seed)
    segment = 0
    for t in range(1, steps + 1):
        while segment + 1 < len(starts) and t >= starts[segment + 1]:
            segment += 1
            if environment.churns:
                learner.renew(np.flatnonzero(live[segment] == 2).tolist())
        ranking = learner.rank(np.flatnonzero(live[segment]).tolist() if environment.churns else None)
        value = model.reward(alphas[segment], list(ranking))
        clicks = model.simulate(alphas[segment], list(ranking), users_key(key, t))
        learner.update(ranking, clicks)
        totals[:3] += (optimal[segment] - value, value, sum(clicks))
        totals[3] = learner.alarm_count
        out[t - 1] = totals
    return out
