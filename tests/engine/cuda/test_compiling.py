"""Kernels of several policies compiled at once, each in a process, without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from driftrank.engine import Task, Unit
from driftrank.environments import Stationary
from driftrank.kernels import compile as compiler
from driftrank.policies.base import Policy
from driftrank.policies.cascade_ucb1 import CascadeUCB1
from driftrank.policies.random import Random

pytest.importorskip("numba_cuda")

from driftrank.engine.cuda.compiling import Compiler, Job
from driftrank.engine.cuda.program import BLOCK
from driftrank.engine.cuda.run import grouped
from driftrank.kernels import gpu

WORLD = Stationary([[0.9, 0.5, 0.1, 0.1]], k=2)

#: what the compiler asks of a GPU; kernels are not loaded, so it is handed the files with their machine code
GPU: Any = SimpleNamespace(simulated=False, capability=(9, 0), load=lambda template, bindings, path: path)


def jobs(*policies: Policy) -> list[Job]:
    task = Task(policies, WORLD, 100, 0, (100,))
    groups = grouped(task, [Unit(p, WORLD.names[0], (0,)) for p in range(len(policies))])
    return [Job.of(task, group.policies, group.programs, WORLD.names[0]) for group in groups]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, of this process and of those that it starts."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    monkeypatch.setenv("DRIFTRANK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler, "_usable_cache_directory", lambda: folder)
    return folder


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that this process compiles itself."""
    names: list[str] = []
    real = gpu.ptx_of

    def noted(template: Any, *arguments: Any) -> str:
        names.append(template.__name__)
        return real(template, *arguments)

    monkeypatch.setattr(gpu, "ptx_of", noted)
    return names


def check_all(given: list[Job], cache: Path) -> None:
    """Every job comes once, and its machine code is there."""
    found: dict[int, Any] = {}
    with Compiler(GPU, given) as compiling:
        while compiling.pending:
            for n, kernels in compiling.ready(wait=True):
                assert n not in found
                found[n] = kernels
    assert sorted(found) == list(range(len(given)))
    for n, job in enumerate(given):
        for part, path in ((job.simulate, found[n].simulate), (job.unroll, found[n].unroll)):
            assert path == gpu.cubin_file(*part, GPU.capability, BLOCK)
            assert path.parent == cache
            assert path.read_bytes().startswith(b"\x7fELF")


def test_several_at_once_and_found_again(cache: Path, compiled_here: list[str]) -> None:
    given = jobs(CascadeUCB1(), Random())
    check_all(given, cache)
    assert compiled_here == ["unroll"]  # the same world for both; the policies were compiled elsewhere
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len([path for path in before if path.suffix == ".cubin"]) == 3
    with Compiler(GPU, jobs(CascadeUCB1(), Random())) as compiling:
        assert [n for n, _ in compiling.ready(wait=False)] == [0, 1]
        assert not compiling.pending
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before


def test_one_alone_is_compiled_here(cache: Path, compiled_here: list[str]) -> None:
    check_all(jobs(Random()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


def test_a_policy_that_cannot_be_sent(cache: Path, compiled_here: list[str]) -> None:
    class _Own(Random):
        pass

    check_all(jobs(_Own(), CascadeUCB1()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


def test_a_policy_that_others_do_not_know(
    cache: Path, compiled_here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Typed(Random):
        pass

    _Typed.__module__, _Typed.__qualname__ = "only_here", "_Typed"
    monkeypatch.setitem(sys.modules, "only_here", ModuleType("only_here"))
    sys.modules["only_here"]._Typed = _Typed  # type: ignore[attr-defined]
    check_all(jobs(_Typed(), CascadeUCB1()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


def test_processes_end_with_whom_they_work_for(cache: Path) -> None:
    with Compiler(GPU, jobs(CascadeUCB1(), Random())) as compiling:
        processes = list(compiling._processes.values())
        assert processes
        assert all(process.poll() is None for process in processes)
    assert all(process.poll() is not None for process in processes)
