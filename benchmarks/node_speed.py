"""Requests a second, CPU, latency and lag of nodes; see ``nodes.py speed`` and ``nodes.py lag``."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.node_faults import DURABLE, POLICY
from benchmarks.service import ITEMS, maximal_rate, pairs, post, run
from tests.postgres import Cluster
from tests.serve.running import Running

SQLITE = "sqlite:///driftrank.db"
#: store, nodes and workers of each
SETUPS = (("sqlite", 1, 1), ("postgresql", 1, 1), ("postgresql", 1, 2), ("postgresql", 2, 1), ("postgresql", 3, 1))


@contextmanager
def nodes(n: int, store: str, workers: int = 1) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(n)]
        options = ["--store", store, "--workers", str(workers), "--log-level", "warning"]
        yield [stack.enter_context(Running(folder, *options, **POLICY)) for folder in folders]


def speed(seconds: float) -> list[dict[str, Any]]:
    """Requests a second, half of them feedback, and CPU; then what follows from these, and latencies."""
    out: list[dict[str, Any]] = []

    def report(row: dict[str, Any]) -> None:
        out.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    for kind, n, workers in SETUPS:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(DURABLE)) if kind == "postgresql" else None
            running = stack.enter_context(nodes(n, SQLITE if cluster is None else cluster.url(), workers))
            report({"store": kind, "nodes": n, "workers": workers} | _rates(running, cluster, seconds))
            if n == 2:
                report(_following(*running, seconds))
    report(_computed(out))
    report({"latency of a ranking, ms p50, p99": _latencies()})
    return out


def _computed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Requests a second that N nodes would answer, from the CPU measured with several of them, the database included.

    ``nodes``: with a core each. ``database``: as many requests as one core of it carries, however many nodes there are.
    """
    by_nodes = {row["nodes"]: row for row in rows if row.get("store") == "postgresql" and row["workers"] == 1}
    most = by_nodes[max(by_nodes)]
    other = next(row["not held"] for row in rows if "not held" in row)
    # a request of each other node is about one record; what was measured has those of the nodes that there were
    own = most["node us/request"] - (most["nodes"] - 1) * other
    nodes = {str(n): round(n * 1e6 / (own + (n - 1) * other), -2) for n in (2, 4, 8)}
    database = round(1e6 / most["database us/request"], -2)
    return {"computed, not measured: requests/s": {"nodes": nodes, "a core of the database": database}}


def speed_table(rows: list[dict[str, Any]]) -> str:
    """As the page has it, then the rest."""
    names = {("sqlite", 1, 1): "SQLite", ("postgresql", 1, 1): "PostgreSQL, one node",
             ("postgresql", 1, 2): "one node with `--workers 2`", ("postgresql", 2, 1): "two nodes",
             ("postgresql", 3, 1): "three nodes"}  # fmt: skip
    lines = ["| | requests/s | CPU of nodes a request | of the database |", "|---|---:|---:|---:|"]
    for row in rows:
        if "store" in row:
            database = f"{row['database us/request']} us" if "database us/request" in row else ""
            name = names[row["store"], row["nodes"], row["workers"]]
            lines.append(f"| {name} | {row['requests/s']:,} | {row['node us/request']} us | {database} |")
    return "\n".join([*lines, *(json.dumps(row) for row in rows if "store" not in row)])


def size(lists: int = 3_000) -> dict[str, Any]:
    """Bytes a record on disk and of WAL: rankings of ten items, half of them with a click at once."""
    with Cluster(DURABLE) as cluster, nodes(1, cluster.url("size")) as (node,):
        with httpx.Client(base_url=node.url, timeout=30) as client:
            client.post("/v1/rankers/default/rank", json={"query": "first", "items": ITEMS})
            cluster.run("CHECKPOINT")
            ((before, first),) = cluster.run("SELECT pg_current_wal_lsn() - '0/0', max(seq) FROM size.log")
            for at in range(0, lists, 50):
                made = [{"query": f"q {n % 200}", "items": ITEMS, "event_id": f"e{n}"} for n in range(at, at + 50)]
                client.post("/v1/rankers/default/rank", json=made).raise_for_status()
                sent = [{"event_id": f"e{n}", "clicks": [1]} for n in range(at, at + 50)]
                client.post("/v1/rankers/default/feedback", json=sent).raise_for_status()
            ((after, last),) = cluster.run("SELECT pg_current_wal_lsn() - '0/0', max(seq) FROM size.log")
        sizes = cluster.run(
            "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relnamespace = 'size'::regnamespace"
            " AND relname IN ('log', 'log_pkey', 'log_id', 'log_key')"
        )
        parts = {name: round(bytes_ / last) for name, bytes_ in sizes}
        wal = round(float(after - before) / (last - first))
        return {"records": last, "bytes on disk a record": sum(parts.values()), "parts": parts, "bytes of WAL": wal}


def _rates(running: list[Running], cluster: Cluster | None, seconds: float) -> dict[str, Any]:
    for node in running:
        run(maximal_rate, node.port, 8, 1.0, pairs(f"warm{node.port}", 10))
    before, database = sum(map(_cpu, running)), _cpu(cluster)

    async def all_of_them() -> list[float]:
        each = 32 // len(running)
        rates = (maximal_rate(node.port, each, seconds, pairs(f"run{node.port}", 10)) for node in running)
        return await asyncio.gather(*rates)

    rate = sum(run(all_of_them))
    requests = rate * seconds
    out = {"requests/s": round(rate), "node us/request": round((sum(map(_cpu, running)) - before) / requests)}
    if cluster is not None:
        out["database us/request"] = round((_cpu(cluster) - database) / requests)
    return out


def _cpu(of: Running | Cluster | None) -> float:
    """Microseconds of CPU of a process with its children so far, from the scheduler: the usual clock has 10 ms."""
    if of is None:
        return 0.0
    pid = of._process.pid
    processes = [str(pid), *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    threads = [task for process in processes for task in Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1000


def _following(writes: Running, follows: Running, seconds: float) -> dict[str, Any]:
    """CPU of a node that gets no requests: of a second without records, of one with hardly any, and of a record."""
    run(maximal_rate, follows.port, 1, 1.0, _batches("held"))

    def few_records() -> None:
        for _ in range(round(2 * seconds)):
            run(maximal_rate, writes.port, 1, 0.001, _batches("few", 1))
            time.sleep(0.5)

    def records(queries: str) -> None:
        run(maximal_rate, writes.port, 2, seconds, _batches(queries))
        time.sleep(0.2)

    time.sleep(1.5)
    idle, few = _used(follows, lambda: time.sleep(seconds)), _used(follows, few_records)
    out = {"follower": "us of CPU", "a second without records": round(idle.cpu / idle.seconds)}
    out["a second with few records"] = round(few.cpu / few.seconds)
    for what, queries in (("not held", "other"), ("held", "held")):
        before = _followed(follows)
        used = _used(follows, lambda queries=queries: records(queries))
        cost = used.cpu - few.cpu / few.seconds * used.seconds
        out[what] = round(cost / (_followed(follows) - before), 1)
    return out


class _Used(NamedTuple):
    """Microseconds of CPU, and seconds."""

    cpu: float
    seconds: float


def _used(of: Running, work: Callable[[], None]) -> _Used:
    """CPU of a node while ``work`` is done."""
    before, began = _cpu(of), time.monotonic()
    work()
    return _Used(_cpu(of) - before, time.monotonic() - began)


def _batches(queries: str, size: int = 50) -> Iterator[tuple[bytes, bytes]]:
    """Endless pairs of rankings and their feedback, many at once: the log grows quickly."""
    run_, number = f"{queries}-{time.time()}", 0
    while True:
        events = [f"{run_}-{number + n}" for n in range(size)]
        lists = [{"query": f"{queries} {n % 200}", "items": ITEMS, "event_id": e} for n, e in enumerate(events, number)]
        number += size
        yield post("rank", lists), post("feedback", [{"event_id": event, "clicks": [1]} for event in events])


def _followed(node: Running) -> int:
    found = re.findall(r"^driftrank_records_followed_total\S* (\S+)", httpx.get(f"{node.url}/metrics").text, re.M)
    return round(sum(map(float, found)))


def _latencies(n: int = 400) -> dict[str, list[float]]:
    """Of rank requests, one at a time, in turn to a service of either store."""
    took: dict[str, list[float]] = {"sqlite": [], "postgresql": []}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(DURABLE))
        urls = [stack.enter_context(nodes(1, store))[0].url for store in (SQLITE, cluster.url())]
        clients = [stack.enter_context(httpx.Client(base_url=url)) for url in urls]
        for number in range(n):
            body = {"query": f"query-{number % 20}", "items": ITEMS}
            for http, times in zip(clients, took.values(), strict=True):
                began = time.perf_counter()
                http.post("/v1/rankers/default/rank", json=body).raise_for_status()
                times.append(1000 * (time.perf_counter() - began))
    return {store: _quantiles(times) for store, times in took.items()}


def _quantiles(values: list[float]) -> list[float]:
    return [round(statistics.median(values), 2), round(statistics.quantiles(values, n=100)[98], 2)]


def lag(clicks: int = 300) -> dict[str, Any]:
    """Milliseconds from an acknowledged click to the record's number in the answers of the other node."""
    with Cluster(DURABLE) as cluster, nodes(2, cluster.url()) as running:
        out = []
        with httpx.Client(base_url=running[0].url) as one, httpx.Client(base_url=running[1].url) as two:
            for n in range(clicks):
                one.post("/v1/rankers/default/rank", json={"query": "q", "items": ["a", "b"], "event_id": f"e{n}"})
                time.sleep(0.01)
                answer = one.post("/v1/rankers/default/feedback", json={"event_id": f"e{n}", "clicks": [1]})
                began, seq = time.perf_counter(), int(answer.headers["x-driftrank-seq"])
                while int(two.get("/healthz").headers["x-driftrank-seq"]) < seq:
                    pass
                out.append(1000 * (time.perf_counter() - began))
        return {"clicks": clicks, "ms p50, p99": _quantiles(out)}
