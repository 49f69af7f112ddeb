"""Measure several nodes on one PostgreSQL log. Clients, nodes and database share the machine; needs ``initdb``.

    python benchmarks/nodes.py equal [--minutes 5]
    python benchmarks/nodes.py faults
    python benchmarks/nodes.py speed [--seconds 3]
    python benchmarks/nodes.py lag
    python benchmarks/nodes.py size
    python benchmarks/nodes.py all [--minutes 5] [--seconds 3]

``equal``: random use of three nodes of one process, which end without a word, with kills of the database, a failover
and retention in turn; every list is compared with one fold of the log. ``faults``: real processes under load, and
something happens: what was acknowledged, lost, counted twice, the longest time without an answer, and the slowest call.
``speed``: requests a second of one node on SQLite, of 1, 2 and 3 nodes and of 2 workers on PostgreSQL, CPU of nodes and
database, also for records of other nodes, and latencies of both stores. ``lag``: from a click acknowledged by one node
to its use by another. ``size``: bytes on disk and of WAL of a record. ``all``: all of these.

Tables for the page are printed; the exit code is 1 if a list differs, or if something was lost or counted twice.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.node_faults import fault_table, faults, faults_lost  # noqa: E402
from benchmarks.node_speed import lag, size, speed, speed_table  # noqa: E402
from tests.postgres import Cluster  # noqa: E402
from tests.serve.nodes import account  # noqa: E402
from tests.serve.test_equality import _use  # noqa: E402


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
        found = account(use.log, use.lists, use.ends)
        totals.update(
            {
                "rounds": 1, "lists": found.lists, "different": len(different),
                "acknowledged": len(use.lists) + len(use.ends), "lost": len(found.lost), "twice": len(found.twice),
                "nodes ended": use.kills, happens: 1,
            }
        )  # fmt: skip
        print(
            seed, happens, dict(totals), *different[:2], *found.lost[:2], *found.twice[:4], file=sys.stderr, flush=True
        )
    return dict(totals)


#: of results that are tables on the page
TABLES: dict[str, Callable[[Any], str]] = {"faults": fault_table, "speed": speed_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("equal", "faults", "speed", "lag", "size", "all"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    work: dict[str, Callable[[], Any]] = {
        "equal": lambda: equal(given.minutes), "faults": faults, "speed": lambda: speed(given.seconds), "lag": lag,
        "size": size,
    }  # fmt: skip
    wrong: list[str] = []
    for what, measure in work.items():
        if given.what in (what, "all"):
            found = measure()
            print(f"\n{what}\n" + (TABLES[what](found) if what in TABLES else json.dumps(found)), flush=True)
            if what == "faults":
                wrong += faults_lost(found)
            elif what == "equal":
                wrong += [f"{n} {name}" for name, n in found.items() if name in ("different", "lost", "twice") and n]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
