"""Policies against an environment."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import Task, Unit, cores, run_on_cpu
from driftrank.environments.base import Environment
from driftrank.experiments.breakpoints import marked_breakpoints
from driftrank.experiments.results import Result
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_choice, check_integer

DEVICES = ("cpu",)

#: steps of a unit: small enough to share out and to lose, large enough to cost nothing
_UNIT_STEPS = 2_000_000


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment,
    *,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    checkpoints: int | Sequence[int] = 100,
    progress: bool | Progress | None = None,
    finished: Collection[tuple[str, str, int]] = (),
    on_unit: Callable[[str, Unit, NDArray[np.float64], float], None] | None = None,
) -> Result:
    """Run policies against an environment; all of them meet the same users.

    Parameters
    ----------
    policies
        Policies, or their specs such as ``"CascadeSWUCB:window=500"``.
    horizon, runs
        Steps of a run, and runs of every query.
    seed
        Everything random derives from it; the result does not depend on threads, chunks or machines.
    checkpoints
        How many evenly spaced steps to record at, or which. The horizon is always among them, and so are breakpoints
        where they are few.
    progress
        Show a progress bar; by default where a person is watching.
    finished, on_unit
        To go on with an interrupted simulation: runs (label, query, run) to leave out, and what to call with every
        finished unit.

    Examples
    --------
    >>> import driftrank as dr
    >>> env = dr.environments.Stationary([[0.9, 0.5, 0.1, 0.1]], k=2)
    >>> result = dr.simulate(["CascadeUCB1", "Random"], env, horizon=2000, runs=4, progress=False)
    >>> result.regret("CascadeUCB1") < result.regret("Random")
    True
    """
    task, result = prepare(policies, environment, horizon, runs, seed, device, checkpoints)
    labels = result.labels
    begin = time.perf_counter()
    with chosen_progress(progress, {label: horizon * runs * len(environment.queries) for label in labels}) as bar:
        units = list(_units(task, runs, labels, frozenset(finished), bar))

        def done(unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
            result.put(unit.policy, unit.query, unit.runs, measures, seconds)
            if on_unit is not None:
                on_unit(labels[unit.policy], unit, measures, seconds)

        run_on_cpu(task, units, done, threads=threads, tick=lambda policy, n: bar.advance(labels[policy], n))
    result.seconds = time.perf_counter() - begin
    result.cores = threads or cores()
    return result


def prepare(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment,
    horizon: int,
    runs: int,
    seed: int,
    device: str,
    checkpoints: int | Sequence[int],
) -> tuple[Task, Result]:
    """What is to be run, and the result without its runs. What can be wrong is found here, before anything runs."""
    check_choice("device", device, DEVICES)
    check_integer("horizon", horizon, 1)
    check_integer("horizon", horizon, 1, 2**53)  # beyond that, steps are not told apart
    check_integer("runs", runs, 1)
    check_integer("seed", seed, 0, 2**63 - 1)
    if isinstance(policies, (Policy, str)):
        policies = [policies]
    chosen = [parse_policy(p) if isinstance(p, str) else p for p in policies]
    if not chosen:
        raise ValueError("policies: must name at least one")
    labels = labels_of(chosen)
    steps = checkpoint_steps(environment, horizon, checkpoints, seed, runs)
    task = Task(tuple(chosen), environment, horizon, seed, steps)
    for policy in chosen:
        for problem in {task.problem(query, policy) for query in environment.names}:
            policy.fields(policy.parameters(problem))
    return task, Result.empty(labels, [p.spec for p in chosen], environment, horizon, runs, seed, steps, device)


def labels_of(policies: Sequence[Policy]) -> list[str]:
    """What policies are called in results: their names, or their specs where a name occurs more than once."""
    names = Counter(type(p).__name__ for p in policies)
    labels = [type(p).__name__ if names[type(p).__name__] == 1 else p.spec for p in policies]
    twice = [label for label, n in Counter(labels).items() if n > 1]
    if twice:
        raise ValueError(f"policies: {twice[0]} occurs twice")
    return labels


def checkpoint_steps(
    environment: Environment, horizon: int, wanted: int | Sequence[int], seed: int, runs: int = 1
) -> tuple[int, ...]:
    """The steps to record at: those wanted, breakpoints where they are few, the horizon."""
    if isinstance(wanted, int):
        check_integer("checkpoints", wanted, 1)
        steps = {round(horizon * (i + 1) / wanted) for i in range(wanted)}
    else:
        steps = set(wanted)
        for step in steps:
            check_integer("checkpoints", step, 1, horizon)
    steps |= {horizon, *marked_breakpoints(environment, horizon, runs, seed)}
    return tuple(sorted(s for s in steps if s >= 1))


def _units(
    task: Task, runs: int, labels: Sequence[str], finished: frozenset[tuple[str, str, int]], bar: Progress
) -> Iterable[Unit]:
    size = max(1, _UNIT_STEPS // task.horizon)
    for policy, label in enumerate(labels):
        for query in task.environment.names:
            left = [run for run in range(runs) if (label, query, run) not in finished]
            bar.advance(label, task.horizon * (runs - len(left)), counted=False)
            for i in range(0, len(left), size):
                yield Unit(policy, query, tuple(left[i : i + size]))
