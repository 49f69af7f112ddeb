"""Kernels of several policies compiled in parallel processes, without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from driftrank.engine import Task, Unit
from driftrank.environments import Stationary
from driftrank.kernels import cache as kernel_cache
from driftrank.policies.base import Policy
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from driftrank.policies.stationary.random import Random

pytest.importorskip("numba_cuda")

from driftrank.engine.cuda.compiling import Compiler, Job
from driftrank.engine.cuda.groups import grouped
from driftrank.engine.cuda.program import BLOCK
from driftrank.kernels import gpu

WORLD = Stationary([[0.9, 0.5, 0.1, 0.1]], k=2)

#: the attributes of a GPU that the compiler uses; kernels are replaced by their machine code
GPU: Any = SimpleNamespace(simulated=False, capability=(9, 0), load=lambda template, bindings, code: code)


def jobs(*policies: Policy) -> list[Job]:
    task = Task(policies, WORLD, 100, 0, (100,))
    groups = grouped(task, [Unit(p, WORLD.names[0], (0,)) for p in range(len(policies))])
    return [Job.of(task, group) for group in groups]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this process and those that it starts."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    monkeypatch.setenv("DRIFTRANK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "kernel_directory", lambda: folder)
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
    """Every job is yielded once, with its machine code."""
    found: dict[int, Any] = {}
    with Compiler(GPU, given) as compiling:
        while compiling.pending:
            for n, kernels in compiling.ready(wait=True):
                assert n not in found
                found[n] = kernels
    assert sorted(found) == list(range(len(given)))
    for n, job in enumerate(given):
        for part, code in ((job.simulate, found[n].simulate), (job.unroll, found[n].unroll)):
            path = gpu.cubin_file(*part, GPU.capability, BLOCK)
            assert path.parent == cache
            assert path.read_bytes() == code
            assert code.startswith(b"\x7fELF")


@pytest.mark.slow
def test_several_in_parallel_and_from_the_cache(cache: Path, compiled_here: list[str]) -> None:
    given = jobs(CascadeUCB1(), Random())
    check_all(given, cache)
    assert compiled_here == ["unroll"]  # the same world for both; the policies were compiled in other processes
    before = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len([path for path in before if path.suffix == ".cubin"]) == 3
    with Compiler(GPU, jobs(CascadeUCB1(), Random())) as compiling:
        assert [n for n, _ in compiling.ready(wait=False)] == [0, 1]
        assert not compiling.pending
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == before


@pytest.mark.slow
def test_a_single_kernel_is_compiled_in_this_process(cache: Path, compiled_here: list[str]) -> None:
    check_all(jobs(Random()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


@pytest.mark.slow
def test_a_policy_that_cannot_be_pickled(cache: Path, compiled_here: list[str]) -> None:
    class _Own(Random):
        pass

    check_all(jobs(_Own(), CascadeUCB1()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


@pytest.mark.slow
def test_a_policy_that_other_processes_cannot_import(
    cache: Path, compiled_here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Typed(Random):
        pass

    _Typed.__module__, _Typed.__qualname__ = "only_here", "_Typed"
    monkeypatch.setitem(sys.modules, "only_here", ModuleType("only_here"))
    sys.modules["only_here"]._Typed = _Typed  # type: ignore[attr-defined]
    check_all(jobs(_Typed(), CascadeUCB1()), cache)
    assert sorted(compiled_here) == ["simulate", "unroll"]


def test_processes_end_with_the_compiler(cache: Path) -> None:
    with Compiler(GPU, jobs(CascadeUCB1(), Random())) as compiling:
        processes = list(compiling._processes._running.values())
        assert processes
        assert all(process.poll() is None for process in processes)
    assert all(process.poll() is not None for process in processes)
