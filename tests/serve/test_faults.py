"""A server whose environment fails: one line and an exit code, or 503 until it works again."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from driftrank.serve.log.records import Final, Ranked, RankerSet, Record, decode, encode, final_id, ranked_id
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.wire import RankerSettings
from tests.serve.log.store.disks import read_only, small_disk
from tests.serve.running import OUTSIDE, Running

ITEMS = [f"item-{n}" for n in range(10)]
CHEAP = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}


def refused(folder: Path, *options: str, **variables: str) -> tuple[int, str]:
    """A start that fails: its exit code, and its message."""
    command = [sys.executable, "-m", "driftrank", "serve", "--port", "0", *options]
    done = subprocess.run(
        command, cwd=folder, env=OUTSIDE | CHEAP | variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # not the log
    assert len(lines) == 1, done.stderr
    return done.returncode, lines[0]


def rank(client: httpx.Client, event: str, **more: Any) -> httpx.Response:
    """A ranking, or 503: no baseline instead."""
    body = {"query": "shoes", "items": ITEMS, "event_id": event, **more}
    return client.post("/v1/rankers/default/rank", json=body, headers={"Prefer": "handling=strict"})


def click(client: httpx.Client, event: str) -> httpx.Response:
    return client.post("/v1/rankers/default/feedback", json={"event_id": event, "clicks": [1]})


def until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.05)


def fill(path: Path) -> None:
    """Fill the disk with a file."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program holds a write transaction on the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


def finals(path: Path) -> list[str]:
    with SQLiteStore(path) as store:
        records = [decode(entry.body) for entry in store.read(0)]
    return [record.event_id for record in records if isinstance(record, Final)]


# -- while it runs ---------------------------------------------------------------------------------------------------


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "3M") as disk, Running(disk, **CHEAP) as server:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            assert rank(client, "before").status_code == 200
            ballast = disk / "ballast"
            fill(ballast)
            answers = [rank(client, f"{n}", items=[f"{n}-{m}" * 20 for m in range(100)]) for n in range(60)]
            taken = [n for n, answer in enumerate(answers) if answer.status_code == 200]
            answer = answers[-1]
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
            assert "the disk is full" in answer.json()["detail"]
            assert click(client, "before").status_code == 503
            body = {"query": "shoes", "items": ITEMS, "k": 2, "event_id": "lenient"}
            instead = client.post("/v1/rankers/default/rank", json=body).json()
            assert [(item["id"], item["why"]) for item in instead["items"]] == [(i, "baseline") for i in ITEMS[:2]]
            assert (instead["degraded"], instead["event_id"]) == ("store", "")
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert "the disk is full" in ready.json()["detail"]
            assert client.get("/healthz").status_code == 200
            assert client.get("/v1/rankers/default/queries/shoes").status_code == 200
            metrics = client.get("/metrics").text
            assert "driftrank_ready 0.0" in metrics
            assert 'driftrank_store_errors_total{kind="StoreFull"}' in metrics

            ballast.unlink()
            # without any write request: if /readyz decides, none comes
            until(lambda: client.get("/readyz").status_code == 200)
            assert click(client, "before").json()["outcome"] == "counted"
            again = rank(client, "59", items=[f"59-{m}" * 20 for m in range(100)])
            assert again.status_code == 200
            assert client.get("/v1/rankers/default").json()["lists"] == 1 + len(taken) + 1
            assert "Traceback" not in server.log
        assert server.stop() == 0
        server.restart()
        info = httpx.get(f"{server.url}/v1/rankers/default").json()
        assert (info["lists"], info["steps"], info["clicks"]) == (1 + len(taken) + 1, 1, 1)


def test_a_locked_database(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        assert rank(client, "e1").status_code == 200
        with ThreadPoolExecutor(1) as pool:
            with locked(tmp_path / "driftrank.db"):  # for a moment: the service waits
                waiting = pool.submit(click, client, "e1")
                time.sleep(0.5)
                assert not waiting.done()
                assert client.get("/v1/rankers/default/queries/shoes").status_code == 200  # other requests are answered
            assert waiting.result().json()["outcome"] == "counted"

        with locked(tmp_path / "driftrank.db"):  # for longer
            answer = rank(client, "e2")
            assert answer.status_code == 503
            assert "retry-after" in answer.headers
            assert "locked by another program" in answer.json()["detail"]
            assert "locked by another program" in client.get("/readyz").json()["detail"]
        until(lambda: client.get("/readyz").status_code == 200)
        assert rank(client, "e2").status_code == 200
        assert client.get("/v1/rankers/default").json()["lists"] == 2
        assert "Traceback" not in server.log


def test_too_many_requests(tmp_path: Path) -> None:
    """If the queue of records is full, requests are rejected with 429; accepted ones are not lost."""
    with Running(tmp_path, DRIFTRANK_QUEUE="20", **CHEAP) as server:
        limits = httpx.Limits(max_connections=None)
        with httpx.Client(base_url=server.url, timeout=30, limits=limits) as client:
            lists = [{"query": "shoes", "items": ITEMS, "event_id": f"e{n}"} for n in range(60)]
            for n in range(0, 60, 20):
                assert client.post("/v1/rankers/default/rank", json=lists[n : n + 20]).status_code == 200
            with ThreadPoolExecutor(60) as pool:
                with locked(tmp_path / "driftrank.db"):
                    sent = [pool.submit(click, client, f"e{n}") for n in range(60)]
                    until(lambda: sum(one.done() for one in sent) >= 30)
                    time.sleep(0.3)
                answers = [one.result() for one in sent]
            rejected = [answer for answer in answers if answer.status_code == 429]
            assert {answer.status_code for answer in answers} == {200, 429}
            assert 20 <= len(answers) - len(rejected) <= 30
            for answer in rejected:
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.json()["title"]
            counted = [n for n, answer in enumerate(answers) if answer.status_code == 200]
            assert all(answers[n].json()["outcome"] == "counted" for n in counted)
            assert client.get("/v1/rankers/default").json()["steps"] == len(counted)
            assert f'driftrank_http_requests_total{{route="feedback",status="429"}} {len(rejected)}.0' in (
                client.get("/metrics").text
            )
            server.kill()
        assert sorted(finals(tmp_path / "driftrank.db")) == sorted(f"e{n}" for n in counted)


def test_an_open_stream_ends_with_the_server(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            for part in range(8):  # more than the buffers of sockets hold
                rows = [{"query": f"{part}-{n}" + "y" * 490, "ranking": ITEMS} for n in range(1000)]
                assert client.post("/v1/rankers/default/warmstart", json=rows).json()["counted"] == 1000
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # small buffers
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(b"GET /v1/rankers/default/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reader.recv(15) == b"HTTP/1.1 200 OK"
            time.sleep(0.3)  # the stream is blocked
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 15
            got = b""
            with suppress(ConnectionResetError):
                while more := reader.recv(1 << 20):
                    got += more
        assert got.count(b"\n{") < 8 * 1000
        assert not got.endswith(b"0\r\n\r\n")  # it does not look complete
        assert "was aborted: the service is stopping" in server.log
        assert "Traceback" not in server.log


# -- when it starts --------------------------------------------------------------------------------------------------


def test_a_read_only_folder(tmp_path: Path) -> None:
    with read_only(tmp_path):
        code, line = refused(tmp_path)
    assert code == 1
    assert "cannot be written to" in line


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "driftrank.db"
    SQLiteStore(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
        other.commit()
    before = path.read_bytes()
    code, line = refused(tmp_path)
    assert code == 1
    assert "newer driftrank" in line
    assert path.read_bytes() == before


def test_a_record_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "driftrank.db"
    with SQLiteStore(path) as store:
        store.append([("x/1", b'{"kind":"telepathy","time":1.0}')])
    code, line = refused(tmp_path)
    assert code == 1
    assert "record 1 is unknown to this version" in line
    with SQLiteStore(path) as store:
        assert [entry.id for entry in store.read(0)] == ["x/1"]


def test_a_second_server_and_a_port_that_is_taken(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        code, line = refused(tmp_path)
        assert code == 1
        assert "is in use by another service (process " in line

        other = tmp_path / "other"
        other.mkdir()
        code, line = refused(other, "--port", str(server.port))
        assert code == 1
        assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in line
        assert list(other.iterdir()) == []  # nothing was created
        assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    code, line = refused(tmp_path, "--host", "localhost", "--store", "sqlite:////nowhere/at/all.db")
    assert code == 1
    assert "/nowhere/at/all.db" in line
    code, line = refused(tmp_path, "--host", "host.invalid", DRIFTRANK_ADMIN_KEY="sha256:" + "0" * 64)
    assert code == 2
    assert "host='host.invalid'" in line


def test_a_public_address_needs_an_admin_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", socket.gethostname()):
        code, line = refused(tmp_path, "--host", host)
        assert code == 2
        assert "DRIFTRANK_ADMIN_KEY" in line
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_tail_is_reported_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "driftrank.db"
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url) as client:
        for n in range(5):
            assert rank(client, f"e{n}").status_code == 200
            assert click(client, f"e{n}").status_code == 200
        server.kill()
        with closing(sqlite3.connect(path)) as other:
            (last,) = other.execute("SELECT max(seq) FROM log").fetchone()
            other.execute("UPDATE log SET body = replace(body, 'feedback', 'feedbark') WHERE seq = ?", (last,))
            other.commit()
        server.restart()
        assert f"the log is cut before entry {last}" in server.log
        info = httpx.get(f"{server.url}/v1/rankers/default").json()
        assert (info["lists"], info["steps"], info["pending"]) == (5, 4, 1)
        # feedback that was cut off can be sent again
        assert httpx.post(
            f"{server.url}/v1/rankers/default/feedback", json={"event_id": "e4", "clicks": [1]}
        ).json() == {"event_id": "e4", "outcome": "counted", "clicks": 1}


def test_a_copy_of_a_running_store_is_a_store(tmp_path: Path) -> None:
    """As a backup or a power cut makes it: the files at any moment are a valid store."""
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url) as client:
        for n in range(20):
            assert rank(client, f"e{n}").status_code == 200
        assert click(client, "e7").json()["outcome"] == "counted"
        copy = tmp_path / "copy"
        copy.mkdir()
        for part in ("", "-wal"):
            shutil.copy(tmp_path / f"driftrank.db{part}", copy)
        server.kill()
    with Running(copy, **CHEAP) as server:
        info = httpx.get(f"{server.url}/v1/rankers/default").json()
        assert (info["lists"], info["steps"], info["pending"]) == (20, 1, 19)


def test_an_impression_of_a_ranker_whose_policy_has_changed(tmp_path: Path) -> None:
    """Recorded after the change, and rejected by the new policy: the service starts nevertheless."""
    plain = RankerSettings(policy="CascadeUCB1")
    other = RankerSettings(policy="CascadeLinUCB", k=1000)  # needs features for so many
    records: list[tuple[str, Record]] = [
        ("ranker/1", RankerSet("default", 1.0, plain)),
        ("ranker/2", RankerSet("default", 2.0, other)),
        (ranked_id("default", 1, "e1"), Ranked("default", "shoes", "e1", 3.0, 1, ["a", "b"], "ee", 5, [None, None])),
        (final_id("default", "e1", 3), Final("default", "e1", 4.0, "feedback", [1])),
    ]
    with SQLiteStore(tmp_path / "driftrank.db") as store:
        store.append([(name, encode(record)) for name, record in records])
    with Running(tmp_path) as server:
        assert "record 3: not learnt: features: must be given" in server.log
        info = httpx.get(f"{server.url}/v1/rankers/default").json()
        assert (info["lists"], info["steps"], info["pending"]) == (1, 0, 0)
        assert httpx.put(f"{server.url}/v1/rankers/default", json={"policy": "CascadeUCB1"}).status_code == 200
        with httpx.Client(base_url=server.url) as client:
            assert rank(client, "e2").status_code == 200
