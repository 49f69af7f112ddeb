"""Stop a simulation from outside: what is finished is kept, and it goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.experiments import Result
from tests.quick import others_are_slow

ROOT = Path(__file__).parents[2]
RUNS = 80
LONG = ["simulate", "--policy", "CascadeUCB1", "--queries", "yandex-like:4", "--horizon", "50000", "--runs", str(RUNS)]

#: the command line, but with parts written as soon as there is something to write
QUICKLY = """
import sys
import driftrank.experiments.simulation.folder as folder
from driftrank.cli import main
folder.INTERVAL = 0.0
main(sys.argv[1:])
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", QUICKLY, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def wait_for_parts(process: subprocess.Popen[str], folder: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not list((folder / "parts").glob("[0-9]*.parquet")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def table(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert run([*LONG, "--out", str(folder), "-q"]) == 0
    return folder


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX knows them")
@pytest.mark.parametrize("how", others_are_slow([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], [signal.SIGINT]))
def test_stopped_and_continued(whole: Path, tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "regret.png").write_text("of an older simulation")
    process = start(*LONG, "--threads", "1", "--out", str(tmp_path), "--json")
    wait_for_parts(process, tmp_path)
    process.send_signal(how)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    if how == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "results.parquet").exists()
    else:
        assert time.monotonic() - begin < 3
        assert process.returncode == 130
        assert out == ""
        assert err.startswith("driftrank: stopped; ")
        assert "--resume" in err
        assert err.count("\n") == 1
        partial = Result.load(tmp_path)
        finished = int((~np.isnan(partial.values[0, ..., -1])).sum())
        assert 0 < finished < 4 * RUNS
        assert f"{finished} of {4 * RUNS} runs are kept in {tmp_path}" in err
        assert json.loads((tmp_path / "summary.json").read_text())["complete"] is False
        assert {path.name for path in tmp_path.iterdir()} == {"results.parquet", "summary.json", "run.toml"}
        kept = table(tmp_path)
        assert len(kept) == finished * len(partial.checkpoints)
    assert run([*LONG, "--out", str(tmp_path), "--resume", "-q"]) == 0
    assert table(tmp_path).equals(table(whole))
    names = {"results.parquet", "summary.json", "run.toml", "regret.png", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert json.loads((tmp_path / "summary.json").read_text())["complete"] is True


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX knows them")
def test_stopped_before_anything_is_finished(tmp_path: Path) -> None:
    process = start(*LONG, "--horizon", "100000000", "--out", str(tmp_path))
    while not (tmp_path / "run.toml").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"0 of {4 * RUNS} runs are kept" in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"run.toml"}


def test_reader_that_has_seen_enough() -> None:
    """``driftrank policies | head -1`` is no error."""
    command = [sys.executable, "-m", "driftrank", "policies"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 1
