"""Run units on a cluster."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from driftrank import __version__
from driftrank.engine.cluster.cluster import Cluster, Shared
from driftrank.engine.cpu import Done
from driftrank.engine.simulator import Simulator
from driftrank.engine.simulators import simulator_of
from driftrank.engine.task import Task, Unit

#: steps of one job: about a second of work, to some milliseconds of sending
JOB_STEPS = 8_000_000

#: a job is at most this part of a worker's share of the remaining steps, so that all workers end at about the same time
PART = 1 / 4

#: version, task, and units of one policy
Job = tuple[str, Shared, list[Unit]]


def run_on_cluster(
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    cluster: Cluster,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
) -> None:
    """Run units on the workers of an open cluster; ``tick`` is called when units are complete.

    Units whose worker is lost run on another. On Ctrl-C or an error, complete units have been passed to ``done``, and
    those that have not begun are dropped.
    """
    jobs = list(_jobs_of(task, list(units), cluster.size))
    if not jobs:
        return
    shared = cluster.share(task)
    with closing(cluster.map(_run, [(__version__, shared, job) for job in jobs])) as results:
        for i, finished in results:
            for unit, (measures, seconds) in zip(jobs[i], finished, strict=True):
                tick(unit.policy, len(unit.runs) * task.horizon)
                done(unit, measures, seconds)


def _jobs_of(task: Task, units: list[Unit], workers: int) -> Iterator[list[Unit]]:
    """Jobs of several units of one policy: with many queries and few runs, single units are too short."""
    left = sum(len(unit.runs) for unit in units) * task.horizon
    job: list[Unit] = []
    steps = 0
    for unit in units:
        size = len(unit.runs) * task.horizon
        if job and (unit.policy != job[0].policy or steps + size > min(JOB_STEPS, PART * left / max(workers, 1))):
            yield job
            left -= steps
            job, steps = [], 0
        job.append(unit)
        steps += size
    if job:
        yield job


# -- on a worker -------------------------------------------------------------------------------------------------------

#: simulators of the latest tasks, by digest and policy: a process loads kernels and unpickles tasks once
_recent: dict[bytes, tuple[Task, dict[int, Simulator]]] = {}
_MOST_RECENT = 4
_lock = threading.Lock()  # a worker may have several threads


def _run(job: Job) -> list[tuple[NDArray[np.float64], float]]:
    version, shared, units = job
    if version != __version__:
        raise ValueError(f"a worker of the cluster has driftrank {__version__}, but the task is of {version}")
    simulator = _simulator(shared, units[0].policy)
    finished = []
    for unit in units:
        begin = time.thread_time()
        measures = simulator.run(unit, lambda steps: True)
        assert measures is not None
        finished.append((measures, time.thread_time() - begin))
    return finished


def _simulator(shared: Shared, policy: int) -> Simulator:
    digest, pickled = shared
    with _lock:
        if digest not in _recent:
            while len(_recent) >= _MOST_RECENT:
                del _recent[next(iter(_recent))]
            _recent[digest] = pickle.loads(pickled), {}
        task, simulators = _recent[digest]
        if policy not in simulators:
            simulators[policy] = simulator_of(task, policy)
            simulators[policy].compile()
        return simulators[policy]
