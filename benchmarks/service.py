"""Measure the ranking service: under load, with many queries, and at a start from a long log. Client and server share
the machine.

    python benchmarks/service.py load [--rounds 5] [--seconds 5] [--connections 32] [--candidates 10] [--policy NAME]
                                      [--against CHECKOUT]
    python benchmarks/service.py queries [--queries 1000000]
    python benchmarks/service.py start [--events 10000000]

``load``: rank requests and durable feedback, half and half, in turn to a service of each policy and to an echo route of
the same stack (Starlette on uvicorn); the medians of the ratios; then latencies at half of the rate. ``--against``:
another checkout of the project, with a .venv of its own, whose service is measured in turn with this one. ``queries``:
one rank request for every query, with ten items; the memory of the server. ``start``: a service writes a log and is
started again; the time that takes. The last two need disk space (6 GB for the defaults) under ``--folder``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

ITEMS = [f"item-{n}" for n in range(10)]
QUERIES = 1000
ECHO = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def echo(request):
    return Response(await request.body(), media_type="application/json")
app = Starlette(routes=[Route("/v1/rankers/{ranker}/{what}", echo, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", loop="uvloop", log_level="warning", access_log=False)
"""


# -- servers ---------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def server(
    command: list[str], port: int, limit: float = 120, checkout: Path = ROOT
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens on a port; ready when it answers a request."""
    process = subprocess.Popen(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)})
    try:
        until = time.monotonic() + limit
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{' '.join(command[:4])}: did not start")
            time.sleep(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return s.recv(100).split()[1] in (b"200", b"404")
    except (OSError, IndexError):
        return False


def serving(port: int, folder: Path, *more: str, python: Path | str = sys.executable) -> list[str]:
    command = [str(python), "-m", "driftrank", "serve", "--port", str(port), "--log-level", "warning"]
    return [*command, "--store", f"sqlite:///{folder / 'bench.db'}", *more]


def memory(pid: int) -> tuple[int, int]:
    """The resident memory in bytes, now and at its peak."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return found["VmRSS"], found["VmHWM"]


def cpu(pid: int) -> float:
    """The CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- a client that needs little CPU -------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One request at a time over one connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.index(b"content-length: ") + 16
        length = int(self._buffer[at : self._buffer.index(b"\r", at)])
        if len(self._buffer) >= head + 4 + length and self._answer is not None:
            whole, self._buffer = self._buffer, b""
            self._answer.set_result(whole)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("closed"))

    async def ask(self, request: bytes) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        answer = await self._answer
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer.decode())
        return answer


def post(what: str, body: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    text = json.dumps(body).encode()
    return (
        b"POST /v1/rankers/default/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % what.encode()
        + (b"Content-Length: %d\r\n\r\n" % len(text) + text)
    )


_EVENT = "EVENT-ID------------"
#: encoded once, so that encoding is not measured
_FEEDBACK = [post("feedback", {"event_id": _EVENT, "clicks": c}) for c in ([1], [2], [], [4], [], [])]


@cache
def rank_requests(candidates: int) -> list[bytes]:
    items = [f"item-{n}" for n in range(candidates)]
    return [post("rank", {"query": f"query {n}", "items": items, "event_id": _EVENT}) for n in range(QUERIES)]


def pairs(run: str, candidates: int) -> Iterator[tuple[bytes, bytes]]:
    """Endless pairs of a rank request and its feedback."""
    n, place, requests = 0, _EVENT.encode(), rank_requests(candidates)
    while True:
        n += 1
        event = f"{run}-{n:x}".ljust(20, "-")[:20].encode()
        yield requests[n * 7919 % QUERIES].replace(place, event), _FEEDBACK[n % 6].replace(place, event)


async def connected(port: int, n: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(n)]


async def maximal_rate(port: int, connections: int, seconds: float, requests: Iterator[tuple[bytes, bytes]]) -> float:
    """Requests per second, one at a time on each connection."""
    done = 0
    until = time.perf_counter() + seconds

    async def play(connection: Connection) -> None:
        nonlocal done
        while time.perf_counter() < until:
            for request in next(requests):
                await connection.ask(request)
                done += 1

    began = time.perf_counter()
    await asyncio.gather(*map(play, await connected(port, connections)))
    return done / (time.perf_counter() - began)


async def at_a_rate(
    port: int, connections: int, seconds: float, rate: float, requests: Iterator[tuple[bytes, bytes]]
) -> tuple[list[float], list[float]]:
    """Latencies in seconds of rankings and of feedback, sorted, at a given rate of requests, which does not depend on
    the answers (open loop).
    """
    took: tuple[list[float], list[float]] = [], []
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in await connected(port, connections):
        free.put_nowait(connection)

    async def play(due: float) -> None:
        connection = await free.get()
        for request, of_kind in zip(next(requests), took, strict=True):
            await connection.ask(request)
            of_kind.append(time.perf_counter() - due)
            due = time.perf_counter()
        free.put_nowait(connection)

    began, sent, tasks = time.perf_counter(), 0, set()
    while (now := time.perf_counter()) < began + seconds:
        while began + sent / (rate / 2) <= now:
            task = asyncio.create_task(play(began + sent / (rate / 2)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.0005)
    await asyncio.gather(*tasks)
    return sorted(took[0]), sorted(took[1])


def run(work: Callable[..., Any], *args: Any) -> Any:
    import uvloop

    gc.disable()  # pauses of the client (30 ms, twice a second) must not be measured
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work(*args))


# -- the measurements ------------------------------------------------------------------------------------------------


def load(
    folder: Path,
    rounds: int,
    seconds: float,
    connections: int,
    candidates: int,
    policies: list[str],
    against: Path | None,
) -> dict[str, Any]:
    with ExitStack() as servers:
        echo = free_port()
        ways = {"echo": (echo, servers.enter_context(server([sys.executable, "-c", ECHO, str(echo)], echo)).pid)}
        for policy in policies or ["default"]:
            within = folder / f"{len(ways)}"
            within.mkdir()
            config, port = within / "bench.toml", free_port()
            config.write_text(f'[rankers.default]\npolicy = "{policy}"\n' if policies else "")
            command = serving(port, within, "--config", str(config))
            ways[policy] = port, servers.enter_context(server(command, port)).pid
        if against is not None:
            within, port = folder / "against", free_port()
            within.mkdir()
            command = serving(port, within, python=against.resolve() / ".venv/bin/python")
            ways[str(against)] = port, servers.enter_context(server(command, port, checkout=against)).pid
        rates: dict[str, list[float]] = {way: [] for way in ways}
        costs: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(-1, rounds):
            for way, (port, pid) in ways.items() if number % 2 else reversed(ways.items()):
                before, long = cpu(pid), seconds if number >= 0 else 1.0
                rate = run(maximal_rate, port, connections, long, pairs(f"r{number + 1}", candidates))
                if number >= 0:
                    rates[way].append(rate)
                    costs[way].append((cpu(pid) - before) / (rate * long) * 1e6)
        found = {way: {"requests/s": rates[way], "us of CPU a request": costs[way]} for way in ways}
        for way in [way for way in ways if way != "echo"]:
            for other in list(ways)[: list(ways).index(way)]:
                ratios = [b / a for a, b in zip(rates[other], rates[way], strict=True)]
                found[way][f"requests/s, to those of {other}"] = ratios
        for way, (port, _) in list(ways.items())[1:]:
            rate = statistics.median(rates[way]) / 2
            both = run(at_a_rate, port, 4 * connections, 2 * seconds, rate, pairs("half", candidates))
            took = sorted([*both[0], *both[1]])
            found[way]["at requests/s"] = [len(took) / (2 * seconds)]
            for part in (50, 99, 99.9):
                found[way][f"p{part} ms"] = [took[int(len(took) * part / 100)] * 1e3]
    medians = {way: {what: statistics.median(of) for what, of in all_.items()} for way, all_ in found.items()}
    return {way: {what: float(f"{value:.4g}") for what, value in of.items()} for way, of in medians.items()}


def queries(folder: Path, many: int, connections: int = 16, batch: int = 100) -> dict[str, Any]:
    port = free_port()
    with server(serving(port, folder), port) as process:

        async def send_all() -> None:
            starts = iter(range(0, many, batch))

            async def play(connection: Connection) -> None:
                for start in starts:
                    numbers = range(start, min(start + batch, many))
                    await connection.ask(
                        post("rank", [{"query": f"query {n}", "items": ITEMS, "event_id": f"e{n}"} for n in numbers])
                    )
                    clicked = [{"event_id": f"e{n}", "clicks": [1 + n % 10]} for n in numbers if n % 2]
                    await connection.ask(post("feedback", clicked))

            await asyncio.gather(*map(play, await connected(port, connections)))

        began = time.perf_counter()
        run(send_all)
        took = time.perf_counter() - began
        now, most = memory(process.pid)
    return {
        "queries": many, "seconds": round(took), "lists/s": round(many / took), "memory MB": round(now / 1e6),
        "most MB": round(most / 1e6), "store MB": round((folder / "bench.db").stat().st_size / 1e6),
    }  # fmt: skip


def start(folder: Path, events: int, connections: int = 16, batch: int = 200) -> dict[str, Any]:
    port = free_port()
    command = serving(port, folder)
    with server(command, port) as process:

        async def send_all() -> None:
            starts = iter(range(0, events // 2, batch))

            async def play(connection: Connection) -> None:
                for start in starts:
                    numbers = range(start, min(start + batch, events // 2))
                    rankings = [{"query": f"query {n % QUERIES}", "items": ITEMS, "event_id": f"e{n}"} for n in numbers]
                    await connection.ask(post("rank", rankings))
                    feedbacks = [{"event_id": f"e{n}", "clicks": [1 + n % 10] if n % 3 else []} for n in numbers]
                    await connection.ask(post("feedback", feedbacks))

            await asyncio.gather(*map(play, await connected(port, connections)))

        began = time.perf_counter()
        run(send_all)
        wrote = time.perf_counter() - began
        process.send_signal(signal.SIGKILL)  # records after the last checkpoint are replayed
        process.wait()
    began = time.perf_counter()
    with server(command, port):
        again = time.perf_counter() - began
    began = time.perf_counter()
    with server(command, port):
        after_stop = time.perf_counter() - began
    return {
        "events": events, "written in s": round(wrote), "store MB": round((folder / "bench.db").stat().st_size / 1e6),
        "start after kill -9, s": round(again, 2), "start after a stop, s": round(after_stop, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("load", "queries", "start"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--policy", action="append", default=[], help="may be repeated: they are measured in turn")
    parser.add_argument("--against", type=Path, help="another checkout, with a .venv, measured in turn")
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="for the store; by default a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "load":
            found = load(Path(folder), options.rounds, options.seconds, options.connections,
                         options.candidates, options.policy, options.against)  # fmt: skip
        elif options.what == "queries":
            found = queries(Path(folder), options.queries)
        else:
            found = start(Path(folder), options.events)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
