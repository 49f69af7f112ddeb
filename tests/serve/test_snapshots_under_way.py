"""While a snapshot is being written, its query is neither different from it nor safe. Nobody may rely on either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from driftrank.serve.config import ServerSettings
from driftrank.serve.queries import Queries
from driftrank.serve.service import Service
from driftrank.serve.store.base import Snapshot, StoreFull
from driftrank.serve.store.sqlite import SQLiteStore
from driftrank.serve.transfer import Transfer
from driftrank.wire import Feedback, RankerSettings, RankRequest


class _Slow(SQLiteStore):
    """A store whose disk takes its time over snapshots, and may be full after all."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Event()
        self.full = False

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = ()) -> None:
        full, self.full = self.full, False
        self.began.set()
        assert self.go.wait(10)
        if full:
            raise StoreFull("the disk is full")
        super().put_snapshots(snapshots, gone)


def run(path: Path, work: Callable[[Service, _Slow], Awaitable[None]]) -> None:
    async def life() -> None:
        store = _Slow(path)
        ranker = RankerSettings(policy="CascadeUCB1", k=2)
        service = Service(store, ServerSettings(rankers={"default": ranker}, checkpoint_seconds=3600.0))
        await service.start()
        try:
            await work(service, store)
        finally:
            store.go.set()
            await service.upkeep.stop()
            await service._committer.close()
            store.close()

    asyncio.run(life())


async def step(service: Service, event: str) -> None:
    await service.rank("default", [RankRequest("q", ["a", "b", "c"], event_id=event)])
    (result,) = await service.feedback("default", [Feedback(event, [1])])
    assert result.outcome == "counted"


async def writing(store: _Slow) -> None:
    while not store.began.is_set():
        await asyncio.sleep(0.001)


def test_a_query_stays_in_memory_until_its_snapshot_is_durable(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        await service.upkeep.checkpoint()
        await step(service, "e2")
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.upkeep.checkpoint())
        await writing(store)
        service.upkeep._memory = 1  # nothing has room any more
        shrinking = asyncio.create_task(service.upkeep.shrink())
        await asyncio.sleep(0.05)
        assert Queries(service).state("default", "q").steps == 2
        store.go.set()
        await checkpoint
        await shrinking
        assert not service.fold.queries
        assert Queries(service).state("default", "q").steps == 2

    run(tmp_path / "x.db", work)


def test_a_checkpoint_does_not_count_on_a_snapshot_that_fails(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        await service.upkeep.checkpoint()
        await step(service, "e2")
        store.go.clear()
        store.began.clear()
        store.full = True
        service.upkeep._memory = 1
        shrinking = asyncio.create_task(service.upkeep.shrink())
        await writing(store)
        checkpoint = asyncio.create_task(service.upkeep.checkpoint())
        await asyncio.sleep(0.05)
        store.go.set()
        with pytest.raises(StoreFull):
            await shrinking
        await checkpoint
        service.upkeep._new = 0  # no checkpoint at the end: as though it had been killed here

    async def afterwards(service: Service, store: _Slow) -> None:
        assert Queries(service).state("default", "q").steps == 2

    run(tmp_path / "x.db", work)
    run(tmp_path / "x.db", afterwards)


def test_an_export_waits_for_what_is_being_written(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.upkeep.checkpoint())
        await writing(store)

        async def names() -> list[str]:
            return [query async for query, _ in Transfer(service).export("default")]

        export = asyncio.create_task(names())
        await asyncio.sleep(0.05)
        store.go.set()
        assert await export == ["q"]
        await checkpoint

    run(tmp_path / "x.db", work)
