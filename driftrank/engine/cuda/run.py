"""Run units on a GPU: which runs share a kernel, which fit into its memory together, and in what order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from driftrank.engine.cpu import Done
from driftrank.engine.cuda.batch import Batch, Kernels, batch_bytes
from driftrank.engine.cuda.compiling import Compiler, Job
from driftrank.engine.cuda.device import Gpu, out_of_memory
from driftrank.engine.cuda.program import alike
from driftrank.engine.cuda.views import TILE
from driftrank.engine.unit import Task, Unit
from driftrank.policies.program import Program

#: the part of the free memory that is used
_SHARE = 0.85
#: runs of a batch: enough to keep a GPU busy, few enough that little is lost when a simulation is stopped
_MOST_RUNS = 1 << 19
#: batches on the GPU at a time: where they are small, several fill it together
_MOST_BATCHES = 16
#: warps that a multiprocessor holds, which is what our kernels have registers for
_WARPS = 16


class _Group:
    """Units that one kernel serves."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.policies: list[int] = []
        self.programs: list[Program] = []
        self.units: list[Unit] = []
        self._setting: dict[int, int] = {}

    def add(self, unit: Unit, program: Program) -> None:
        if unit.policy not in self._setting:
            self._setting[unit.policy] = len(self.programs)
            self.programs.append(program)
            self.policies.append(unit.policy)
        self.units.append(unit)

    def settings(self, units: Iterable[Unit]) -> list[int]:
        """Which program is that of every unit."""
        return [self._setting[unit.policy] for unit in units]


def grouped(task: Task, units: Iterable[Unit]) -> list[_Group]:
    """Units by the kernel that serves them."""
    groups: dict[object, _Group] = {}
    programs: dict[object, Program] = {}
    for unit in units:
        policy = task.policies[unit.policy]
        problem = task.problem(unit.query, policy)
        if (unit.policy, problem) not in programs:
            programs[unit.policy, problem] = Program.of(policy, problem)
        program = programs[unit.policy, problem]
        key = alike(program, task.environment.users(unit.query))
        groups.setdefault(key, _Group(task)).add(unit, program)
    return list(groups.values())


def run_on_cuda(
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
) -> None:
    """Run units, every run of them in a thread of its own; ``done`` and ``tick`` are called as by
    :func:`~driftrank.engine.run_on_cpu`, the seconds being the GPU's.

    What does not fit into the memory at once is done one part after the other. Ctrl-C stops within a second; what was
    finished has been handed to ``done``.
    """
    gpu = Gpu()
    groups = grouped(task, units)
    lanes = _lanes(gpu, sum(len(unit.runs) for group in groups for unit in group.units))
    jobs = [Job.of(task, group.policies, group.programs, group.units[0].query) for group in groups]
    waiting: deque[tuple[_Group, Kernels, list[Unit]]] = deque()
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
    """Look after what is on the GPU; nothing of what is finished stays there. Whether anything has gone on."""
    moved = False
    for entry in list(active):
        batch, units = entry
        before = batch.first
        steps = batch.poll()
        moved |= steps != 0
        after = task.horizon + 1 if steps is None else batch.first
        if after > before:
            for policy, runs in batch.runs_of.items():
                tick(policy, runs * (after - before))
        if steps is None:
            active.remove(entry)
            _deliver(batch, units, done)
    return moved


def _deliver(batch: Batch, units: Sequence[Unit], done: Done) -> None:
    begin = 0
    for unit in units:
        end = begin + len(unit.runs)
        done(unit, batch.measures[begin:end], batch.seconds * len(unit.runs) / batch.runs)
        begin = end


def _parts(group: _Group, kernels: Kernels, task: Task, free: float) -> Iterable[list[Unit]]:
    """The units of a group, as many at a time as there is memory for; a unit that is too large is cut."""
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
    """How many runs a warp should have: few where there are not enough to keep the GPU busy."""
    lanes = TILE
    while lanes > 1 and runs < lanes * gpu.processors * _WARPS:
        lanes //= 2
    return lanes


def _start(
    gpu: Gpu,
    task: Task,
    lanes: int,
    waiting: deque[tuple[_Group, Kernels, list[Unit]]],
    active: list[tuple[Batch, list[Unit]]],
    most: int,
) -> int:
    """Put on the GPU what fits beside what is there, up to ``most`` batches; returns how many there is room for."""
    while waiting and len(active) < most:
        group, kernels, units = waiting[0]
        runs = sum(len(unit.runs) for unit in units)
        needed = batch_bytes(kernels.program, task.environment.churns, runs, len(task.checkpoints))
        if active and needed > gpu.free() * _SHARE:
            return most  # room for it will come
        waiting.popleft()
        try:
            active.append((Batch(gpu, task, kernels, units, group.settings(units), lanes), units))
        except Exception as error:
            if not out_of_memory(error):
                raise
            # others use the GPU, too
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
