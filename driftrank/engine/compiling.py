"""Compile kernels in processes of their own, which leave the machine code in the cache on disk.

Compiling takes seconds of a single thread. What another process cannot compile (a policy defined in a notebook), and a
single kernel, is compiled in this process.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import driftrank
from driftrank.engine.simulator import Simulator
from driftrank.engine.task import Task
from driftrank.environments import Stationary
from driftrank.plugins import import_file, imported_files

#: kernels from which on processes pay. Each imports the compiler, and compiles what kernels have in common again: 2, 4
#: and 8 kernels took 10.1, 19.4 and 36.5 core-seconds in one process, 10.6, 21.6 and 43 in one process for each.
WORTH_PROCESSES = 2

#: called with a line about the work, or with nothing when it is done
Note = Callable[[str], None]


class CompilerProcesses:
    """Processes that run ``python -m module``, each with a job on its standard input (see :func:`received`)."""

    def __init__(
        self, module: str, jobs: Mapping[int, Any], most: int, begun: Callable[[int], None] = lambda n: None
    ) -> None:
        self._module, self._most, self._begun = module, most, begun
        self._todo = dict(jobs)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.spawn()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._todo.clear()
        for process in self._running.values():
            process.kill()
            process.wait()

    @property
    def busy(self) -> bool:
        """True while a process runs."""
        return bool(self._running)

    def spawn(self) -> None:
        """Start processes, up to the most that may run at a time."""
        while self._todo and len(self._running) < self._most:
            n = next(iter(self._todo))
            job = self._todo.pop(n)
            with tempfile.TemporaryFile() as work:  # a pipe would be full before the process begins to read
                try:
                    pickle.dump(imported_files(), work)
                    pickle.dump(job, work)
                except (pickle.PicklingError, AttributeError, TypeError):
                    continue  # compiled in this process
                work.seek(0)
                self._begun(n)
                self._running[n] = subprocess.Popen(
                    [sys.executable, "-m", self._module], env=_environment(), stdin=work, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip

    def ended(self, n: int) -> bool:
        """True unless job ``n`` waits or runs."""
        process = self._running.get(n)
        if process is not None:
            if process.poll() is None:
                return False
            del self._running[n]
        return n not in self._todo

    def wait(self, n: int) -> None:
        """Wait for the end of job ``n``; others start meanwhile."""
        while not self.ended(n):
            for running in list(self._running):
                self.ended(running)
            self.spawn()
            time.sleep(0.005)


def received() -> Any:
    """The job of this process; files of its classes are imported first."""
    for file in pickle.load(sys.stdin.buffer):
        import_file(file)
    return pickle.load(sys.stdin.buffer)


def _environment() -> dict[str, str]:
    """The environment variables of this process, with the path of its driftrank."""
    source = str(Path(driftrank.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}


class SimulatorCompiler:
    """Compiles simulators on several cores; :meth:`compile` waits for one of them.

    ``note`` gets a line when a kernel that is not in the cache is about to be compiled.
    """

    def __init__(self, simulators: Mapping[int, Simulator], cores: int, note: Note = lambda text: None) -> None:
        self._simulators, self._note = simulators, note
        first: dict[Hashable, int] = {}
        #: by policy: the first that has the same kernel
        self._same = {n: first.setdefault(simulator.kernel_key, n) for n, simulator in simulators.items()}
        missing = [n for n in first.values() if not simulators[n].compiled]
        self._left = len(missing)
        self._unsaid = set(missing)
        several = cores > 1 and len(missing) >= WORTH_PROCESSES
        jobs = {n: _alone(simulators[n]) for n in missing} if several else {}
        self._processes = CompilerProcesses("driftrank.engine", jobs, cores, self._say)

    def __enter__(self) -> Self:
        self._processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, value, trace)
        self._note("")

    def compile(self, n: int) -> None:
        """Compile a simulator, or load what a process has compiled."""
        self._processes.wait(self._same[n])
        self._say(self._same[n])
        self._simulators[n].compile()

    def _say(self, n: int) -> None:
        if n in self._unsaid:
            self._unsaid.remove(n)
            self._left -= 1
            left = f", {self._left} left" if self._left else ""
            self._note(f"compiling {self._simulators[n].policy.spec}{left}")


def _alone(simulator: Simulator) -> Task:
    """The task with this policy only: others may not be picklable, and are not needed.

    The kernel does not depend on the environment, which another process cannot import if it is of a script or notebook.
    """
    task, here = simulator.task, simulator.task.environment
    if type(here).__module__ == "__main__" and not here.traffic:
        here = Stationary(here.queries, k=here.k, click_model=here.click_model)
    return dataclasses.replace(task, policies=(simulator.policy,), environment=here)
