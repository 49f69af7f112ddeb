from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from contextlib import ExitStack

import numpy as np
import psutil
import pytest

from driftrank.engine.cluster.cluster import Cluster, NoWorkers


@pytest.fixture(scope="module")
def cluster():
    with Cluster(workers=2) as made:
        yield made


def test_results_come_as_they_are_ready(cluster, tmp_path) -> None:
    heard = tmp_path / "heard"

    def slow_first(n: int) -> tuple[int, int]:
        deadline = time.monotonic() + 60
        while n == 0 and not heard.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return n * n, os.getpid()

    results = []
    for result in cluster.map(slow_first, range(8)):
        results.append(result)
        heard.touch()
    assert sorted((i, square) for i, (square, _) in results) == [(n, n * n) for n in range(8)]
    assert results[0][0] != 0  # started first, but not the first to finish
    processes = {process for _, (_, process) in results}
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_a_lost_worker_costs_its_task_only(cluster, tmp_path) -> None:
    tried = tmp_path / "tried"

    def dies_once(task: np.ndarray) -> int:
        if task[0] == 3:
            with open(tried, "a") as file:
                file.write("x")
            if os.path.getsize(tried) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return int(task[0])

    tasks = [np.full(10_000, n) for n in range(12)]
    assert sorted(cluster.map(dies_once, tasks)) == [(n, n) for n in range(12)]
    assert tried.read_text() == "xx"


def test_errors_come_through_and_the_cluster_goes_on(cluster, tmp_path) -> None:
    def fails(n: int) -> int:
        if n == 2:
            raise ArithmeticError("two")
        return n

    with pytest.raises(ArithmeticError, match="two"):
        list(cluster.map(fails, range(6)))
    done = tmp_path / "done"

    def lasting(n: int) -> None:
        time.sleep(0.1)
        with open(done, "a") as file:
            file.write("x")

    for _ in cluster.map(lasting, range(40)):
        break
    assert sorted(cluster.map(lambda n: -n, [5, 6])) == [(0, -5), (1, -6)]
    assert done.stat().st_size < 20  # what had not begun was dropped


def test_a_cluster_that_is_there(cluster, tmp_path) -> None:
    with Cluster(address=cluster.client.scheduler.address) as other:
        assert list(other.map(lambda n: n + 1, [1])) == [(0, 2)]
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": cluster.client.scheduler.address}))
    with Cluster(scheduler_file=str(tmp_path / "scheduler.json")) as other:
        assert list(other.map(lambda n: n + 1, [1])) == [(0, 2)]
    assert list(cluster.map(lambda n: n, [1])) == [(0, 1)]  # it was not ours to stop


def test_nothing_is_left_when_stopped() -> None:
    def process(_: int) -> int:
        return os.getpid()

    made = Cluster(workers=1)
    workers = []
    mapped = []

    def interrupted() -> None:
        with made:
            mapped.append(made.map(process, range(3)))
            for _, worker in mapped[0]:
                workers.append(worker)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    mapped[0].close()  # later than the cluster
    deadline = time.monotonic() + 20
    while psutil.pid_exists(workers[0]) and psutil.Process(workers[0]).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(ValueError, match="not open"):
        next(made.map(process, [1]))


def test_large_values_are_shared(cluster, tmp_path) -> None:
    """Every worker gets the value once, and another one gets it when the one that had it is lost."""
    shared = cluster.share(np.arange(500_000))
    tried = tmp_path / "tried"

    def summed(task: tuple[int, tuple[bytes, bytes]]) -> int:
        n, (_, pickled) = task
        if n == 3:
            with open(tried, "a") as file:
                file.write("x")
            if os.path.getsize(tried) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return n + int(pickle.loads(pickled).sum())

    total = 499_999 * 500_000 // 2
    assert sorted(cluster.map(summed, [(n, shared) for n in range(12)])) == [(n, n + total) for n in range(12)]
    assert tried.read_text() == "xx"
    same, other = cluster.share(np.arange(500_000)), cluster.share(np.arange(500_001))
    assert same[0] == shared[0] != other[0]


@pytest.mark.slow
def test_a_task_that_kills_every_worker(cluster) -> None:
    def deadly(_: int) -> None:
        os._exit(3)

    with pytest.raises(ConnectionError, match="4 workers of the cluster died at the same task"):
        list(cluster.map(deadly, [1]))
    assert list(cluster.map(abs, [-1])) == [(0, 1)]


def test_other_backends_of_joblib() -> None:
    def process(_: int) -> int:
        return os.getpid()

    with Cluster(backend="loky", workers=2) as cluster:
        assert cluster.size == 2
        assert os.getpid() not in {result for _, result in cluster.map(process, range(4))}
    with Cluster(backend="threading", workers=2) as cluster:
        assert sorted(cluster.map(process, range(3))) == [(n, os.getpid()) for n in range(3)]
    with pytest.raises(ValueError, match="Invalid backend: abacus"), Cluster(backend="abacus"):
        pass
    with pytest.raises(ValueError, match="is an address of Dask, but backend='loky'"):
        Cluster(address="tcp://localhost:1", backend="loky")


def test_workers_of_another_version(cluster, monkeypatch) -> None:
    monkeypatch.setattr("driftrank.engine.cluster.cluster.__version__", "99.0")
    with (
        pytest.raises(ValueError, match=r"the worker tcp://.* has driftrank .*, but this process has 99\.0"),
        Cluster(address=cluster.client.scheduler.address),
    ):
        pass


def test_a_scheduler_without_workers() -> None:
    import distributed

    with ExitStack() as stack:
        empty = stack.enter_context(distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0"))
        with pytest.warns(NoWorkers, match="has no workers yet"):
            cluster = stack.enter_context(Cluster(address=empty.scheduler_address))
        assert cluster.size == 0
        empty.scale(1)
        assert sorted(cluster.map(abs, [-1, -2])) == [(0, 1), (1, 2)]


def test_wrong_values(monkeypatch, tmp_path) -> None:
    import dask

    with pytest.raises(ValueError, match="workers=0: must be an integer of at least 1"):
        Cluster(workers=0)
    with pytest.raises(ValueError, match="at most one can be given"):
        Cluster(address="tcp://localhost:1", workers=2)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(ValueError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1'"),
        Cluster(address="tcp://127.0.0.1:1"),
    ):
        pass
    monkeypatch.setattr("driftrank.engine.cluster.cluster.PATIENCE", 0.0)
    missing, wrong = tmp_path / "missing.json", tmp_path / "wrong.json"
    wrong.write_text("[]")
    for file, reason in ((missing, "No such file"), (wrong, "it has no address")):
        with pytest.raises(ValueError, match=rf"scheduler_file='.*': cannot be read \(.*{reason}"):
            Cluster(scheduler_file=str(file)).__enter__()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'driftrank\[cluster\]'"), Cluster():
        pass
