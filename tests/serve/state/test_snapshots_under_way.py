"""A query whose snapshot is being written is neither dirty nor durable. No other task may rely on either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.answers.queries import Introspection
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.records import Ranked, Reset
from driftrank.serve.log.store.base import Snapshot, StoreFull
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.operations.transfer import Transfer
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state.query import Query
from driftrank.wire import Feedback, RankerSettings, RankRequest


class _Slow(SQLiteStore):
    """A store whose writing of snapshots waits for the test, and may then fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.go.set()
        self.began = threading.Event()
        self.full = False

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), **how: Any) -> None:
        full, self.full = self.full, False
        self.began.set()
        assert self.go.wait(10)
        if full:
            raise StoreFull("the disk is full")
        super().put_snapshots(snapshots, gone, **how)


def run(path: Path, work: Callable[[Service, _Slow], Awaitable[None]]) -> None:
    async def with_service() -> None:
        store = _Slow(path)
        ranker = RankerSettings(policy="CascadeUCB1", k=2)
        service = Service(store, ServerSettings(rankers={"default": ranker}, checkpoint_seconds=3600.0))
        await service.start()
        try:
            await work(service, store)
        finally:
            store.go.set()
            await service.maintenance.stop()
            await service._committer.close()
            store.close()

    asyncio.run(with_service())


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
        await service.maintenance.checkpoint()
        await step(service, "e2")
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await writing(store)
        service.maintenance._memory = 1  # no query may stay in memory
        shrinking = asyncio.create_task(service.maintenance.evict())
        await asyncio.sleep(0.05)
        assert (await Introspection(service).state("default", "q")).steps == 2
        store.go.set()
        await checkpoint
        await shrinking
        assert not service.state.queries
        assert (await Introspection(service).state("default", "q")).steps == 2

    run(tmp_path / "x.db", work)


def test_a_checkpoint_does_not_rely_on_a_snapshot_that_fails(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        await service.maintenance.checkpoint()
        await step(service, "e2")
        store.go.clear()
        store.began.clear()
        store.full = True
        service.maintenance._memory = 1
        shrinking = asyncio.create_task(service.maintenance.evict())
        await writing(store)
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await asyncio.sleep(0.05)
        store.go.set()
        with pytest.raises(StoreFull):
            await shrinking
        await checkpoint
        service.maintenance._new = 0  # no checkpoint at the end, as if it were killed here

    async def afterwards(service: Service, store: _Slow) -> None:
        assert (await Introspection(service).state("default", "q")).steps == 2

    run(tmp_path / "x.db", work)
    run(tmp_path / "x.db", afterwards)


def test_an_export_waits_for_what_is_being_written(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await writing(store)

        async def names() -> list[str]:
            return [query async for query, _ in Transfer(service).export("default")]

        export = asyncio.create_task(names())
        await asyncio.sleep(0.05)
        store.go.set()
        assert await export == ["q"]
        await checkpoint

    run(tmp_path / "x.db", work)


def test_a_query_created_again_during_a_checkpoint_is_a_new_one(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        await service.maintenance.checkpoint()
        await service.reset("default", "q", gone=True)
        await service.rank("default", [RankRequest("other", ["a", "b"])])
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await writing(store)
        ranking = asyncio.create_task(service.rank("default", [RankRequest("q", ["a", "b"], event_id="e2")]))
        while not service._committer.queued:
            await asyncio.sleep(0)
        store.go.set()
        await ranking
        await checkpoint
        assert (await Introspection(service).state("default", "q")).steps == 0
        service.maintenance._new = 0  # as if it were killed here

    async def afterwards(service: Service, store: _Slow) -> None:
        assert (await Introspection(service).state("default", "q")).steps == 0, "a deleted state must not come back"

    run(tmp_path / "x.db", work)
    run(tmp_path / "x.db", afterwards)


def test_a_query_that_is_deleted_during_a_checkpoint_is_not_counted_afterwards(tmp_path: Path) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await service.rank("default", [RankRequest(f"q{n}", ["a", "b"], event_id=f"e{n}") for n in range(20)])
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await writing(store)  # some; the others have no snapshots yet
        for at in list(service.state.queries.dirty):
            service._committer.append([NewRecord(f"reset/{at[1]}", Reset("default", service.now(), at[1], True))])
        store.go.set()
        await checkpoint
        assert 0 < service.info("default").queries < 20
        counted.append(service.info("default").queries)
        service.maintenance._new = 0  # as if it were killed here

    async def afterwards(service: Service, store: _Slow) -> None:
        assert (
            service.info("default").queries
            == counted[0]
            == len(await Introspection(service).names("default", None, 100))
        )

    counted: list[int] = []
    run(tmp_path / "x.db", work)
    run(tmp_path / "x.db", afterwards)


def test_a_query_deleted_while_it_is_written_and_a_checkpoint_ends(tmp_path: Path) -> None:
    """The checkpoint has dropped its snapshot, but another may be written after that."""

    async def work(service: Service, store: _Slow) -> None:
        await step(service, "e1")
        await service.maintenance.checkpoint()
        await service.reset("default", "q", gone=True)
        store.go.clear()
        store.began.clear()
        checkpoint = asyncio.create_task(service.maintenance.checkpoint())
        await writing(store)  # of the checkpoint itself
        # between two writes of the thread: created, on its way to the store, deleted
        at, seq = ("default", "q"), service.state.seq + 1
        items = ["a", "b"]
        service.state.apply(seq, Ranked("default", "q", "e2", service.now(), 1, items, "ll", 1, items=items))
        writing_out = asyncio.create_task(service.maintenance.snapshot([at]))
        await asyncio.sleep(0)
        service.state.apply(seq + 1, Reset("default", service.now(), "q", True))
        store.go.set()
        await checkpoint
        await writing_out
        with pytest.raises(Refused, match="has no such query"):
            await Introspection(service).state("default", "q")
        service.maintenance._new = 0

    run(tmp_path / "x.db", work)


def test_a_snapshot_that_cannot_be_made_leaves_those_beside_it_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(service: Service, store: _Slow) -> None:
        await service.rank("default", [RankRequest(f"q{n}", ["a", "b"]) for n in range(3)])
        dirty = set(service.state.queries.dirty)
        made = iter([b"1", b"2"])
        with monkeypatch.context() as patched:
            patched.setattr(Query, "to_bytes", lambda query: next(made))
            with pytest.raises(RuntimeError):  # the third; a StopIteration in a coroutine
                await service.maintenance.checkpoint()
        assert service.state.queries.dirty == dirty

    run(tmp_path / "x.db", work)
