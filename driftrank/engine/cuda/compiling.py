"""Compile for the GPU, several kernels at a time.

A kernel takes seconds, all of them in Python's own thread, so each is compiled in a process of its own; the machine
code is handed over in the cache on disk. Where there is one kernel only, or a process cannot do it (a policy of one's
own in a notebook), it is compiled here.
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
from driftrank.engine.cuda import steps
from driftrank.engine.cuda.batch import Kernels
from driftrank.engine.cuda.device import Gpu
from driftrank.engine.cuda.program import BLOCK, SIMULATE, UNROLL, GpuProgram, GpuWorld
from driftrank.engine.unit import Task
from driftrank.policies.program import Program

#: a template, what its names are bound to, and the types of its arguments
Part = tuple[Any, dict[str, Any], Sequence[Any]]


@dataclass(frozen=True)
class Job:
    """The kernels of some policies of a task, on queries like one of it."""

    task: Task
    policies: tuple[int, ...]
    query: str
    program: GpuProgram
    world: GpuWorld

    @classmethod
    def of(cls, task: Task, policies: Sequence[int], programs: Sequence[Program], query: str) -> Self:
        environment = task.environment
        program = GpuProgram(programs, environment.users(query), environment.churns)
        return cls(task, tuple(policies), query, program, GpuWorld(environment, program.L))

    @property
    def alone(self) -> Task:
        """The task with these policies only: others, which may be in nobody else's reach, need not travel."""
        return dataclasses.replace(self.task, policies=tuple(self.task.policies[p] for p in self.policies))

    @property
    def simulate(self) -> Part:
        return steps.simulate, self.program.bindings, SIMULATE

    @property
    def unroll(self) -> Part:
        return steps.unroll, self.world.bindings, UNROLL


class Compiler:
    """Kernels for a GPU, as they get ready."""

    def __init__(self, gpu: Gpu, jobs: Sequence[Job]) -> None:
        self._gpu, self._jobs = gpu, jobs
        self._todo = list(range(len(jobs)))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._missing: list[int] = []

    def __enter__(self) -> Self:
        if not self._gpu.simulated:
            from driftrank.kernels.gpu import compiled, cubin_file

            at = self._gpu.capability
            self._missing = [n for n in self._todo if not cubin_file(*self._jobs[n].simulate, at, BLOCK).exists()]
            self._spawn()
            for job in self._jobs:  # the same world for all, as a rule
                compiled(*job.unroll, at, BLOCK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def pending(self) -> bool:
        """Whether there are kernels to come."""
        return bool(self._todo)

    def ready(self, wait: bool) -> Iterator[tuple[int, Kernels]]:
        """The jobs that are ready and were not given before: their numbers and kernels. With ``wait``, at least one."""
        while self._todo:
            self._spawn()
            found = [n for n in self._todo if n not in self._missing or self._over(n)]
            if not found and wait and not self._processes:
                found = self._todo[:1]
            for n in found:
                self._todo.remove(n)
                yield n, self._load(n)
            if found or not wait:
                return
            time.sleep(0.005)

    def _over(self, n: int) -> bool:
        process = self._processes.get(n)
        if process is None or process.poll() is None:
            return False
        del self._processes[n]
        return True

    def _spawn(self) -> None:
        """Start processes for kernels that nobody makes yet, one for each core."""
        if len(self._missing) < 2:
            return
        for n in self._missing:
            if n in self._todo and n not in self._processes and len(self._processes) < cores():
                job = self._jobs[n]
                with tempfile.TemporaryFile() as work:  # a pipe would be full before the process has begun to read
                    try:
                        pickle.dump((job.alone, job.query, self._gpu.capability), work)
                    except (pickle.PicklingError, AttributeError, TypeError):
                        self._missing = [m for m in self._missing if m != n]  # compiled here when it is asked for
                        continue
                    work.seek(0)
                    self._processes[n] = subprocess.Popen(
                        [sys.executable, "-m", "driftrank.engine.cuda"], env=_environment(),
                        stdin=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    )  # fmt: skip

    def _load(self, n: int) -> Kernels:
        job = self._jobs[n]
        made = []
        for template, bindings, arguments in (job.simulate, job.unroll):
            path = None
            if not self._gpu.simulated:
                from driftrank.kernels.gpu import compiled

                path = compiled(template, bindings, arguments, self._gpu.capability, BLOCK)
            made.append(self._gpu.load(template, bindings, path))
        return Kernels(job.program, job.world, *made)


def _environment() -> dict[str, str]:
    """That of this process, in which driftrank is found where this process has found it."""
    source = str(Path(driftrank.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}
