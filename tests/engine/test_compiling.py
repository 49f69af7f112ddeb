"""Kernels that are compiled in other processes, and the lines about them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import driftrank as dr
from driftrank.engine import compiling
from driftrank.engine.compiling import CompilerProcesses, SimulatorCompiler, _alone
from driftrank.engine.simulator import Simulator
from driftrank.engine.task import Task
from driftrank.progress import Progress

ENV = dr.environments.Stationary([[0.5, 0.2, 0.1]], k=2)
JOB = "tests.engine.compiled_job"


def test_processes_do_the_jobs_that_they_can(tmp_path: Path) -> None:
    begun: list[int] = []
    jobs: dict[int, Any] = {
        0: (tmp_path / "0", "zero"),
        1: (tmp_path / "1", lambda: None),  # cannot be pickled
        2: (tmp_path / "2", "wrong"),  # fails there
        3: (tmp_path / "3", "three"),
    }
    with CompilerProcesses(JOB, jobs, 2, begun.append) as processes:
        for n in (0, 1, 2, 3, 99):
            processes.wait(n)
        assert not processes.busy
    assert begun == [0, 2, 3]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "'zero'", "3": "'three'"}


def test_processes_end_with_their_owner(tmp_path: Path) -> None:
    with CompilerProcesses(JOB, {n: (tmp_path / str(n), n) for n in range(3)}, 2) as processes:
        running = list(processes._running.values())
        assert len(running) == 2
    assert all(process.poll() is not None for process in running)
    assert processes.ended(2)  # and those that had not begun do not begin


@pytest.fixture
def simulators(monkeypatch: pytest.MonkeyPatch) -> dict[int, Simulator]:
    """Four policies, two of which share a kernel; one is in the cache. Nothing is compiled."""
    policies = (dr.CascadeUCB1(), dr.CascadeTS(), dr.CascadeUCB1(exploration=0.5), dr.Random())
    task = Task(policies, ENV, 10, 0, (10,))
    monkeypatch.setattr(Simulator, "compiled", property(lambda self: type(self.policy).__name__ == "Random"))
    monkeypatch.setattr(Simulator, "compile", lambda self: None)
    return {n: Simulator(task, n) for n in range(4)}


@pytest.mark.parametrize("cores", [1, 2])
def test_what_is_compiled_is_said(
    simulators: dict[int, Simulator], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Task] = []
    monkeypatch.setattr(compiling, "WORTH_PROCESSES", 2)
    if cores > 1:  # they end at once
        monkeypatch.setattr(CompilerProcesses, "spawn", lambda self: _all_at_once(self, begun))
    notes: list[str] = []
    with SimulatorCompiler(simulators, cores, notes.append) as compiler:
        for n in simulators:
            compiler.compile(n)
    assert notes == ["compiling CascadeUCB1, 1 left", "compiling CascadeTS", ""]
    expected = [] if cores == 1 else [(dr.CascadeUCB1(),), (dr.CascadeTS(),)]
    assert [task.policies for task in begun] == expected


def _all_at_once(processes: CompilerProcesses, begun: list[Task]) -> None:
    for n, job in list(processes._todo.items()):
        begun.append(processes._todo.pop(n) and job)
        processes._begun(n)


def test_a_world_of_a_script_does_not_matter(simulators: dict[int, Simulator], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process cannot import it, and the kernel does not depend on it."""
    here = simulators[0]
    there = Simulator(
        dataclasses.replace(here.task, environment=dr.environments.Abrupt([[0.5, 0.2, 0.1]], 1, n_boosted=2)), 0
    )
    assert there.kernel_key == here.kernel_key
    monkeypatch.setattr(dr.environments.Abrupt, "__module__", "__main__")
    alone = _alone(there)
    assert alone.environment == dr.environments.Stationary([[0.5, 0.2, 0.1]], 1)
    assert Simulator(alone, 0).kernel_key == here.kernel_key


def test_notes_are_lines_unless_there_is_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress.where_watched({}) as progress:
        progress.note("compiling X, 3 left")
        progress.note("")
    assert capsys.readouterr().err == "driftrank: compiling X, 3 left\n"


@pytest.mark.slow
def test_a_simulation_compiles_in_parallel(tmp_path: Path) -> None:
    """With an empty cache: lines on a pipe, and nothing at the second time."""
    code = 'import driftrank as dr; dr.simulate(["CascadeUCB1", "Random"], "BLB", horizon=50, threads=2)'
    environment = os.environ | {"DRIFTRANK_CACHE_DIR": str(tmp_path)}
    lines = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stderr
        for _ in range(2)
    ]
    assert lines == ["driftrank: compiling CascadeUCB1, 1 left\ndriftrank: compiling Random\n", ""]
