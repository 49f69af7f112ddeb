"""Measure what open live pages cost: latencies of rankings at half of the highest rate, beside them and without.

    python benchmarks/page.py [--pages 50] [--rankers 1] [--rounds 6] [--seconds 5] [--folder /dev/shm]

Both ways are measured in turn on one service; the median of the ratios counts. A tenth of the pages are of different
queries, the rest of the overview and of a ranker; the overview has all rankers. The CPU of the pages is that of the
service with them less that without, and what they take when nothing else happens. Client and server share the machine;
with a folder in memory a busy disk is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.service import QUERIES, at_a_rate, cpu, free_port, maximal_rate, pairs, run, server, serving  # noqa: E402

_CONNECTIONS = 32
#: seconds in which pages are open before the load
_BEFORE = 2.0


def views(pages: int) -> Iterator[str]:
    """The addresses of the updates of so many pages."""
    for n in range(pages):
        if n % 10 == 9:
            yield f"view=query&ranker=default&query=query%20{n * 7 % QUERIES}"
        else:
            yield "view=overview" if n % 2 else "view=ranker&ranker=default"


async def look(port: int, view: str, received: list[int]) -> None:
    """Read the updates of a page until cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /page/stream?{view} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    try:
        status = await reader.readline()
        if not status.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"updates of {view}: {status.decode().strip()}")
        while piece := await reader.read(1 << 16):
            received[0] += len(piece)
    finally:
        writer.close()


async def measured(port: int, seconds: float, rate: float, requests: Any, pages: int) -> tuple[list[float], int]:
    """Latencies of rankings beside open pages, and the bytes that these have got."""
    received = [0]
    looking = [asyncio.create_task(look(port, view, received)) for view in views(pages)]
    await asyncio.sleep(_BEFORE)
    took, _ = await at_a_rate(port, 4 * _CONNECTIONS, seconds, rate, requests)
    await closed(looking)
    return took, received[0]


async def closed(looking: list[asyncio.Task[None]]) -> None:
    """Close the pages; they must have been open until now."""
    for task in looking:
        if task.done():
            raise task.exception() or SystemExit("updates ended before the measurement")
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*looking)


async def idle(port: int, seconds: float, pages: int) -> None:
    """Open pages, and nothing else."""
    looking = [asyncio.create_task(look(port, view, [0])) for view in views(pages)]
    await asyncio.sleep(seconds)
    await closed(looking)


async def make_rankers(port: int, n: int) -> None:
    """Rankers besides the default one, each with a list and a click."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1/rankers", timeout=60) as http:
        for number in range(n - 1):
            name = f"other{number}"
            (await http.put(name, json={"policy": "CascadeUCB1", "k": 3, "holdout": 0.1})).raise_for_status()
            ranking = await http.post(f"{name}/rank", json={"query": "q", "items": ["a", "b"]})
            feedback = {"event_id": ranking.raise_for_status().json()["event_id"], "clicks": [1]}
            (await http.post(f"{name}/feedback", json=feedback)).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--rankers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--folder", type=Path, help="for the store; by default a temporary folder")
    options = parser.parse_args()
    port = free_port()
    found: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        server(serving(port, Path(folder)), port) as process,
    ):
        run(make_rankers, port, options.rankers)
        most = run(maximal_rate, port, _CONNECTIONS, options.seconds, pairs("warm", 10))
        for number in range(options.rounds):
            both: dict[int, float] = {}
            busy: dict[int, float] = {}
            for pages in (0, options.pages) if number % 2 else (options.pages, 0):
                before = cpu(process.pid)
                requests = pairs(f"r{number}-{pages}", 10)
                took, received = run(measured, port, options.seconds, most / 2, requests, pages)
                both[pages] = took[int(len(took) * 0.99)]
                busy[pages] = (cpu(process.pid) - before) / (options.seconds + _BEFORE)
                sent = received / 1e3 / (options.seconds + _BEFORE)
                which = f"with {pages} pages"
                for name, value in (
                    ("p50 ms", 1e3 * took[len(took) // 2]), ("p99 ms", 1e3 * both[pages]),
                    ("CPU", busy[pages]), ("kB/s sent", sent),
                ):  # fmt: skip
                    found.setdefault(f"{which}: {name}", []).append(value)
            found.setdefault("p99, ratio", []).append(both[options.pages] / both[0])
            found.setdefault("CPU of the pages", []).append(busy[options.pages] - busy[0])
        for pages in (0, options.pages):
            before = cpu(process.pid)
            run(idle, port, 2 * options.seconds, pages)
            found[f"idle with {pages} pages: CPU"] = [(cpu(process.pid) - before) / (2 * options.seconds)]
    table = {name: float(f"{statistics.median(values):.3g}") for name, values in sorted(found.items())}
    print(
        json.dumps(
            {"requests/s": round(most / 2), "rounds": options.rounds, "rankers": options.rankers, **table}, indent=1
        )
    )


if __name__ == "__main__":
    main()
