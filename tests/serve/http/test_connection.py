"""Clients that send too much, too slowly or too many requests; others are answered meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from driftrank.serve.http.connection import Connections
from driftrank.serve.monitoring.metrics import Metrics
from tests.serve.running import Running

CHEAP = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}
LIMITS = {
    "DRIFTRANK_HEADER_TIME": "1s", "DRIFTRANK_BODY_TIME": "1s", "DRIFTRANK_IDLE_TIME": "4s",
    "DRIFTRANK_SEND_TIME": "2s",
    "DRIFTRANK_MAX_CONNECTIONS": "40", "DRIFTRANK_MAX_REQUESTS": "2",
}  # fmt: skip


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("limited"), **CHEAP, **LIMITS) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def connect(server: Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def answer(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    out = b""
    try:
        while piece := connection.recv(65536):
            out += piece
    except ConnectionResetError:
        pass
    return out


def request(path: str = "/healthz", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


def counted(server: Running, why: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    found = [
        line for line in text.splitlines() if line.startswith(f'driftrank_connections_closed_total{{why="{why}"}}')
    ]
    return float(found[0].split()[1]) if found else 0.0


def test_an_endless_header_ends_its_connection_and_stops_nobody(limited: Running) -> None:
    """50 MB without a key: before there was a limit, others waited for 10 seconds."""
    worst, stop = [0.0], threading.Event()

    def probe() -> None:
        with httpx.Client(base_url=limited.url, timeout=60) as client:
            while not stop.is_set():
                began = time.perf_counter()
                assert client.get("/healthz").status_code == 200
                worst[0] = max(worst[0], time.perf_counter() - began)

    probing = threading.Thread(target=probe)
    probing.start()
    sent = 0
    with connect(limited) as connection:
        try:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-A: ")
            for _ in range(50):
                connection.sendall(b"a" * 1_000_000)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
    stop.set()
    probing.join()
    assert sent < 50, "the connection is closed long before"
    assert worst[0] < 5  # seconds, on a busy machine; it was 10
    assert counted(limited, "headers") >= 1


@pytest.mark.parametrize(("length", "status"), [(31_000, b"200"), (33_000, b"431")])
@pytest.mark.parametrize("piece", [1_000_000, 5_000])
def test_headers_up_to_the_limit(limited: Running, length: int, status: bytes, piece: int) -> None:
    data = request(more=f"X-A: {'a' * length}\r\nConnection: close\r\n")
    with connect(limited) as connection:
        for at in range(0, len(data), piece):
            try:
                connection.sendall(data[at : at + piece])
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(0.01)
        assert answer(connection).startswith(b"HTTP/1.1 " + status)


def test_many_short_headers_count_together(limited: Running) -> None:
    with connect(limited) as connection:
        connection.sendall(request(more="a: b\r\n" * 10_000))
        assert b"431" in answer(connection)[:20]


def test_a_body_is_no_header(limited: Running) -> None:
    """A long body in one piece with the headers, and the next request behind it."""
    body = b'{"query": "q", "items": ["a", "b"]}' + b" " * 500_000
    head = b"POST /v1/rankers/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    with connect(limited) as connection:
        connection.sendall((head + body) * 2 + request(more="Connection: close\r\n"))
        assert answer(connection).count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: local", b"HTTP/1.1 408"),
        (b"POST /v1/rankers/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 408"),
        (b"\r\n", b""),
        (b"", b""),
    ],
    ids=["half a header", "half a body", "blank", "nothing"],
)  # fmt: skip
def test_half_sent_requests_end(limited: Running, sent: bytes, says: bytes) -> None:
    with connect(limited) as connection:
        connection.sendall(sent)
        began = time.perf_counter()
        assert answer(connection)[:12] == says
        assert time.perf_counter() - began < 15  # 1 or 4 seconds, on a busy machine


def test_a_byte_now_and_then_does_not_help(limited: Running) -> None:
    with connect(limited) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-A: ")
        began = time.perf_counter()
        try:
            while time.perf_counter() - began < 15:  # 1 second, on a busy machine
                connection.sendall(b"a")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            return
        raise AssertionError("the connection is still open")


def test_idle_connections_end_later_than_half_sent_ones(limited: Running) -> None:
    with connect(limited) as connection:
        connection.sendall(request())
        time.sleep(1.4)
        connection.sendall(request())
        time.sleep(0.1)
        assert answer(connection).count(b"HTTP/1.1 200") == 2


def test_half_sent_requests_do_not_lock_others_out(limited: Running) -> None:
    """More connections than allowed, of which none sends a request: the oldest give way."""
    with ExitStack() as many:
        for _ in range(60):
            many.enter_context(connect(limited)).sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(3):
            assert httpx.get(f"{limited.url}/healthz").status_code == 200
    assert counted(limited, "too_many") > 0


def unread(server: Running, requests: int = 90) -> socket.socket:
    """A connection of a client that asks for long answers and does not read them."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(request("/openapi.json") * requests + request(more="Connection: close\r\n"))
    return connection


def ends(connection: socket.socket) -> bool:
    """True if the server ends the connection, though nothing of its answers is read."""
    connection.settimeout(0.2)
    until = time.perf_counter() + 20
    while time.perf_counter() < until:
        try:
            connection.send(b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return True
        except TimeoutError:
            continue
        time.sleep(0.1)
    return False


def test_answers_that_nobody_reads_end_their_connection(limited: Running) -> None:
    """They stayed for as long as the client did."""
    with unread(limited) as connection, connect(limited) as reads:
        assert ends(connection)
        reads.sendall(request() * 3)
        time.sleep(0.5)
        assert reads.recv(65536).count(b"HTTP/1.1 200") == 3
    assert counted(limited, "unread") >= 1


def test_who_reads_slowly_gets_all(limited: Running) -> None:
    """Longer than the limit, which is for a part of the answers."""
    with unread(limited, 60) as connection:
        began, answers = time.perf_counter(), b""
        while piece := connection.recv(500_000):
            answers += piece
            if time.perf_counter() < began + 4:
                time.sleep(0.02)
        assert answers.count(b"HTTP/1.1 200") == 61


def test_answers_that_nobody_reads_do_not_lock_others_out(limited: Running) -> None:
    """More connections than allowed: everybody got 503, as too many connections, or as too many requests."""
    with ExitStack() as many:
        for _ in range(45):
            many.enter_context(unread(limited, 60))
        time.sleep(1.2)
        for _ in range(3):
            assert httpx.get(f"{limited.url}/v1/rankers").status_code == 200
        many.enter_context(unread(limited, 60))
        assert httpx.get(f"{limited.url}/v1/rankers").status_code == 200


def test_who_gives_way_to_a_new_connection() -> None:
    """Those that read nothing, also if they began a moment ago, before a new one is refused."""
    limits = SimpleNamespace(max_connections=4)
    connections = Connections(lambda: limits, Metrics())  # type: ignore[arg-type, return-value]
    ended = []

    class Open:
        loop = SimpleNamespace(time=lambda: 10.0)

        def __init__(self, name: str) -> None:
            self.name = name
            assert connections.admit(self)  # type: ignore[arg-type]

        def end(self, why: str) -> None:
            ended.append(self.name)
            connections.discard(self)  # type: ignore[arg-type]

    now, idle, long_ago, owing = map(Open, ["stopped to read", "idle", "stopped long ago", "owing"])
    connections.unread |= {long_ago: (9.5, 1), now: (9.9, 1)}  # type: ignore[dict-item]
    connections.idle[idle] = None  # type: ignore[index]
    connections.owing[owing] = 12.0  # type: ignore[index]
    for _ in range(4):
        Open("works")
    assert ended == ["owing", "stopped long ago", "idle", "stopped to read"]
    with pytest.raises(AssertionError):
        Open("one too many")


def test_requests_without_end_in_advance_end_their_connection(limited: Running) -> None:
    with connect(limited) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request() * 3000)
        answer(connection)
    assert counted(limited, "pipelined") >= 1
    with connect(limited) as connection:
        connection.sendall(request() * 90 + request(more="Connection: close\r\n"))
        assert answer(connection).count(b"HTTP/1.1 200") == 91


def test_more_requests_than_allowed_are_asked_to_come_again(limited: Running) -> None:
    batch = [{"query": f"q{n}", "items": [f"{m}" for m in range(100)]} for n in range(400)]
    statuses: list[int] = []

    def send() -> None:
        reply = httpx.post(f"{limited.url}/v1/rankers/default/rank", json=batch, timeout=120)
        statuses.append(reply.status_code)
        if reply.status_code == 503:
            assert reply.headers["retry-after"] == "1"
            assert "max_requests" in reply.json()["detail"]

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert httpx.get(f"{limited.url}/healthz", timeout=60).status_code == 200  # health checks are answered
    assert set(statuses) == {200, 503}
    assert httpx.post(f"{limited.url}/v1/rankers/default/rank", json=batch[0]).status_code == 200


def test_the_limit_of_files_is_raised(tmp_path: Path) -> None:
    """To the number of connections; the tests' own limit is higher, so only the function is tested."""
    import resource

    from driftrank.serve.http.listener import allow_files

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        allow_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == (300 if hard < 0 else min(300, hard))
        allow_files(10)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
