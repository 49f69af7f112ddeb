"""Policies against an environment."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import Task, Unit
from driftrank.engine.devices import Device, at_once, ready, run_on, unit_steps, word_for
from driftrank.environments.base import Environment
from driftrank.experiments.breakpoints import marked_breakpoints
from driftrank.experiments.results import Result
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment,
    *,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    device: Device = "cpu",
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
    device
        ``"cpu"``; ``"cuda"``; ``"cluster"``, with workers started on this machine for the while; or a
        :class:`~driftrank.engine.cluster.Cluster`, for any other. One that is open stays open.
    threads
        How many cores ``"cpu"`` uses; None: all.
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
    totals = {label: horizon * runs * len(environment.queries) for label in labels}
    with ready(device) as place, chosen_progress(progress, totals) as bar:
        result.device = word_for(place)
        units = list(_units(task, runs, labels, frozenset(finished), bar, unit_steps(place)))

        def done(unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
            result.put(unit.policy, unit.query, unit.runs, measures, seconds)
            if on_unit is not None:
                on_unit(labels[unit.policy], unit, measures, seconds)

        run_on(place, task, units, done, threads=threads, tick=lambda policy, n: bar.advance(labels[policy], n))
        result.cores = at_once(place, threads)
    result.seconds = time.perf_counter() - begin
    return result


def prepare(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment,
    horizon: int,
    runs: int,
    seed: int,
    device: Device,
    checkpoints: int | Sequence[int],
    breakpoints: bool = True,
) -> tuple[Task, Result]:
    """What is to be run, and the result without its runs. What can be wrong is found here, before anything runs.

    ``breakpoints``: where they are few, they are checkpoints.
    """
    word = word_for(device)
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
    steps = checkpoint_steps(environment, horizon, checkpoints, seed, runs, breakpoints)
    task = Task(tuple(chosen), environment, horizon, seed, steps)
    for policy in chosen:
        for problem in {task.problem(query, policy) for query in environment.names}:
            policy.fields(policy.parameters(problem))
    return task, Result.empty(labels, [p.spec for p in chosen], environment, horizon, runs, seed, steps, word)


def labels_of(policies: Sequence[Policy]) -> list[str]:
    """What policies are called in results: their names, or their specs where a name occurs more than once."""
    names = Counter(type(p).__name__ for p in policies)
    labels = [type(p).__name__ if names[type(p).__name__] == 1 else p.spec for p in policies]
    twice = [label for label, n in Counter(labels).items() if n > 1]
    if twice:
        raise ValueError(f"policies: {twice[0]} occurs twice")
    return labels


def checkpoint_steps(
    environment: Environment,
    horizon: int,
    wanted: int | Sequence[int],
    seed: int,
    runs: int = 1,
    breakpoints: bool = True,
) -> tuple[int, ...]:
    """The steps to record at: those wanted, breakpoints where they are few, the horizon."""
    if isinstance(wanted, int):
        check_integer("checkpoints", wanted, 1)
        steps = {round(horizon * (i + 1) / wanted) for i in range(wanted)}
    else:
        steps = set(wanted)
        for step in steps:
            check_integer("checkpoints", step, 1, horizon)
    steps |= {horizon, *(marked_breakpoints(environment, horizon, runs, seed) if breakpoints else ())}
    return tuple(sorted(s for s in steps if s >= 1))


def _units(
    task: Task,
    runs: int,
    labels: Sequence[str],
    finished: frozenset[tuple[str, str, int]],
    bar: Progress,
    steps: int | None,
) -> Iterable[Unit]:
    """What is left to do, in units of at most so many steps."""
    size = runs if steps is None else max(1, steps // task.horizon)
    for policy, label in enumerate(labels):
        for query in task.environment.names:
            left = [run for run in range(runs) if (label, query, run) not in finished]
            bar.advance(label, task.horizon * (runs - len(left)), counted=False)
            for i in range(0, len(left), size):
                yield Unit(policy, query, tuple(left[i : i + size]))
