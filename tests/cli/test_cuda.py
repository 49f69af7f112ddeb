"""``--device cuda`` from the command line: without a GPU, and with numba's simulator of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.experiments import Result

pytest.importorskip("numba_cuda")

ROOT = Path(__file__).parents[2]
SIMULATE = ["simulate", "--policy", "CascadeUCB1", "--policy", "CascadeSWUCB:window=20", "--queries", "yandex-like:2"]
SIMULATE += ["--horizon", "60", "--runs", "2", "--json"]
#: no GPU, even where there is one
NONE = {"CUDA_VISIBLE_DEVICES": "", "NUMBA_ENABLE_CUDASIM": "0"}
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}


def driftrank(*arguments: str, **environment: str) -> tuple[Any, list[str]]:
    """What a command prints as JSON, and the lines on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "driftrank", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("cpu")
    driftrank(*SIMULATE, "--out", str(folder))
    return Result.load(folder)


@pytest.mark.slow
def test_without_a_gpu_the_cpu_stands_in(tmp_path: Path, on_cpu: Result) -> None:
    summary, (line,) = driftrank(*SIMULATE, "--device", "cuda", "--out", str(tmp_path), **NONE)
    assert line.startswith("driftrank: warning: device='cuda': no CUDA GPU can be used (")
    assert line.endswith("); computing on the CPU, with the same numbers")
    assert summary["device"] == "cpu"
    assert np.array_equal(Result.load(tmp_path).values, on_cpu.values)


@pytest.mark.slow
def test_a_simulated_gpu(tmp_path: Path, on_cpu: Result) -> None:
    summary, lines = driftrank(*SIMULATE, "--device", "cuda", "--out", str(tmp_path), **SIMULATED)
    assert lines == []
    assert summary["device"] == "cuda"
    assert np.array_equal(Result.load(tmp_path).values, on_cpu.values)


@pytest.mark.slow
def test_a_sweep(tmp_path: Path) -> None:
    sweep = ["sweep", "--policy", "CascadeSWUCB:window=geom(5,80,3)", "--queries", "yandex-like:2"]
    sweep += ["--horizon", "60", "--runs", "2", "--json"]
    gpu, lines = driftrank(*sweep, "--device", "cuda", "--out", str(tmp_path / "gpu"), **SIMULATED)
    assert lines == []
    cpu, _ = driftrank(*sweep, "--out", str(tmp_path / "cpu"))

    def numbers(summary: dict[str, Any]) -> Any:
        return {key: value for key, value in summary.items() if key not in ("device", "seconds", "steps_per_second")}

    assert numbers(gpu) == numbers(cpu)
