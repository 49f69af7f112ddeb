"""Compile kernels for the GPU in parallel.

A kernel takes seconds of a single thread, so each is compiled in a process of its own, which leaves the machine code in
the cache on disk. A single kernel, or one that another process cannot compile (a policy defined in a notebook), is
compiled in this process.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import driftrank
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
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._missing: list[int] = []

    def __enter__(self) -> Self:
        if not self._gpu.simulated:
            from driftrank.kernels.gpu import cubin_file, machine_code

            at = self._gpu.capability
            self._missing = [n for n in self._todo if not cubin_file(*self._jobs[n].simulate, at, BLOCK).exists()]
            self._spawn()
            for job in self._jobs:  # usually the same world for all
                machine_code(*job.unroll, at, BLOCK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def pending(self) -> bool:
        """True while some jobs have not been yielded."""
        return bool(self._todo)

    def ready(self, wait: bool) -> Iterator[tuple[int, GpuKernels]]:
        """Yield number and kernels of every job that has become ready. With ``wait``, at least one."""
        while self._todo:
            self._spawn()
            found = [n for n in self._todo if n not in self._missing or self._ended(n)]
            if not found and wait and not self._processes:
                found = self._todo[:1]
            for n in found:
                self._todo.remove(n)
                yield n, self._load(n)
            if found or not wait:
                return
            time.sleep(0.005)

    def _ended(self, n: int) -> bool:
        process = self._processes.get(n)
        if process is None or process.poll() is None:
            return False
        del self._processes[n]
        return True

    def _spawn(self) -> None:
        """Start processes for missing kernels, up to one per core."""
        if len(self._missing) < 2:
            return
        for n in self._missing:
            if n in self._todo and n not in self._processes and len(self._processes) < cores():
                job = self._jobs[n]
                with tempfile.TemporaryFile() as work:  # a pipe would be full before the process begins to read
                    try:
                        pickle.dump((job.alone, job.queries, self._gpu.capability), work)
                    except (pickle.PicklingError, AttributeError, TypeError):
                        self._missing = [m for m in self._missing if m != n]  # compiled in this process by _load
                        continue
                    work.seek(0)
                    self._processes[n] = subprocess.Popen(
                        [sys.executable, "-m", "driftrank.engine.cuda"], env=_environment(),
                        stdin=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    )  # fmt: skip

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


def _environment() -> dict[str, str]:
    """The environment variables of this process, with the path of its driftrank."""
    source = str(Path(driftrank.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}
