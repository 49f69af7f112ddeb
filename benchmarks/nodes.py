"""Measure several nodes on one PostgreSQL log. Clients, nodes and database share the machine; needs ``initdb``.

    python benchmarks/nodes.py equal [--minutes 5]
    python benchmarks/nodes.py faults
    python benchmarks/nodes.py speed [--seconds 3]
    python benchmarks/nodes.py lag

``equal``: random use of three nodes in turn with kills of nodes, of the database, and a failover, with retention; every
list is compared with one fold of the log. ``faults``: real processes under load, and something happens: what was
acknowledged, lost, counted twice, and the longest time without an answer. ``speed``: requests a second of 1, 2 and 3
nodes and of one on SQLite, CPU of nodes and database. ``lag``: from a click acknowledged by one node to its use by
another.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402

from benchmarks.service import cpu, maximal_rate, pairs, run  # noqa: E402
from driftrank.client import Client, ServiceError  # noqa: E402
from driftrank.serve.log.records import Final, Ranked, decode  # noqa: E402
from driftrank.serve.log.store.postgres import PostgresStore  # noqa: E402
from tests.postgres import Cluster  # noqa: E402
from tests.serve.running import Running  # noqa: E402
from tests.serve.test_equality import _use  # noqa: E402

#: the service waits for the disk, as in production
DURABLE = "fsync=on"
#: the cheapest policy: what is measured is everything else
POLICY = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}


@contextmanager
def nodes(n: int, store: str) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(n)]
        yield [stack.enter_context(Running(folder, "--store", store, **POLICY)) for folder in folders]


# -- equality ----------------------------------------------------------------------------------------------------------


def equal(minutes: float) -> dict[str, Any]:
    """Rounds of random use until the time is over."""
    end, totals, seed = time.monotonic() + 60 * minutes, Counter[str](), 0
    while time.monotonic() < end:
        seed += 1
        with Cluster("synchronous_standby_names=standby") as primary, Cluster(primary=primary) as standby:
            happens = ("nothing", "database killed", "failover")[seed % 3]

            def fault(primary: Cluster = primary, standby: Cluster = standby, happens: str = happens) -> None:
                if happens == "database killed":
                    primary.kill()
                    primary.start()
                elif happens == "failover":
                    primary.kill()
                    standby.promote()

            settings = {"checkpoint_seconds": 1.0, "retention": 3.0, "durability": "full"}
            kills = 0 if happens != "nothing" else 6
            use, different = _use(primary.url(None, standby), seed, 600, kills=kills, fault=fault, **settings)
        records = [decode(entry.body) for entry in use.log]
        ends = [(record.ranker, record.event_id, n) for n, record in enumerate(records) if isinstance(record, Final)]
        lists = {record.event_id for record in records if isinstance(record, Ranked)}
        ended = {event for _, event, _ in ends}
        lost = [event for kind, event in use.acknowledged if event not in (lists if kind == "r" else ended)]
        totals.update(
            {
                "rounds": 1, "lists": len(lists), "different": len(different), "acknowledged": len(use.acknowledged),
                "lost": len(lost), "nodes killed": use.kills, happens: 1,
            }
        )  # fmt: skip
        print(seed, happens, dict(totals), *different[:2], file=sys.stderr, flush=True)
    return dict(totals)


# -- faults ------------------------------------------------------------------------------------------------------------


def faults() -> list[dict[str, Any]]:
    """Let faults happen, each with a database and nodes of its own."""
    out = []
    for what in ("node killed", "database killed", "database restarted", "failover to a synchronous standby"):
        with (
            Cluster(DURABLE, "synchronous_standby_names=standby") as primary,
            Cluster(DURABLE, primary=primary) as standby,
        ):
            url = primary.url(None, standby)
            with nodes(2, url) as running:

                def happen(
                    what: str = what, primary: Cluster = primary, standby: Cluster = standby,
                    running: list[Running] = running,
                ) -> None:  # fmt: skip
                    if what == "node killed":
                        running[1].kill()
                    elif what == "database killed":
                        primary.kill()
                        primary.start()
                    elif what == "database restarted":
                        primary.stop()
                        primary.start()
                    else:
                        primary.kill()
                        standby.promote()

                out.append({"what": what} | _under_load(running, url, happen))
                print(json.dumps(out[-1]), flush=True)
    return out


def _under_load(running: list[Running], url: str, happen: Callable[[], None], seconds: float = 8.0) -> dict[str, Any]:
    acknowledged: list[tuple[str, str]] = []
    times: list[float] = [time.monotonic()]
    end = times[0] + seconds

    def use(client: Client, n: int) -> None:
        number = 0
        while time.monotonic() < end:
            number += 1
            event = f"{n}/{number}"
            try:
                answer = client.rank(f"query {number % 50}", list("abcdefgh"), event_id=event)
                acknowledged.append(("r", event))
                times.append(time.monotonic())
                result = client.feedback(answer.event_id, [answer.items[0].id], wait=True)
                if result.outcome in ("counted", "duplicate"):
                    acknowledged.append(("f", event))
                times.append(time.monotonic())
            except ServiceError:
                time.sleep(0.02)

    with Client([node.url for node in running], timeout=5, deadline=20, retries=8) as client:
        threads = [threading.Thread(target=use, args=(client, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        happen()
        for thread in threads:
            thread.join()
    lists: set[str] = set()
    ends: Counter[str] = Counter()
    with PostgresStore(url) as store:
        at = 0
        while entries := store.read(at):
            at = entries[-1].seq
            for record in (decode(entry.body) for entry in entries):
                if isinstance(record, Ranked):
                    lists.add(record.event_id)
                elif isinstance(record, Final):
                    ends[record.event_id] += 1
    lost = [event for kind, event in acknowledged if event not in (lists if kind == "r" else ends)]
    times.sort()
    gap = max(b - a for a, b in itertools.pairwise(times))
    twice = sum(n > 1 for n in ends.values())
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "twice": twice,
        "seconds without answers": round(gap, 2),
    }


# -- speed -------------------------------------------------------------------------------------------------------------


def speed(seconds: float) -> list[dict[str, Any]]:
    """Requests a second, half of them feedback, and CPU."""
    out = []
    for n, kind in ((1, "sqlite"), (1, "postgresql"), (2, "postgresql"), (3, "postgresql")):
        with ExitStack() as stack:
            url, cluster = "sqlite:///driftrank.db", None
            if kind == "postgresql":
                cluster = stack.enter_context(Cluster(DURABLE))
                url = cluster.url()
            running = stack.enter_context(nodes(n, url))
            for node in running:
                run(maximal_rate, node.port, 4, 1.0, pairs(f"warm{node.port}", 10))
            before = [cpu(node._process.pid) for node in running]
            database = 0.0 if cluster is None else _cpu_of(cluster)

            async def all_of_them(running: list[Running] = running) -> list[float]:
                each = 32 // len(running)
                return await asyncio.gather(
                    *(maximal_rate(node.port, each, seconds, pairs(f"run{node.port}", 10)) for node in running)
                )

            rate = sum(run(all_of_them))
            used = sum(cpu(node._process.pid) - then for node, then in zip(running, before, strict=True))
            row = {
                "store": kind,
                "nodes": n,
                "requests/s": round(rate),
                "node us/request": round(1e6 * used / rate / seconds),
            }
            if cluster is not None:
                row["database us/request"] = round(1e6 * (_cpu_of(cluster) - database) / rate / seconds)
            if kind == "postgresql":
                row["node us/followed record"] = _follow_cost(running) if n > 1 else None
            row["latency ms p50, p99"] = _latency(running[0].url)
            out.append(row)
            print(json.dumps(row), flush=True)
    return out


def _cpu_of(cluster: Cluster) -> float:
    children = Path(f"/proc/{cluster._process.pid}/task/{cluster._process.pid}/children").read_text().split()
    return sum(cpu(int(process)) for process in (cluster._process.pid, *children))


def _follow_cost(running: list[Running], seconds: float = 2.0) -> int:
    """CPU of a node that gets no requests, for each record of the other."""
    idle = cpu(running[1]._process.pid)
    time.sleep(seconds)
    idle = cpu(running[1]._process.pid) - idle
    followed, used = _followed(running[1].url), cpu(running[1]._process.pid)
    run(maximal_rate, running[0].port, 16, seconds, pairs(f"follow{running[0].port}", 10))
    time.sleep(0.2)
    return round(1e6 * (cpu(running[1]._process.pid) - used - idle) / (_followed(running[1].url) - followed))


def _followed(url: str) -> int:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("driftrank_records_followed_total")).split()[1]))


def _latency(url: str, n: int = 300) -> list[float]:
    """Of rank requests, one at a time."""
    took = []
    with httpx.Client(base_url=url) as http:
        for number in range(n):
            body = {"query": f"query-{number % 20}", "items": list("abcdefghij")}
            began = time.perf_counter()
            http.post("/v1/rankers/default/rank", json=body).raise_for_status()
            took.append(1000 * (time.perf_counter() - began))
    return _quantiles(took)


def _quantiles(values: list[float]) -> list[float]:
    return [round(statistics.median(values), 2), round(statistics.quantiles(values, n=100)[98], 2)]


# -- lag ---------------------------------------------------------------------------------------------------------------


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("equal", "faults", "speed", "lag"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    work: dict[str, Callable[[], Any]] = {
        "equal": lambda: equal(given.minutes), "faults": faults, "speed": lambda: speed(given.seconds), "lag": lag,
    }  # fmt: skip
    print(json.dumps(work[given.what]()))


if __name__ == "__main__":
    main()
