"""Start and shutdown of the process."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
import uvicorn

from driftrank.serve.app import _Server
from driftrank.serve.http.listener import open_listener
from driftrank.serve.settings.server import ServerSettings
from tests.quick import others_are_slow
from tests.serve.running import Running

CHEAP = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}
ITEMS = ["a", "b", "c", "d"]


def ended(server: Running, within: float = 8) -> int:
    """The exit code of a server that was asked to stop."""
    began = time.perf_counter()
    server._end()
    assert time.perf_counter() - began < within
    assert "Traceback" not in server.log, server.log
    assert "never awaited" not in server.log, server.log
    return server._process.returncode


def ask(server: Running, number: int) -> None:
    server._process.send_signal(number)


def replays(server: Running, n: int) -> list[tuple[str, str]]:
    """The logged replays, ``n`` of them: number of records and checkpoint."""
    for _ in range(500):  # the log is read by another thread
        found = re.findall(r"(\d+) records replayed in [\d.]+ s, after the checkpoint at (\d+)", server.log)
        if len(found) == n:
            return found
        time.sleep(0.01)
    raise AssertionError(server.log)


def fill(server: Running, queries: int, items: int) -> None:
    chance = random.Random(0)  # names that cannot be squeezed
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for n in range(0, queries, 100):
            batch = [
                {"query": f"q{n + i}", "items": [chance.randbytes(30).hex() for _ in range(items)]} for i in range(100)
            ]
            client.post("/v1/rankers/default/rank", json=batch).raise_for_status()


@pytest.mark.parametrize("number", others_are_slow([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_signals_stop_the_server(tmp_path: Path, number: int) -> None:
    with Running(tmp_path, **CHEAP) as server:
        fill(server, 100, 4)
        ask(server, number)
        assert ended(server) == 0
        server.restart()
        assert replays(server, 2)[-1] == ("0", "101")
        fill(server, 100, 4)
        server.kill()
        server.restart()
        assert replays(server, 3)[-1] == ("100", "101")
        assert server.stop() == 0


def test_requests_in_flight_are_answered(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    broken: list[str] = []
    with Running(tmp_path, **CHEAP) as server:
        stop = threading.Event()

        def work(number: int) -> None:
            with httpx.Client(base_url=server.url, timeout=30) as client:
                n = 0
                while not stop.is_set():
                    event = f"{number}-{n}"
                    n += 1
                    try:
                        body = {"query": f"q{n % 5}", "items": ITEMS, "event_id": event}
                        answer = client.post("/v1/rankers/default/rank", json=body)
                    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError) as error:
                        # an idle connection was closed, or the server no longer listens
                        broken.append(repr(error))
                        return
                    assert answer.status_code == 200, answer.text
                    acknowledged.append(event)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 200 and not broken:
            time.sleep(0.01)
        ask(server, signal.SIGTERM)
        assert ended(server) == 0
        stop.set()
        for thread in threads:
            thread.join(10)
        assert len(acknowledged) >= 200
        server.restart()
        with httpx.Client(base_url=server.url) as client:
            lists = client.get("/v1/rankers/default").json()["lists"]
            assert len(acknowledged) <= lists <= len(acknowledged) + len(threads)
            results = client.post(
                "/v1/rankers/default/feedback", json=[{"event_id": event} for event in acknowledged[-900:]]
            ).json()
            assert {result["outcome"] for result in results} == {"counted"}
        assert server.stop() == 0


def test_stop_during_an_export(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        fill(server, 1000, 100)
        with (
            httpx.Client(base_url=server.url, timeout=30) as client,
            client.stream("GET", "/v1/rankers/default/export") as answer,
        ):
            lines = answer.iter_lines()
            assert next(lines)
            ask(server, signal.SIGTERM)
            # it does not look like a whole one
            with pytest.raises(httpx.RemoteProtocolError):
                assert sum(1 for _ in lines) < 1000
        assert ended(server) == 0


@pytest.mark.slow
def test_a_second_signal_during_an_unread_export(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        fill(server, 3000, 100)
        # How soon the system's buffers are full depends on the machine; before that, the export just ends.
        for pause in (0.5, 2, 8):
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", server.port))
                client.sendall(b"GET /v1/rankers/default/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert client.recv(12) == b"HTTP/1.1 200"
                time.sleep(pause)
                ask(server, signal.SIGTERM)
                time.sleep(0.5)
                waited = server._process.poll() is None
                ask(server, signal.SIGTERM)
                assert ended(server, 5) in (0, -signal.SIGTERM)
            server.restart()
            if waited:
                break
        assert waited, "it waits for the reader"
        with httpx.Client(base_url=server.url) as client:
            assert client.get("/v1/rankers/default").json()["queries"] == 3000
        assert server.stop() == 0


def test_two_signals_at_once(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        fill(server, 500, 50)
        ask(server, signal.SIGINT)
        ask(server, signal.SIGINT)
        assert ended(server) in (0, 130, -signal.SIGINT)
        server.restart()
        with httpx.Client(base_url=server.url) as client:
            assert client.get("/v1/rankers/default").json()["lists"] == 500
        assert server.stop() == 0


def test_addresses_that_cannot_be_used() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            open_listener(ServerSettings(port=port))
    with pytest.raises(ValueError, match=r"host='no.such.host.invalid': cannot be resolved"):
        open_listener(ServerSettings(host="no.such.host.invalid"))
    with pytest.raises(ValueError, match=r"host='a\.\.b': "):
        open_listener(ServerSettings(host="a..b"))


def test_objects_do_not_stay_young() -> None:
    """If they did, the collection of all impressions in memory would stop the service for a tenth of a second."""
    server = _Server(uvicorn.Config("none:none"), None, None)  # type: ignore[arg-type]
    gc.disable()
    try:
        made = [[n] for n in range(1000)]
        assert young(made) == 1000
        asyncio.run(server.on_tick(1))
        assert young(made) == 0
    finally:
        gc.enable()


def young(made: list[list[int]]) -> int:
    known = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    return sum(id(one) in known for one in made)
