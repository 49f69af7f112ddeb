"""Measure what others notice when clients attack the ranking service from the same machine, without a key.

    python benchmarks/hostile.py [--seconds 5] [--connections 2000] [--most 50]

In turn: nobody; headers that never end, on four connections that are opened again and again; half-sent requests, on as
many connections as given; long answers that nobody reads, on as many; requests without end that do not wait for
answers, on four; batches of 1,000 new queries with 150 items. Meanwhile one client ranks and another one asks /healthz,
each some hundred times a second: the median, 99% and longest of their times in milliseconds. The exit code is 1 if 99%
of any of them take more milliseconds than ``--most``, or if a new connection is refused at the end of an attack.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.serve.running import Running  # noqa: E402

HEAD = "POST /v1/rankers/default/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
Attack = Callable[[int], Awaitable[None]]


def post(body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"{HEAD}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def probe(port: int, request: bytes, times: list[float]) -> None:
    """Send a request again and again, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        await reader.readexactly(length)
        times.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(0.005)


async def endless_headers(port: int) -> None:
    async def one() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\nX-A: ")
                for _ in range(50):
                    writer.write(b"a" * 1_000_000)
                    await writer.drain()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(4)))


def half_sent(connections: int) -> Attack:
    async def attack(port: int) -> None:
        kept = []
        for n in range(connections):
            with suppress(OSError):
                kept.append(await asyncio.open_connection("127.0.0.1", port))
                kept[-1][1].write(b"GET /healthz HTTP/1.1\r\n")
            if n % 20 == 19:
                await asyncio.sleep(0.01)
        await asyncio.sleep(3600)

    return attack


def not_reading(connections: int) -> Attack:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50

    async def attack(port: int) -> None:
        kept = []
        for n in range(connections):
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(request)
                kept.append(writer)
            if n % 20 == 19:
                await asyncio.sleep(0.01)
        await asyncio.sleep(3600)

    return attack


async def pipelining(port: int) -> None:
    requests = b"GET /v1/rankers HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500

    async def one() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                for _ in range(50):
                    writer.write(requests)
                    await writer.drain()
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(4)))


async def batches(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    round_ = 0
    rows = [{"query": f"b-XXXX-{n}", "items": [f"{m}" for m in range(150)]} for n in range(1000)]
    template = post(rows)  # encoding would delay the probes
    while True:
        round_ += 1
        writer.write(template.replace(b"XXXX", b"%04d" % round_))
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))


async def nobody(port: int) -> None:
    await asyncio.sleep(3600)


async def accepted(port: int) -> bool:
    """True if a new client is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/rankers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return (await reader.read()).startswith(b"HTTP/1.1 200")


def run(attack: Attack, port: int) -> None:
    """In a process of its own: the probes would wait for it."""
    asyncio.events._set_running_loop(None)  # that of the probes, which this process has a copy of
    asyncio.new_event_loop().run_until_complete(attack(port))


async def measure(port: int, name: str, attack: Attack, seconds: float) -> float:
    """Print the times of others during an attack; return the longest that 99% of their requests took."""
    health: list[float] = []
    ranks: list[float] = []
    attacker = multiprocessing.get_context("fork").Process(target=run, args=(attack, port), daemon=True)
    attacker.start()
    tasks = [
        asyncio.create_task(probe(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", health)),
        asyncio.create_task(probe(port, post({"query": "q", "items": ["a", "b", "c"]}), ranks)),
    ]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    open_ = await accepted(port)
    attacker.kill()
    attacker.join()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
    most = 0.0 if open_ else float("inf")
    for what, times in (("/healthz", health), ("rank", ranks)):
        times = sorted(times) or [float("inf")]
        median, late, worst = times[len(times) // 2], times[int(0.99 * len(times))], times[-1]
        figures = f"median {median:6.1f}, 99% {late:6.1f}, longest {worst:6.1f} ms"
        print(f"{name:16} {what:9} {len(times):5} requests: {figures}{'' if open_ else '; others are refused'}")
        most = max(most, late)
    return most


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--most", type=float, default=50.0, metavar="MS", help="99%% of requests may take so long")
    options = parser.parse_args()
    attacks = {
        "nobody": nobody, "endless headers": endless_headers, "half-sent": half_sent(options.connections),
        "not reading": not_reading(options.connections), "pipelining": pipelining, "batches": batches,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder)) as server:
        late = {name: await measure(server.port, name, attack, options.seconds) for name, attack in attacks.items()}
    failed = [name for name, its in late.items() if its > options.most]
    print(f"more than {options.most:g} ms: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
