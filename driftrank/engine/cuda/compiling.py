"""Compile kernels for the GPU in parallel, in processes as :mod:`driftrank.engine.compiling` has them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from driftrank.engine.compiling import CompilerProcesses
from driftrank.engine.cpu import cores
from driftrank.engine.cuda import templates
from driftrank.engine.cuda.batch import GpuKernels
from driftrank.engine.cuda.device import Gpu
from driftrank.engine.cuda.groups import Group
from driftrank.engine.cuda.program import BLOCK, SIMULATE, UNROLL, GpuProgram, GpuWorld
from driftrank.engine.task import Task

#: a template, the bindings of its names, and the types of its arguments
Part = tuple[Any, dict[str, Any], Sequence[Any]]


@dataclass(frozen=True)
class Job:
    """The kernels of a group of units."""

    task: Task
    policies: tuple[int, ...]
    queries: tuple[str, ...]  #: one for each number of items
    program: GpuProgram
    world: GpuWorld

    @classmethod
    def of(cls, task: Task, group: Group) -> Self:
        environment, queries = task.environment, tuple(group.queries)
        program = GpuProgram(group.programs, environment.users(queries[0]), environment.churns, group.capacity)
        world = GpuWorld(environment, program.capacity, program.varies)
        return cls(task, tuple(group.policies), queries, program, world)

    @property
    def alone(self) -> Task:
        """The task with these policies only: others may not be picklable, and are not needed."""
        return dataclasses.replace(self.task, policies=tuple(self.task.policies[p] for p in self.policies))

    @property
    def simulate(self) -> Part:
        return templates.simulate, self.program.bindings, SIMULATE

    @property
    def unroll(self) -> Part:
        return templates.unroll, self.world.bindings, UNROLL


class Compiler:
    """Compiles jobs and yields their kernels as they become ready."""

    def __init__(self, gpu: Gpu, jobs: Sequence[Job]) -> None:
        self._gpu, self._jobs = gpu, jobs
        self._todo = list(range(len(jobs)))
        self._processes = CompilerProcesses("driftrank.engine.cuda", {}, cores())
        self._last: list[int] = []  # compiled in this process when nothing else is left to do

    def __enter__(self) -> Self:
        if not self._gpu.simulated:
            from driftrank.kernels.gpu import cubin_file, machine_code

            at = self._gpu.capability
            missing = [n for n in self._todo if not cubin_file(*self._jobs[n].simulate, at, BLOCK).exists()]
            if len(missing) == 1:
                self._last = missing
            else:
                jobs = {n: (self._jobs[n].alone, self._jobs[n].queries, at) for n in missing}
                self._processes = CompilerProcesses("driftrank.engine.cuda", jobs, cores())
            self._processes.__enter__()
            for job in self._jobs:  # usually the same world for all
                machine_code(*job.unroll, at, BLOCK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, value, trace)

    @property
    def pending(self) -> bool:
        """True while some jobs have not been yielded."""
        return bool(self._todo)

    def ready(self, wait: bool) -> Iterator[tuple[int, GpuKernels]]:
        """Yield number and kernels of every job that has become ready. With ``wait``, at least one."""
        while self._todo:
            self._processes.spawn()
            found = [n for n in self._todo if n not in self._last and self._processes.ended(n)]
            if not found and wait and not self._processes.busy:
                found = self._todo[:1]
            for n in found:
                self._todo.remove(n)
                yield n, self._load(n)
            if found or not wait:
                return
            time.sleep(0.005)

    def _load(self, n: int) -> GpuKernels:
        job = self._jobs[n]
        made = []
        for template, bindings, arguments in (job.simulate, job.unroll):
            code = b""
            if not self._gpu.simulated:
                from driftrank.kernels.gpu import machine_code

                code = machine_code(template, bindings, arguments, self._gpu.capability, BLOCK)
            made.append(self._gpu.load(template, bindings, code))
        return GpuKernels(job.program, job.world, *made)
