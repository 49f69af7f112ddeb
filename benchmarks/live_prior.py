"""Send realistic traffic to a service, and compare its rankings with the caller's own order from the first one on.

    python benchmarks/live_prior.py [--lists 15000] [--rate 120] [--policy PriorRegimeTS] [--holdout 0.1] [--seed 0]
        [--noise 18] [--json FILE]

A real ``driftrank serve`` in a folder of its own. 2,000 queries, Zipf; 200 candidates each, in the caller's order: that
of their true attractions plus noise on the ranks. K = 10. Users click at most once, and go on after an item without a
click with probability 0.85. Clicks come two seconds late on average, those of a fifth of the rankings never, a tenth
twice; after six seconds silence counts as no click. Every fifty rankings of a query four of its items are replaced.

Values are expected clicks of the rankings shown, so users' chance is not in them: of live rankings, of the caller's
order for the same requests, and of the holdout, by windows of 500 live rankings. +- is the standard error of the paired
difference. Attractions, queries and users follow from ``--seed``; the order of feedback depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from driftrank.client import AsyncClient  # noqa: E402

QUERIES, CANDIDATES, K, GO_ON = 2000, 200, 10, 0.85
DELAY, WAIT, LOST, TWICE = 2.0, 6.0, 0.2, 0.1
WINDOW = 500


class World:
    """A query: its items with their attractions, in the caller's order."""

    def __init__(self, number: int, noise: float, seed: int) -> None:
        self._random = np.random.default_rng([seed, number])
        self._number, self._made, self._lists = number, CANDIDATES, 0
        self.attraction = {f"p{number}-{i}": _attraction(i) for i in range(CANDIDATES)}
        order = np.argsort(np.arange(CANDIDATES) + self._random.normal(0, noise, CANDIDATES) if noise < math.inf
                           else self._random.random(CANDIDATES))  # fmt: skip
        self.items = [f"p{number}-{i}" for i in order]

    def request(self) -> list[str]:
        """The candidates of the next ranking; now and then some are new."""
        self._lists += 1
        if self._lists % 50 == 0:
            for _ in range(4):
                gone = self.items.pop(int(self._random.integers(20, len(self.items))))
                del self.attraction[gone]
                new = f"p{self._number}-{self._made}"
                self._made += 1
                self.attraction[new] = _attraction(int(self._random.integers(CANDIDATES)))
                self.items.insert(int(self._random.integers(len(self.items))), new)
        return list(self.items)

    def value(self, shown: Sequence[str]) -> float:
        """The expected clicks of a ranking."""
        value, arrives = 0.0, 1.0
        for item in shown:
            a = self.attraction.get(item, 0.01)
            value += arrives * a
            arrives *= (1.0 - a) * GO_ON
        return value

    def click(self, shown: Sequence[str], users: random.Random) -> list[str]:
        for item in shown:
            if users.random() < self.attraction.get(item, 0.01):
                return [item]
            if users.random() >= GO_ON:
                break
        return []


def _attraction(rank: int) -> float:
    return 0.3 * math.exp(-rank / 12) + 0.01


class Ranking(NamedTuple):
    """The ranking of one request, and its expected clicks."""

    query: int
    live: bool
    value: float
    callers: float
    best: float
    explored: int
    seconds: float


class Traffic:
    """Requests at a rate, and the feedback on them."""

    def __init__(self, client: AsyncClient, options: argparse.Namespace) -> None:
        self._client, self._options = client, options
        self._users = random.Random(options.seed)
        self._worlds: dict[int, World] = {}
        self.rankings: list[Ranking] = []

    async def run(self) -> None:
        options = self._options
        share = 1.0 / np.arange(1, QUERIES + 1)
        queries = np.random.default_rng(options.seed).choice(QUERIES, options.lists, p=share / share.sum())
        began, tasks = time.monotonic(), set()
        for n, query in enumerate(queries.tolist()):
            while n > (time.monotonic() - began) * options.rate or len(tasks) > 2000:
                await asyncio.sleep(0.002)
            task = asyncio.create_task(self._one(query, f"e-{n}"))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        await self._client.flush()

    async def _one(self, number: int, event_id: str) -> None:
        world = self._worlds.get(number)
        if world is None:
            world = self._worlds[number] = World(number, self._options.noise, self._options.seed)
        items = world.request()
        began = time.perf_counter()
        answer = await self._client.rank(f"query {number}", items, event_id=event_id)
        seconds = time.perf_counter() - began
        shown = [str(item.id) for item in answer.items]
        best = sorted(world.attraction, key=world.attraction.__getitem__, reverse=True)[:K]
        self.rankings.append(
            Ranking(
                number, answer.items[0].why != "baseline", world.value(shown), world.value(items[:K]),
                world.value(best), sum(item.why == "explore" for item in answer.items), seconds,
            )
        )  # fmt: skip
        users = random.Random(f"{self._options.seed}/{event_id}")
        clicks = world.click(shown, users)
        if users.random() < LOST:
            return
        await asyncio.sleep(users.expovariate(1.0 / DELAY))
        for _ in range(2 if users.random() < TWICE else 1):
            await self._client.feedback(event_id, clicks=clicks)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="driftrank-live-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = f"[rankers.shop]\nk = {K}\nwait = {WAIT}\nholdout = {options.holdout}\n"
    if options.policy:
        config += f'policy = "{options.policy}"\n'
    (folder / "driftrank.toml").write_text(config)
    command = [sys.executable, "-m", "driftrank", "serve", "--config", "driftrank.toml", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
    address = f"http://127.0.0.1:{port}"
    try:
        await _ready(address, server, folder)
        async with AsyncClient(address, ranker="shop", timeout=30.0) as client:
            traffic = Traffic(client, options)
            await traffic.run()
            outcomes = dict(client.outcomes)
            info = await client.ranker()
        metrics = urllib.request.urlopen(f"{address}/metrics").read().decode()
    finally:
        server.terminate()
        await server.wait()
    gauge = {name: float(value) for name, value in re.findall(r"^driftrank_(\w+) (\S+)$", metrics, re.MULTILINE)}
    out = _summary(traffic.rankings) | {
        "policy": info.settings.policy, "lists": options.lists,
        "outcomes": outcomes, "kB a query": gauge["state_bytes"] / max(1.0, gauge["resident_queries"]) / 1000,
        "shared": None if info.shared is None else {"columns": info.shared.columns, "strength": info.shared.strength,
                                                    "going_on": info.shared.going_on},
    }  # fmt: skip
    shutil.rmtree(folder)
    return out


async def _ready(address: str, server: asyncio.subprocess.Process, folder: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and server.returncode is None:
        try:
            await asyncio.to_thread(urllib.request.urlopen, f"{address}/readyz")
            return
        except OSError:
            await asyncio.sleep(0.2)
    raise SystemExit((folder / "server.log").read_text())


def _summary(rankings: Sequence[Ranking]) -> dict[str, Any]:
    live = [r for r in rankings if r.live]
    held = [r for r in rankings if not r.live]
    windows = [_compared(live[at : at + WINDOW]) for at in range(0, len(live) - WINDOW + 1, WINDOW)]
    groups = {
        f"queries {low} to {high}": _compared([r for r in live if low <= r.query + 1 <= high])
        for low, high in ((1, 10), (11, 100), (101, QUERIES))
    }
    ms = np.array([r.seconds for r in rankings]) * 1000
    return {
        "windows": windows, "all": _compared(live), **groups,
        "holdout": _mean([r.value for r in held]) if held else None, "best": _mean([r.best for r in live]),
        "explored a list": _mean([r.explored for r in live]),
        "ms": {"median": float(np.median(ms)), "99%": float(np.percentile(ms, 99))},
    }  # fmt: skip


def _compared(rankings: Sequence[Ranking]) -> dict[str, float]:
    """Clicks a list, the caller's on the same requests, their ratio and its standard error."""
    if len(rankings) < 2:
        return {"lists": len(rankings)}
    live, callers = np.array([r.value for r in rankings]), np.array([r.callers for r in rankings])
    ratio = live.mean() / callers.mean()
    error = (live - ratio * callers).std(ddof=1) / math.sqrt(len(live)) / callers.mean()
    return {
        "lists": len(rankings), "live": float(live.mean()), "callers": float(callers.mean()), "ratio": float(ratio),
        "error": float(error),
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _row(name: str, part: dict[str, float]) -> str:
    if "ratio" not in part:
        return f"{name:>22}  {part['lists']:6} lists"
    return (
        f"{name:>22}  {part['lists']:6} lists  live {part['live']:.3f}  caller's order {part['callers']:.3f}  "
        f"ratio {part['ratio']:.3f} +- {part['error']:.3f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lists", type=int, default=15_000)
    parser.add_argument("--rate", type=float, default=120.0, help="lists a second")
    parser.add_argument("--policy", help="by default that of the service")
    parser.add_argument("--holdout", type=float, default=0.1)
    parser.add_argument(
        "--noise", type=float, default=18.0, help="on ranks; 0: the caller's order is perfect, inf: random"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    out = asyncio.run(measure(options))
    for n, window in enumerate(out["windows"]):
        print(_row(f"{n * WINDOW + 1} to {(n + 1) * WINDOW}", window))
    for name in ("all", *(name for name in out if name.startswith("queries "))):
        print(_row(name, out[name]))
    lowest = min(out["windows"], key=lambda window: window["ratio"], default=None)
    held, least = out["holdout"] or math.nan, lowest["ratio"] if lowest else math.nan
    print(f"holdout {held:.3f}, best possible {out['best']:.3f}, lowest window {least:.3f}")
    print(f"{out['policy']}: {out['explored a list']:.2f} explored a list, {out['kB a query']:.1f} kB a query")
    print(f"rank: median {out['ms']['median']:.1f} ms, 99% {out['ms']['99%']:.1f} ms; {out['outcomes']}")
    print(f"shared model: {out['shared']}")
    if options.json:
        options.json.write_text(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
