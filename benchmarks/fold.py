"""Measure what the numbers over time cost: CPU time of folding a record with them and without, and of a request.

    python benchmarks/fold.py [--lists 4000] [--rounds 5] [--policy PriorRegimeTS]

A service without HTTP, whose requests cost less than those of a server, makes lists of ten items and gets feedback, one
request at a time. Then its log is folded again and again, in turn with the numbers over time (``state/series.py``, and
the records that ``state/traffic.py`` remembers) and without. The smallest of the rounds count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from driftrank.serve.log.records import Record, decode
from driftrank.serve.log.store.base import LogOnly
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state.series import Series
from driftrank.serve.state.state import State
from driftrank.serve.state.traffic import QueryTraffic
from driftrank.wire import Feedback, RankerSettings, RankRequest

ITEMS = [f"item-{n}" for n in range(10)]


async def requests(store: SQLiteStore, lists: int, policy: str) -> float:
    """Seconds of CPU time of a request, rank and feedback in turn."""
    service = Service(store, ServerSettings(checkpoint_seconds=3600.0))
    await service.start()
    await service.put_ranker("default", RankerSettings(policy=policy, k=10, holdout=0.1), discard=True)
    users = random.Random(1)
    began = time.process_time()
    for n in range(lists):
        asked: Any = RankRequest(f"query {n % 100}", ITEMS, event_id=f"e{n}", subject=f"u{n % 1000}")
        await service.rank("default", [asked])
        clicks: Any = [ITEMS[users.randrange(10)]] if users.random() < 0.5 else []
        await service.feedback("default", [Feedback(f"e{n}", clicks)])
    spent = time.process_time() - began
    await service.maintenance.stop()
    await service._committer.close()
    return spent / (2 * lists)


def _nothing(*_: Any, **__: Any) -> None:
    pass


@contextmanager
def without() -> Iterator[None]:
    """Fold nothing of what is measured."""
    parts = [(Series, "ranked"), (Series, "ended"), (Series, "clicked"), (QueryTraffic, "remember")]
    with ExitStack() as stack:
        for kind, name in parts:
            stack.enter_context(patch.object(kind, name, _nothing))
        yield


def fold(store: SQLiteStore, records: list[tuple[int, Record]]) -> float:
    """Seconds of CPU time of a record."""
    state = State(LogOnly(store), Metrics())
    began = time.process_time()
    for seq, record in records:
        state.apply(seq, record)
    return (time.process_time() - began) / len(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", default="PriorRegimeTS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "log.db", durability="relaxed") as store:
        request = asyncio.run(requests(store, options.lists, options.policy))
        records = [(entry.seq, decode(entry.body)) for entry in store.read(0, 10_000_000)]
        times: tuple[list[float], list[float]] = [], []
        for _ in range(options.rounds):
            times[0].append(fold(store, records))
            with without():
                times[1].append(fold(store, records))
        state = State(LogOnly(store), Metrics())
        for seq, record in records:
            state.apply(seq, record)
        nbytes = state.rankers["default"].series.nbytes
    with_, bare = map(min, times)
    print(
        json.dumps(
            {
                "request, us": round(1e6 * request, 1), "fold with, us": round(1e6 * with_, 2),
                "fold without, us": round(1e6 * bare, 2), "share of a request": round((with_ - bare) / request, 4),
                "bytes of the ranker": nbytes,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
