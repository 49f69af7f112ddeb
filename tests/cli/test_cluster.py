"""Simulations on a cluster from the command line: as users start one, and stopped in every way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import psutil
import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.engine import Cluster
from driftrank.experiments import Result
from driftrank.experiments.leaderboards.leaderboard import leaderboard
from driftrank.experiments.paper.reproduction import reproduce

ROOT = Path(__file__).parents[2]
RUNS = 60
LONG = ["simulate", "--policy", "CascadeUCB1", "--queries", "yandex-like:4", "--horizon", "50000", "--runs", str(RUNS)]

#: the command line, but with parts written, and jobs sent, as small as can be
QUICKLY = """
import sys
import driftrank.experiments.simulation.folder as folder
from driftrank.cli import main
from driftrank.engine import devices
from driftrank.engine.cluster import run
folder.INTERVAL = 0.0
devices.UNIT_STEPS["cluster"] = run.JOB_STEPS = 100_000
main(sys.argv[1:])
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX knows them")


def start(*arguments: str) -> subprocess.Popen[str]:
    """In a session of its own, so that a signal can reach all its processes, as Ctrl-C in a terminal does."""
    command = [sys.executable, "-c", QUICKLY, *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes)


def wait_for(what: str, found: Any, *processes: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 120
    while not found():
        assert all(process.poll() is None for process in processes), what
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def parts(folder: Path) -> list[Path]:
    return list((folder / "parts").glob("[0-9]*.parquet"))


def table(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the cores of this machine, and never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert run([*LONG, "--out", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def scheduler_file(tmp_path: Path) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """What people start on SLURM and Kubernetes: a scheduler, and workers that find it by its file."""
    file = tmp_path / "scheduler.json"
    dask_ = [sys.executable, "-m", "dask"]
    log = (tmp_path / "log").open("wb")
    how: Any = {"cwd": ROOT, "stdout": log, "stderr": log}
    started: list[subprocess.Popen[bytes]] = []
    try:
        port = ["--port", "0", "--dashboard-address", "127.0.0.1:0"]
        started.append(
            subprocess.Popen([*dask_, "scheduler", "--scheduler-file", str(file), "--host", "127.0.0.1", *port], **how)
        )
        for threads in ("1", "2"):
            worker = ["worker", "--scheduler-file", str(file), "--nthreads", threads, "--no-dashboard"]
            started.append(subprocess.Popen([*dask_, *worker], **how))
        yield file, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()
        log.close()


@pytest.mark.slow
def test_a_cluster_that_is_there(
    scheduler_file: tuple[Path, list[subprocess.Popen[bytes]]], whole: Path, tmp_path: Path
) -> None:
    """Found by its file or its address; one of its workers is killed in the midst, with all its processes."""
    file, workers = scheduler_file
    with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
        client.wait_for_workers(2)
        address = client.scheduler.address
        assert run([*LONG, "--device", "cluster", "--address", address, "--out", str(tmp_path / "a"), "-q"]) == 0
        assert table(tmp_path / "a").equals(table(whole))
        settings = tomllib.loads((tmp_path / "a" / "run.toml").read_text())
        assert settings["device"] == Result.load(tmp_path / "a").device == "cluster"
        assert "address" not in settings  # of a cluster that may be gone when it is repeated
        out = tmp_path / "b"
        driver = start(*LONG, "--device", "cluster", "--scheduler-file", str(file), "--out", str(out), "-q")
        wait_for("a part", lambda: parts(out), driver)
        for process in [workers[0], *psutil.Process(workers[0].pid).children(recursive=True)]:
            process.kill()
        out_and_err = driver.communicate(timeout=120)  # Dask may say that it lost a worker
        assert driver.returncode == 0, out_and_err
        assert table(out).equals(table(whole))
        assert list(client.nthreads().values()) == [2]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_continued(whole: Path, tmp_path: Path, how: signal.Signals) -> None:
    device = ["--device", "cluster", "--workers", "2"]
    driver = start(*LONG, *device, "--out", str(tmp_path))
    wait_for("a part", lambda: parts(tmp_path), driver)
    processes = psutil.Process(driver.pid).children(recursive=True)
    assert len(processes) >= 2
    if how == signal.SIGKILL:
        driver.kill()
    else:
        os.killpg(driver.pid, how)
    out, err = driver.communicate(timeout=120)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    assert out == ""
    if how == signal.SIGKILL:
        assert parts(tmp_path)
        assert not (tmp_path / "results.parquet").exists()
    else:
        assert driver.returncode == 130
        partial = Result.load(tmp_path)
        finished = int((~np.isnan(partial.values[0, ..., -1])).sum())
        assert 0 < finished < 4 * RUNS
        assert err == (
            f"driftrank: stopped; {finished} of {4 * RUNS} runs are kept in {tmp_path}; the same command with "
            "--resume continues\n"
        )
    assert run([*LONG, *(device if how == signal.SIGKILL else []), "--out", str(tmp_path), "--resume", "-q"]) == 0
    assert table(tmp_path).equals(table(whole))
    assert not (tmp_path / "parts").exists()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as made:
        yield made


@pytest.mark.slow
def test_the_leaderboard(cluster: Cluster, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "queries": "yandex-like:2", "policies": ["CascadeUCB1"], "environments": ["Stationary", "Churn"],
        "horizon": 300, "progress": False,
    }  # fmt: skip
    here, there = leaderboard(**given), leaderboard(**given, device=cluster, folder=tmp_path)
    for ours, theirs in zip(here.arenas, there.arenas, strict=True):
        assert np.array_equal(ours.result.values, theirs.result.values)
        assert theirs.result.device == "cluster"
    address = ["--device", "cluster", "--address", cluster.client.scheduler.address]
    command = ["leaderboard", "--queries", "yandex-like:2", "--policy", "CascadeUCB1", "--horizon", "300", "--json"]
    assert run([*command, "--env", "Stationary", "--env", "Churn", "--out", str(tmp_path / "b"), *address]) == 0
    assert table(tmp_path / "b").equals(table(tmp_path))


@pytest.mark.slow
def test_the_paper(cluster: Cluster, tmp_path: Path) -> None:
    small: dict[str, Any] = {"queries": "yandex-like:2", "horizon": 200, "runs": 2, "progress": False}
    here, there = reproduce(tmp_path / "here", **small), reproduce(tmp_path / "there", **small, device=cluster)
    assert np.array_equal(here.single.values, there.single.values)
    assert table(tmp_path / "here").equals(table(tmp_path / "there"))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--address", "127.0.0.1:1"], 2, "address='127.0.0.1:1': --address is for --device cluster"),
        (["--scheduler-file", "x.json"], 2, "scheduler_file='x.json': --scheduler-file is for --device cluster"),
        (["--workers", "2", "--device", "cuda"], 2, "--workers is for --device cluster, and the device is 'cuda'"),
        (["--device", "cluster", "--workers", "0"], 2, "workers=0: must be an integer of at least 1"),
        (["--device", "cluster", "--workers", "2", "--address", "a:1"], 2, "at most one can be given"),
        (["--device", "cluster", "--address", "127.0.0.1:1"], 2, "no Dask scheduler answers at '127.0.0.1:1'"),
        (["--device", "cluster", "--address", "nonsense"], 2, "no Dask scheduler answers at 'nonsense'"),
        (["--device", "cluster", "--scheduler-file", "/no/such.json"], 2, "scheduler_file='/no/such.json': cannot be"),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "leaderboard", "reproduce"])
def test_wrong_clusters(
    command: str,
    options: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("driftrank.engine.cluster.cluster.PATIENCE", 0.3)
    few = ["--policy", "CascadeUCB1", "--env", "Stationary"] if command == "leaderboard" else []
    assert run([command, "--queries", "yandex-like:1", "--out", str(tmp_path / "new"), *few, *options]) == code
    err = capsys.readouterr().err
    assert err.startswith("driftrank: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "new").exists()


def test_nobody_waits_long_for_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def refusing(where: str, timeout: float, **_: Any) -> None:
        asked.append(timeout)
        raise OSError("nobody there")

    monkeypatch.setattr(distributed, "Client", refusing)
    for patience in ("30s", "1s"):  # of Dask's own settings
        with (
            dask.config.set({"distributed.comm.timeouts.connect": patience}),
            pytest.raises(ValueError, match="nobody there"),
        ):
            Cluster(address="10.0.0.7:8786").__enter__()
    assert asked == [5.0, 1.0]


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert run([*LONG, "--device", "cluster", "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "driftrank simulate: needs joblib: pip install 'driftrank[cluster]'\n"
    assert not (tmp_path / "new").exists()
