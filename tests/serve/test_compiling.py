from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import driftrank as dr
from driftrank.engine.compiling import CompilerProcesses
from driftrank.serve.processes import compiling
from driftrank.serve.processes.compiling import Needed, compile_policies

NEEDED = [Needed(policy, 2, None, 2**20) for policy in (dr.CascadeUCB1(), dr.CascadeTS(), dr.Random())]


@pytest.mark.parametrize(("cores", "worth"), [(1, 2), (2, 4), (2, 3)])
def test_what_is_compiled_is_said_once(cores: int, worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one core, or few policies, in this process; otherwise in others, whose kernels this one loads."""
    elsewhere: list[str] = []

    def spawn(processes: CompilerProcesses) -> None:  # all at once, and they end at once
        for n in list(processes._todo):
            elsewhere.append(processes._todo.pop(n).policy.spec)
            processes._begun(n)

    here: list[str] = []
    monkeypatch.setattr(compiling, "WORTH_PROCESSES", worth)
    monkeypatch.setattr(CompilerProcesses, "spawn", spawn)
    monkeypatch.setattr(Needed, "compile", lambda self: here.append(self.policy.spec))
    lines: list[str] = []
    done = [policy.spec for policy, seconds in compile_policies(NEEDED, cores, lines.append) if seconds >= 0]
    assert done == here == ["CascadeUCB1", "CascadeTS", "Random"]
    assert elsewhere == (done if (cores, worth) == (2, 3) else [])
    assert lines == ["compiling CascadeUCB1, 2 left", "compiling CascadeTS, 1 left", "compiling Random"]


@pytest.mark.slow
def test_processes_leave_kernels_for_this_one(tmp_path: Path) -> None:
    """With an empty cache, which the command has filled: the second time nothing is added."""
    environment = os.environ | {"DRIFTRANK_CACHE_DIR": str(tmp_path), "DRIFTRANK_RANKERS__DEFAULT__POLICY": "Random"}
    command = [sys.executable, "-m", "driftrank", "compile", "CascadeUCB1"]
    found = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
            "PriorRegimeTS", "Random", "CascadeUCB1",
        ]  # fmt: skip
        found.append(sorted(file.name for file in tmp_path.rglob("*") if file.is_file()))
    assert found[0] == found[1] != []
