"""Measure the ranking service: under load, with many queries, and at a start from a long log. Client and server share
the machine.

    python benchmarks/service.py load [--rounds 5] [--seconds 5] [--repeat 1] [--trace] [--connections 32]
                                      [--candidates 10] [--policy NAME] [--against CHECKOUT] [--server granian]
    python benchmarks/service.py queries [--queries 1000000]
    python benchmarks/service.py start [--events 10000000]

``load``: rank requests and durable feedback, half and half, in turn to a service of each policy and to an echo route of
the same stack (Starlette on uvicorn); the medians of the ratios. Then latencies at half of the rate, each service alone
and started again, ``--repeat`` times, with a checkpoint in each. ``--against``: another checkout of the project, with a
.venv of its own, whose service is measured in turn with this one; may be repeated. ``--trace``: the services run under
``benchmarks/tracing.py`` during the second part, which says what slow moments are made of, and where the CPU of a
request goes. ``--server granian``: the same application, and the echo route, on granian, too, if it is installed.
``queries``:
one rank request for every query, with ten items; the memory of the server. ``start``: a service writes a log and is
started again; the time that takes. The last two need disk space (6 GB for the defaults) under ``--folder``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

ITEMS = [f"item-{n}" for n in range(10)]
QUERIES = 1000
ECHO = """
import sys, uvicorn
from benchmarks.service import echo_app
uvicorn.run(echo_app(), port=int(sys.argv[1]), http="httptools", loop="uvloop", log_level="warning", access_log=False)
"""


# -- servers ---------------------------------------------------------------------------------------------------------


def echo_app() -> Any:
    """A route that answers with the body of the request."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    return Starlette(routes=[Route("/v1/rankers/{ranker}/{what}", echo, methods=["POST"])])


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def server(
    command: list[str], port: int, limit: float = 120, checkout: Path = ROOT, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens on a port; ready when it answers a request."""
    outside = {**os.environ, "PYTHONPATH": str(checkout), **variables}
    process = subprocess.Popen(command, cwd=checkout, env=outside)
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


class Way(NamedTuple):
    """A server to be measured."""

    command: list[str]
    port: int
    checkout: Path = ROOT
    driftrank: bool = True  #: False: an echo route

    def start(self, *, trace: Path | None = None, **variables: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        command = self.command
        if trace is not None:  # instead of python -m driftrank
            command = [command[0], str(ROOT / "benchmarks/tracing.py"), str(trace), *command[3:]]
        return server(command, self.port, checkout=self.checkout, **variables)


def ways_of(folder: Path, policies: list[str], checkouts: list[Path], granian: bool) -> dict[str, Way]:
    """The servers, each with a folder of its own."""
    port = free_port()
    ways = {"echo": Way([sys.executable, "-c", ECHO, str(port)], port, driftrank=False)}
    for policy in policies or ["default"]:
        within, port = folder / f"{len(ways)}", free_port()
        within.mkdir()
        config = within / "bench.toml"
        config.write_text(f'[rankers.default]\npolicy = "{policy}"\n' if policies else "")
        ways[policy] = Way(serving(port, within, "--config", str(config)), port)
        if granian:
            on_granian = [sys.executable, str(ROOT / "benchmarks/granian_server.py")]
            port = free_port()
            store = ["--store", f"sqlite:///{within / 'granian.db'}", "--config", str(config)]
            ways[f"{policy} on granian"] = Way([*on_granian, str(port), *store], port)
            port = free_port()
            ways["echo on granian"] = Way([*on_granian, str(port)], port, driftrank=False)
    for checkout in checkouts:
        within, port = folder / f"{len(ways)}", free_port()
        within.mkdir()
        command = serving(port, within, python=checkout.resolve() / ".venv/bin/python")
        ways[str(checkout)] = Way(command, port, checkout.resolve())
    return ways


def load(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    ways = ways_of(folder, options.policy, options.against, options.server == "granian")
    rates: dict[str, list[float]] = {way: [] for way in ways}
    costs: dict[str, list[float]] = {way: [] for way in ways}
    with ExitStack() as servers:
        pids = {way: servers.enter_context(its.start()).pid for way, its in ways.items()}
        for number in range(-1, options.rounds):
            for way in ways if number % 2 else reversed(ways):
                before, long = cpu(pids[way]), options.seconds if number >= 0 else 1.0
                requests = pairs(f"r{number + 1}", options.candidates)
                rate = run(maximal_rate, ways[way].port, options.connections, long, requests)
                if number >= 0:
                    rates[way].append(rate)
                    costs[way].append((cpu(pids[way]) - before) / (rate * long) * 1e6)
    found: dict[str, Any] = {}
    for number, (way, its) in enumerate(ways.items()):
        found[way] = {
            "requests/s": rounded(statistics.median(rates[way])),
            "us of CPU a request": rounded(statistics.median(costs[way])),
        }
        for other in [*ways][:number]:
            ratios = [b / a for a, b in zip(rates[other], rates[way], strict=True)]
            found[way][f"requests/s, to those of {other}"] = rounded(statistics.median(ratios))
        if its.driftrank:
            found[way] |= latencies(its, statistics.median(rates[way]) / 2, folder / f"{number}.trace", options)
    return found


def latencies(way: Way, rate: float, trace: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Latencies at a rate, each time with a checkpoint; with ``--trace`` also the parts of the CPU of a request."""
    seconds, found = 2 * options.seconds, {"at requests/s": rounded(rate)}
    measured: dict[str, list[float]] = {f"p{part} ms": [] for part in (50, 99, 99.9)} | {"checkpoints": []}
    slow: list[dict[str, Any]] = []
    # only driftrank's own server has a trace
    traced = trace if options.trace and way.command[1:3] == ["-m", "driftrank"] else None
    with way.start(trace=traced, DRIFTRANK_CHECKPOINT_SECONDS=f"{seconds / 2:g}") as process:
        run(at_a_rate, way.port, 4 * options.connections, 1.0, rate, pairs("warm", options.candidates))
        for number in range(options.repeat):
            reported(process, traced)
            before = checkpoints(way.port)
            requests = pairs(f"half{number}", options.candidates)
            both = run(at_a_rate, way.port, 4 * options.connections, seconds, rate, requests)
            took = sorted([*both[0], *both[1]])
            for part in (50, 99, 99.9):
                measured[f"p{part} ms"].append(rounded(took[int(len(took) * part / 100)] * 1e3))
            measured["checkpoints"].append(checkpoints(way.port) - before)
            slow += reported(process, traced).get("slow", [])
    found |= measured
    if traced is not None:
        found["slow moments"] = summary_of(slow)
        found["us of CPU a request, traced"] = parts(way, traced, options)
    return found


def parts(way: Way, trace: Path, options: argparse.Namespace) -> dict[str, float]:
    """The CPU of a request at the highest rate, in microseconds, by part of the program."""
    with way.start(trace=trace) as process:
        run(maximal_rate, way.port, options.connections, 1.0, pairs("before", options.candidates))
        reported(process, trace)
        began, requests = time.perf_counter(), pairs("parts", options.candidates)
        rate = run(maximal_rate, way.port, options.connections, 2 * options.seconds, requests)
        many = rate * (time.perf_counter() - began)
        report = reported(process, trace)
    costs = report["parts"] | {"other threads": report["other threads"]}
    in_order = sorted(costs.items(), key=lambda pair: -pair[1])
    return {part: rounded(cost / many * 1e6) for part, cost in [*in_order, ("all", sum(costs.values()))]}


def checkpoints(port: int) -> int:
    """The checkpoints that a service has taken."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: s.recv(65536), b""))
    found = re.search(rb"^driftrank_checkpoint_duration_seconds_count(?:{})? ([\d.]+)", answer, re.MULTILINE)
    return int(float(found[1])) if found else 0


def reported(process: subprocess.Popen[bytes], trace: Path | None) -> dict[str, Any]:
    """The report of a trace since the last one; empty without a trace."""
    if trace is None:
        return {}
    before = trace.stat().st_size if trace.exists() else 0
    process.send_signal(signal.SIGUSR2)
    until = time.monotonic() + 10
    while not (text := trace.read_text()[before:] if trace.exists() else "").endswith("\n"):
        if time.monotonic() > until:
            raise SystemExit("the trace does not answer")
        time.sleep(0.01)
    report: dict[str, Any] = json.loads(text)
    return report


def summary_of(slow: list[dict[str, Any]]) -> list[str]:
    """Slow moments by what ran, those that took longest in all first."""
    by: dict[str, list[float]] = {}
    for moment in slow:
        by.setdefault(moment["what"], []).append(moment["ms"])
    in_order = sorted(by.items(), key=lambda pair: -sum(pair[1]))
    return [f"{what}: {len(ms)} times, {sum(ms):.0f} ms, at most {max(ms):.1f}" for what, ms in in_order[:12]]


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


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
    parser.add_argument("--against", type=Path, action="append", default=[], help="a checkout with a .venv, in turn")
    parser.add_argument("--repeat", type=int, default=1, help="measurements of latency, each with a checkpoint")
    parser.add_argument("--trace", action="store_true", help="say what is slow, and where the CPU of a request goes")
    parser.add_argument("--server", choices=("uvicorn", "granian"), default="uvicorn", help="granian: in turn with it")
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="for the store; by default a temporary folder")
    options = parser.parse_args()
    if options.server == "granian" and find_spec("granian") is None:
        raise SystemExit("--server granian: granian is not installed (pip install granian)")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "load":
            found = load(Path(folder), options)
        elif options.what == "queries":
            found = queries(Path(folder), options.queries)
        else:
            found = start(Path(folder), options.events)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
