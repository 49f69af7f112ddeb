"""Run units on many machines."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.cluster import Cluster
from driftrank.engine.cpu import Done
from driftrank.engine.unit import Simulator, Task, Unit


def run_on_cluster(
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    cluster: Cluster,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
) -> None:
    """Run units on the workers of an open cluster; ``tick`` hears of the steps of every unit when it is finished."""
    sent = list(units)
    jobs = [(dataclasses.replace(task, policies=(task.policies[unit.policy],)), unit) for unit in sent]
    for i, (measures, seconds) in cluster.map(_run, jobs):
        tick(sent[i].policy, len(sent[i].runs) * task.horizon)
        done(sent[i], measures, seconds)


def _run(job: tuple[Task, Unit]) -> tuple[NDArray[np.float64], float]:
    """On a worker."""
    task, unit = job
    simulator = Simulator(task, 0)
    simulator.compile()
    begin = time.thread_time()
    measures = simulator.run(unit, lambda steps: True)
    assert measures is not None
    return measures, time.thread_time() - begin
