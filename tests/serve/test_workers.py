"""Several processes behind one address: ``driftrank serve --workers 2`` on PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftrank.cli.app import run
from driftrank.client import Client, ServiceError
from driftrank.serve.log.records import Final, Ranked, decode
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.processes.worker_metrics import labelled
from tests.serve.running import OUTSIDE, Running

#: the policy of tests that are about other things
QUICK = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1", "DRIFTRANK_RANKERS__DEFAULT__K": "3"}


@pytest.fixture(scope="module")
def running(postgres, tmp_path_factory) -> Iterator[Running]:
    options = ["--store", postgres.url(), "--durability", "relaxed", "--workers", "2"]
    with Running(tmp_path_factory.mktemp("workers"), *options, DRIFTRANK_DRAIN="0.3", **QUICK) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def workers_of(running: Running) -> list[int]:
    """The process ids of the workers."""
    pid = running._process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def metric(running: Running, name: str) -> dict[str, float]:
    """A metric of each worker."""
    text = httpx.get(f"{running.url}/metrics").text
    return {worker: float(n) for worker, n in re.findall(rf'^{name}{{worker="(\d)".*}} (\S+)$', text, re.MULTILINE)}


def wait_until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_metrics_are_those_of_all_workers(running):
    assert metric(running, "driftrank_ready") == {"0": 1, "1": 1}
    assert sum(metric(running, "driftrank_keeper").values()) == 1
    assert set(metric(running, "process_resident_memory_bytes")) == {"0", "1"}
    help_ = [line for line in httpx.get(f"{running.url}/metrics").text.splitlines() if line.startswith("# HELP ")]
    assert len(help_) == len(set(help_))
    with PostgresStore(running._options[1]) as store:
        assert [node.name for node in store.nodes()] == [f"{socket.gethostname()}:{running.port}/{n}" for n in range(2)]


def test_families_without_samples_keep_their_place():
    text = '# HELP a A.\n# TYPE a counter\n# HELP b B.\n# TYPE b gauge\nb{x="{ }"} 1\n'
    assert labelled({3: text, 5: ""}) == text.replace('{x="{ }"}', '{worker="3",x="{ }"}')


def ask(port: int, path: str, body: dict[str, Any], after: str) -> tuple[dict[str, Any], str]:
    """The answer to a request with a connection of its own, so that any worker may answer; and what it has seen."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json", "X-Driftrank-After": after}
    connection.request("POST", f"/v1/rankers/default/{path}", json.dumps(body), headers)
    answer = connection.getresponse()
    try:
        return json.loads(answer.read()), answer.headers.get("x-driftrank-seq", "0")
    finally:
        connection.close()


def test_lists_are_those_of_one_process(running, tmp_path):
    before, lists = metric(running, "driftrank_http_requests_total"), []
    with Running(tmp_path, "--durability", "relaxed", **QUICK) as one:
        for port in (running.port, one.port):
            after = "0"
            lists.append([])
            for n in range(80):
                event = {"event_id": f"same{n}"}
                answer, after = ask(port, "rank", event | {"query": f"q{n % 3}", "items": list("abcdef")}, after)
                lists[-1].append(tuple(item["id"] for item in answer["items"]))
                answer, after = ask(port, "feedback", event | {"clicks": [1 + n % 3] if n % 2 else []}, after)
                assert answer["outcome"] == "counted"
    assert lists[0] == lists[1]
    assert len(set(lists[0])) > 10
    answered = metric(running, "driftrank_http_requests_total")
    assert all(answered[worker] > before.get(worker, 0) for worker in answered)


def test_a_killed_worker_is_started_again_and_nothing_is_lost(running):
    acknowledged: list[tuple[str, str]] = []
    stop = threading.Event()

    def use(thread: int) -> None:
        with Client(running.url, timeout=10, deadline=60, retries=20) as client:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    answer = client.rank(f"query {number % 9}", list("abcd"), event_id=f"kill{thread}/{number}")
                    acknowledged.append(("list", answer.event_id))
                    result = client.feedback(answer.event_id, [answer.items[0].id], wait=True)
                    assert result.outcome in ("counted", "duplicate")
                    acknowledged.append(("end", answer.event_id))
                except ServiceError:  # not acknowledged
                    continue

    threads = [threading.Thread(target=use, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    try:
        for victim in (0, 1):
            enough = len(acknowledged) + 60
            wait_until(lambda enough=enough: len(acknowledged) > enough)
            pid = sorted(workers_of(running))[victim]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid not in workers_of(running) and len(workers_of(running)) == 2)
            wait_until(lambda: metric(running, "driftrank_ready") == {"0": 1, "1": 1})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert running.log.count("has ended (signal 9); it is started again") == 2
    with PostgresStore(running._options[1]) as store:
        records = [decode(entry.body) for entry in store.read(0, 1_000_000)]
    lists = {record.event_id for record in records if isinstance(record, Ranked)}
    ends = Counter(record.event_id for record in records if isinstance(record, Final))
    assert not [event for what, event in acknowledged if event not in (lists if what == "list" else ends)]
    assert set(ends.values()) == {1}


def test_all_workers_load_the_settings_again_and_shut_down(running):
    running._process.send_signal(signal.SIGHUP)
    wait_until(lambda: running.log.count("the settings were loaded again") == 2)
    assert '"worker": 0' in running.log
    assert '"worker": 1' in running.log
    workers = workers_of(running)
    with httpx.Client() as client:  # to make one takes as long as to drain
        for pid in (*workers, running._process.pid):  # as systemd does; it counts once
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: running.log.count("not ready any more") == 2)
        assert client.get(f"{running.url}/readyz").status_code == 503  # answered while it drains
    running._end()
    assert running._process.returncode == 0
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    running.restart()


def test_workers_end_with_their_supervisor(running):
    workers = workers_of(running)
    running.kill()
    wait_until(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()])


def test_a_start_that_fails_is_one_line(tmp_path, postgres):
    store = postgres.url().replace("/postgres?", "/none?")
    command = [sys.executable, "-m", "driftrank", "serve", "--port", "0", "--workers", "2", "--store", store]
    done = subprocess.run(command, cwd=tmp_path, env=OUTSIDE, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("driftrank: error: ")
    assert 'database "none" does not exist' in done.stderr
    assert done.stderr.count("\n") == 1


def test_sqlite_has_one_worker(tmp_path, capsys):
    assert run(["serve", "--port", "0", "--workers", "2", "--store", f"sqlite:///{tmp_path}/x.db"]) == 2
    error = capsys.readouterr().err
    assert "workers=2: must be 1 with a store that one process writes to" in error
    assert "driftrank store copy" in error
    assert "--store postgresql://" in error
    assert not list(tmp_path.iterdir())
