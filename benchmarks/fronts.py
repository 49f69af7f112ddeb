"""Measure what front processes would save the one process that writes to SQLite. Client and server share the machine.

    python benchmarks/fronts.py [--rounds 5] [--seconds 3] [--connections 32] [--fronts 1 2]

The service as it is, in turn with two prototypes, in which fronts accept connections, with the limits of the service,
and share a Unix socket to the writer; what comes in one iteration of the event loop is sent together. ``whole``: fronts
parse HTTP, the writer runs the application. ``decoded``: fronts run the application for rank requests and feedback, the
writer is called with decoded requests. Both have only what is measured: no way for other routes, no keys or rates, no
client that goes, no process that ends. ``one process, arrays``: the service as it is, with ten rank requests or
feedbacks in an array, counted as ten. CPU of the writer and of all fronts for a request, medians; the requests a second
of a writer with a core of its own and enough fronts are computed from it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import uvicorn  # noqa: E402
import uvloop  # noqa: E402
from msgspec import Struct  # noqa: E402
from msgspec.msgpack import Decoder, Encoder  # noqa: E402

from benchmarks.service import ITEMS, QUERIES, cpu, free_port, maximal_rate, pairs, post, run, server, serving  # noqa: E402
from driftrank.serve.app import build  # noqa: E402
from driftrank.serve.http.connection import Connection, Connections  # noqa: E402
from driftrank.serve.http.listener import open_listener  # noqa: E402
from driftrank.serve.http.routes import feedback, rank  # noqa: E402
from driftrank.serve.log.store.base import open_store  # noqa: E402
from driftrank.serve.monitoring.metrics import Metrics  # noqa: E402
from driftrank.serve.service import Service  # noqa: E402
from driftrank.serve.settings.server import ServerSettings  # noqa: E402
from driftrank.wire import Feedback, FeedbackResult, RankRequest, RankResponse  # noqa: E402

WAYS = ("whole", "decoded")
ARRAYS = "one process, arrays"
SIZE = 10  #: of an array


class Message(Struct, array_like=True, kw_only=True, gc=False):
    """A question, or the answer to the one with its number."""

    number: int = 0


class Whole(Message, tag="whole", kw_only=True):
    """A request, not decoded."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Rank(Message, tag="rank", kw_only=True):
    """Rank requests."""

    ranker: str
    requests: list[RankRequest]
    lenient: bool


class Give(Message, tag="give", kw_only=True):
    """Feedbacks."""

    ranker: str
    feedbacks: list[Feedback]


class Answer(Message, tag="answer", kw_only=True):
    """The answer to a request, encoded."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Lists(Message, tag="lists", kw_only=True):
    """The answer to rank requests."""

    lists: list[RankResponse]


class Results(Message, tag="results", kw_only=True):
    """The answer to feedbacks."""

    results: list[FeedbackResult]


class Channel(asyncio.Protocol):
    """One end of the socket. ``answer`` makes the answer to a question; without it, it is the end that asks."""

    _decoder = Decoder(list[Whole | Rank | Give | Answer | Lists | Results])
    _encoder = Encoder()

    def __init__(self, answer: Callable[[Any], Coroutine[Any, Any, Message]] | None = None) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._out: list[Message] = []
        self._in = b""
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, question: Message) -> asyncio.Future[Any]:
        question.number = next(self._numbers)
        future = self._asked[question.number] = self._loop.create_future()
        self._put(question)
        return future

    def _put(self, message: Message) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        out, self._out = self._encoder.encode(self._out), []
        self._transport.write(len(out).to_bytes(4, "big") + out)

    def data_received(self, data: bytes) -> None:
        data = self._in + data
        while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
            for message in self._decoder.decode(data[4:end]):
                if self._answer is None:
                    self._asked.pop(message.number).set_result(message)
                else:
                    task = self._loop.create_task(self._reply(self._answer, message))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            data = data[end:]
        self._in = data

    async def _reply(self, answer: Callable[[Any], Coroutine[Any, Any, Message]], question: Message) -> None:
        message = await answer(question)
        message.number = question.number
        self._put(message)


# -- the writer --------------------------------------------------------------------------------------------------------


async def call_application(app: Any, question: Whole) -> Answer:
    """Call the application as a server does."""
    body: dict[str, Any] | None = {"type": "http.request", "body": question.body, "more_body": False}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal body
        if body is None:  # until the client goes
            await asyncio.get_running_loop().create_future()
        message, body = body, None
        assert message is not None
        return message

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "server": None, "client": None,
        "scheme": "http", "root_path": "", "method": question.method, "path": question.path,
        "raw_path": question.path.encode(), "query_string": b"", "headers": question.headers, "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return Answer(status=sent[0]["status"], headers=sent[0]["headers"], body=sent[1]["body"])


async def call_service(service: Service, question: Rank | Give) -> Message:
    if isinstance(question, Give):
        return Results(results=await service.feedback(question.ranker, question.feedbacks))
    lists = await service.rank(question.ranker, question.requests, lenient=question.lenient)
    service.answered(question.ranker, lists, delivered=True)
    return Lists(lists=lists)


async def be_writer(way: str, settings: ServerSettings, path: Path) -> None:
    service = Service(open_store(settings.store, durability=settings.durability), settings)
    await service.start()
    call: Any = (call_application, build(service)) if way == "whole" else (call_service, service)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    gc.freeze()
    await loop.create_unix_server(lambda: Channel(functools.partial(*call)), str(path))
    await stop.wait()
    await service.stop()


# -- fronts ------------------------------------------------------------------------------------------------------------


class Forwarding:
    """An application that passes requests on."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        question = Whole(method=scope["method"], path=scope["path"], headers=scope["headers"], body=message["body"])
        answer = await self._channel.ask(question)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})


class Remote:
    """The part of a service that the application uses for rank requests and feedback."""

    position, draining = None, False

    def __init__(self, settings: ServerSettings, metrics: Metrics, channel: Channel) -> None:
        self.settings, self.metrics, self._channel = settings, metrics, channel

    def ranker_settings(self) -> dict[str, Any]:
        return {}

    async def rank(self, ranker: str, requests: list[RankRequest], *, lenient: bool) -> list[RankResponse]:
        lists: list[RankResponse] = (
            await self._channel.ask(Rank(ranker=ranker, requests=requests, lenient=lenient))
        ).lists
        return lists

    def answered(self, ranker: str, lists: list[RankResponse], *, delivered: bool) -> None:
        """Nothing: the writer takes it as delivered."""

    async def feedback(self, ranker: str, feedbacks: list[Feedback]) -> list[FeedbackResult]:
        results: list[FeedbackResult] = (await self._channel.ask(Give(ranker=ranker, feedbacks=feedbacks))).results
        return results


async def be_front(way: str, settings: ServerSettings, listener: Any, path: Path) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            _, channel = await loop.create_unix_connection(Channel, str(path))
            break
        except OSError:
            await asyncio.sleep(0.1)
    connections = Connections(lambda: settings, Metrics())
    remote: Any = Remote(settings, connections.metrics, channel)
    config = uvicorn.Config(
        Forwarding(channel) if way == "whole" else build(remote, operations=[*rank.ROUTES, *feedback.ROUTES]),
        http=functools.partial(Connection, connections=connections),  # type: ignore[arg-type]
        log_config=None, access_log=False, lifespan="off", server_header=False, ws="none", proxy_headers=False,
    )  # fmt: skip
    sweeping = asyncio.create_task(connections.sweep())
    await uvicorn.Server(config).serve([listener])
    sweeping.cancel()


def be_service(way: str, port: int, folder: Path, fronts: int) -> None:
    """Serve until SIGTERM: the writer is this process, the fronts are its children."""
    settings = ServerSettings(port=port, store=f"sqlite:///{folder / 'bench.db'}")
    listener = open_listener(settings)
    sys.setswitchinterval(0.0001)  # as the service does
    gc.set_threshold(10_000, 1, 1_000)
    children = []
    for _ in range(fronts):
        child = os.fork()
        if child == 0:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(be_front(way, settings, listener, folder / "socket"))
            os._exit(0)
        children.append(child)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(be_writer(way, settings, folder / "socket"))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


# -- the measurement ---------------------------------------------------------------------------------------------------


def arrays(name: str) -> Iterator[tuple[bytes, bytes]]:
    """Endless pairs of an array of rank requests and one of their feedbacks."""
    for first in itertools.count(0, SIZE):
        events = [f"{name}-{n:x}" for n in range(first, first + SIZE)]
        asked = [
            {"query": f"query {n * 7919 % QUERIES}", "items": ITEMS, "event_id": event}
            for n, event in enumerate(events, first)
        ]
        clicks: tuple[list[int], ...] = ([1], [2], [], [4], [], [])
        given = [{"event_id": event, "clicks": clicks[n % 6]} for n, event in enumerate(events, first)]
        yield post("rank", asked), post("feedback", given)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def measure(folder: Path, rounds: int, seconds: float, connections: int, fronts: list[int]) -> list[dict[str, Any]]:
    setups = [("one process", 0), (ARRAYS, 0), *((way, n) for way in WAYS for n in fronts)]
    rows: dict[tuple[str, int], list[tuple[float, float, float]]] = {setup: [] for setup in setups}
    with ExitStack() as stack:
        ports = {}
        for way, n in setups:
            within, port = folder / f"{way}{n}", free_port()
            within.mkdir()
            command = [sys.executable, __file__, "--serve", way, str(port), str(within), str(n)]
            process = stack.enter_context(server(command if n else serving(port, within), port))
            ports[way, n] = port, process.pid
        for number in range(-1, rounds):
            for setup in setups if number % 2 else reversed(setups):
                port, pid = ports[setup]
                its = children(pid)
                writer, others, long = cpu(pid), sum(map(cpu, its)), seconds if number >= 0 else 1.0
                name = f"r{number + 1}"
                requests, size = (arrays(name), SIZE) if setup[0] == ARRAYS else (pairs(name, len(ITEMS)), 1)
                rate = size * run(maximal_rate, port, connections // size or 1, long, requests)
                if number >= 0:
                    us = 1e6 / (rate * long)
                    rows[setup].append((rate, (cpu(pid) - writer) * us, (sum(map(cpu, its)) - others) * us))
    ones = rows[setups[0]]
    out = []
    for (way, n), row in rows.items():
        rate, writer_us, fronts_us = (statistics.median(column) for column in zip(*row, strict=True))
        gain = statistics.median(one[1] / of[1] for one, of in zip(ones, row, strict=True))
        out.append({
            "way": way, "fronts": n, "requests/s": round(rate), "writer us": round(writer_us),
            "fronts us": round(fronts_us), "times the capacity of one process": round(gain, 2),
            "requests/s of a writer's core, computed": round(1e6 / writer_us, -2),
        })  # fmt: skip
    return out


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        way, port, folder, n = sys.argv[2:]
        be_service(way, int(port), Path(folder), int(n))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--fronts", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in measure(Path(folder), args.rounds, args.seconds, args.connections, args.fronts):
            print(json.dumps(row))


if __name__ == "__main__":
    main()
