"""Run units on many machines."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from driftrank import __version__
from driftrank.engine.cluster import Cluster, Shared
from driftrank.engine.cpu import Done
from driftrank.engine.unit import Simulator, Task, Unit

#: steps that are sent at a time: a second or so of work, to some milliseconds for sending it
JOB_STEPS = 8_000_000

#: of what is left to do, a worker gets at most this part of its share at a time, so that all end at about the same time
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
    """Run units on the workers of an open cluster; ``tick`` hears of the steps of units when they have come back.

    Units whose worker is lost are run by another. On Ctrl-C or an error, what has come back has been handed to
    ``done``, and what has not begun is dropped.
    """
    jobs = list(_shared_out(task, list(units), cluster.size))
    if not jobs:
        return
    shared = cluster.share(task)
    with closing(cluster.map(_run, [(__version__, shared, job) for job in jobs])) as results:
        for i, finished in results:
            for unit, (measures, seconds) in zip(jobs[i], finished, strict=True):
                tick(unit.policy, len(unit.runs) * task.horizon)
                done(unit, measures, seconds)


def _shared_out(task: Task, units: list[Unit], workers: int) -> Iterator[list[Unit]]:
    """Lists of units, each of one policy: where queries are many and runs are few, a unit is soon done."""
    left = sum(len(unit.runs) for unit in units) * task.horizon
    job: list[Unit] = []
    steps = 0
    for unit in units:
        its = len(unit.runs) * task.horizon
        if job and (unit.policy != job[0].policy or steps + its > min(JOB_STEPS, PART * left / max(workers, 1))):
            yield job
            left -= steps
            job, steps = [], 0
        job.append(unit)
        steps += its
    if job:
        yield job


# -- on a worker -------------------------------------------------------------------------------------------------------

#: simulators of the latest tasks, by digest and policy: kernels are fetched, and tasks unpickled, once in a process
_kept: dict[bytes, tuple[Task, dict[int, Simulator]]] = {}
_KEPT = 4
_lock = threading.Lock()  # a worker may have several threads


def _run(job: Job) -> list[tuple[NDArray[np.float64], float]]:
    version, shared, units = job
    if version != __version__:
        raise ValueError(f"a worker of the cluster has driftrank {__version__}, and this is {version}")
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
        if digest not in _kept:
            while len(_kept) >= _KEPT:
                del _kept[next(iter(_kept))]
            _kept[digest] = pickle.loads(pickled), {}
        task, simulators = _kept[digest]
        if policy not in simulators:
            simulators[policy] = Simulator(task, policy)
            simulators[policy].compile()
        return simulators[policy]
