"""Run units on all cores of this machine."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.compiling import Note, SimulatorCompiler
from driftrank.engine.simulator import Simulator
from driftrank.engine.simulators import simulator_of
from driftrank.engine.task import Task, Unit
from driftrank.validation import check_integer

#: called with a finished unit, its measures, and the core-seconds it took
Done = Callable[[Unit, NDArray[np.float64], float], None]

Outcome = Future[tuple[Unit, NDArray[np.float64] | None, float]]


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_on_cpu(
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    threads: int | None = None,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
    note: Note = lambda text: None,
) -> None:
    """Run units, one policy after the other, in threads: kernels release the GIL. ``tick`` is called with a policy and
    the number of steps done, ``note`` with what is compiled.

    Ctrl-C, or any error, stops the kernels within a fraction of a second; finished units have been passed to ``done``.
    """
    threads = cores() if threads is None else threads
    check_integer("threads", threads, 1)
    stop = threading.Event()
    lock = threading.Lock()

    def work(simulator: Simulator, unit: Unit) -> tuple[Unit, NDArray[np.float64] | None, float]:
        def counted(steps: int) -> bool:
            with lock:
                tick(unit.policy, steps)
            return not stop.is_set()

        if stop.is_set():
            return unit, None, 0.0
        begin = time.thread_time()  # time of this thread: the next policy may be compiling meanwhile
        measures = simulator.run(unit, counted)
        return unit, measures, time.thread_time() - begin

    by_policy: dict[int, list[Unit]] = {}
    for unit in units:
        by_policy.setdefault(unit.policy, []).append(unit)
    pool = ThreadPoolExecutor(threads)
    pending: set[Outcome] = set()
    ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def collect(future: Outcome) -> None:
        pending.discard(future)
        unit, measures, seconds = future.result()
        if measures is not None:
            done(unit, measures, seconds)

    simulators = {policy: simulator_of(task, policy) for policy in by_policy}
    try:
        with SimulatorCompiler(simulators, threads, note) as compiler:
            for policy, theirs in by_policy.items():
                compiler.compile(policy)  # while the policies before it run
                for unit in theirs:
                    future = pool.submit(work, simulators[policy], unit)
                    pending.add(future)
                    future.add_done_callback(ended.put)
                while not ended.empty():
                    collect(ended.get())
        while pending:
            collect(ended.get())
    except BaseException:
        stop.set()
        pool.shutdown(cancel_futures=True)
        for future in [f for f in pending if not f.cancelled() and f.exception() is None]:
            collect(future)
        raise
    pool.shutdown()
