"""Run units on a GPU: compile their kernels, split them into batches that fit into memory, and poll these."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from driftrank.engine.cpu import Done
from driftrank.engine.cuda.batch import Batch, GpuKernels, batch_bytes
from driftrank.engine.cuda.compiling import Compiler, Job
from driftrank.engine.cuda.device import Gpu, out_of_memory
from driftrank.engine.cuda.groups import Group, grouped
from driftrank.engine.cuda.views import TILE
from driftrank.engine.task import Task, Unit

#: the part of the free memory that is used
_SHARE = 0.85
#: runs of a batch: enough to keep a GPU busy, few enough to lose little when a simulation is stopped
_MOST_RUNS = 1 << 19
#: batches on the GPU at a time: small ones fill it together
_MOST_BATCHES = 16
#: warps that a multiprocessor holds, by the registers of our kernels
_WARPS = 16


def run_on_cuda(
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
) -> None:
    """Run units, one GPU thread per run; ``done`` and ``tick`` are called as by
    :func:`~driftrank.engine.run_on_cpu`, with seconds of the GPU.

    Units that do not fit into memory together run one part after the other. Ctrl-C stops within a second; finished
    units have been passed to ``done``.
    """
    gpu = Gpu()
    groups = grouped(task, units)
    lanes = _lanes(gpu, sum(len(unit.runs) for group in groups for unit in group.units))
    jobs = [Job.of(task, group) for group in groups]
    waiting: deque[tuple[Group, GpuKernels, list[Unit]]] = deque()
    active: list[tuple[Batch, list[Unit]]] = []
    most = _MOST_BATCHES
    with Compiler(gpu, jobs) as compiler:
        try:
            while waiting or active or compiler.pending:
                for n, kernels in compiler.ready(wait=not (waiting or active)):
                    for part in _parts(groups[n], kernels, task, gpu.free() * _SHARE):
                        waiting.append((groups[n], kernels, part))
                most = _start(gpu, task, lanes, waiting, active, most)
                if not _poll(task, active, done, tick) and active:
                    time.sleep(2e-4)
        finally:
            for batch, _ in active:
                batch.finish()


def _poll(task: Task, active: list[tuple[Batch, list[Unit]]], done: Done, tick: Callable[[int, int], None]) -> bool:
    """Advance the batches on the GPU and deliver those that are finished. True if any made progress."""
    progress = False
    for entry in list(active):
        batch, units = entry
        before = batch.first
        steps = batch.poll()
        progress |= steps != 0
        after = task.horizon + 1 if steps is None else batch.first
        if after > before:
            for policy, runs in batch.runs_of.items():
                tick(policy, runs * (after - before))
        if steps is None:
            active.remove(entry)
            _deliver(batch, units, done)
    return progress


def _deliver(batch: Batch, units: Sequence[Unit], done: Done) -> None:
    begin = 0
    for unit in units:
        end = begin + len(unit.runs)
        done(unit, batch.measures[begin:end], batch.seconds * len(unit.runs) / batch.runs)
        begin = end


def _parts(group: Group, kernels: GpuKernels, task: Task, free: float) -> Iterable[list[Unit]]:
    """The units of a group in parts that fit into memory; a unit that is too large is cut."""
    churns, marks = task.environment.churns, len(task.checkpoints)

    def fits(runs: int) -> bool:
        return runs <= _MOST_RUNS and batch_bytes(kernels.program, churns, runs, marks) <= free

    most = _MOST_RUNS
    while most > 1 and not fits(most):
        most //= 2
    part: list[Unit] = []
    size = 0
    for unit in group.units:
        runs = unit.runs
        while runs:
            take = min(len(runs), most - size)
            if take == 0:
                yield part
                part, size = [], 0
                continue
            part.append(Unit(unit.policy, unit.query, runs[:take]))
            size += take
            runs = runs[take:]
    if part:
        yield part


def _lanes(gpu: Gpu, runs: int) -> int:
    """The number of runs per warp: small if there are not enough runs to keep the GPU busy."""
    lanes = TILE
    while lanes > 1 and runs < lanes * gpu.processors * _WARPS:
        lanes //= 2
    return lanes


def _start(
    gpu: Gpu,
    task: Task,
    lanes: int,
    waiting: deque[tuple[Group, GpuKernels, list[Unit]]],
    active: list[tuple[Batch, list[Unit]]],
    most: int,
) -> int:
    """Start waiting batches that fit into memory, up to ``most`` in all; returns the most that have fitted."""
    while waiting and len(active) < most:
        group, kernels, units = waiting[0]
        runs = sum(len(unit.runs) for unit in units)
        needed = batch_bytes(kernels.program, task.environment.churns, runs, len(task.checkpoints))
        if active and needed > gpu.free() * _SHARE:
            return most  # it fits when others are finished
        waiting.popleft()
        try:
            active.append((Batch(gpu, task, kernels, units, group.settings(units), lanes), units))
        except Exception as error:
            if not out_of_memory(error):
                raise
            # other processes use the GPU, too
            if active:
                waiting.appendleft((group, kernels, units))
                return len(active)
            if runs == 1:
                name = type(task.policies[units[0].policy]).__name__
                raise MemoryError(
                    f"on the GPU: {needed:,} bytes for one run of {name}, and {gpu.free():,.0f} are free"
                ) from None
            waiting.extendleft((group, kernels, half) for half in reversed(_halves(units)))
    return most


def _halves(units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
    total = sum(len(unit.runs) for unit in units)
    first: list[Unit] = []
    second: list[Unit] = []
    left = total // 2
    for unit in units:
        n = int(np.clip(left, 0, len(unit.runs)))
        if n:
            first.append(Unit(unit.policy, unit.query, unit.runs[:n]))
        if n < len(unit.runs):
            second.append(Unit(unit.policy, unit.query, unit.runs[n:]))
        left -= n
    return first, second
