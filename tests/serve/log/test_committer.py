from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.log.committer import Committer, NewRecord, QueueFull
from driftrank.serve.log.records import Activated, decode
from driftrank.serve.log.store.base import Snapshot, StoreError, StoreFull
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.slices import Slices


class _Failing(SQLiteStore):
    """A store whose disk is full for the next ``full`` writes, and that records the sizes of its commits."""

    full = 0

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.commits: list[int] = []

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        self._fails()
        self.commits.append(len(entries))
        return super().append(entries)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), **how: Any) -> None:
        self._fails()
        super().put_snapshots(snapshots, gone, **how)

    def _fails(self) -> None:
        if self.full:
            self.full -= 1
            raise StoreFull("the disk is full")


def record(n: int) -> NewRecord:
    return NewRecord(f"id{n}", Activated("r", f"e{n}", float(n)), prepared=n)


@pytest.fixture
def committing(tmp_path: Path) -> Any:
    """Runs a coroutine with a committer, its store, and the records folded."""

    def run(work: Callable[..., Coroutine[Any, Any, None]], limit: int = 1000) -> None:
        async def life() -> None:
            with _Failing(tmp_path / "x.db", durability="relaxed") as store:
                folded: list[tuple[int, str]] = []

                def apply(seq: int, record: Activated, prepared: int) -> str:
                    assert record.event_id == f"e{prepared}"
                    folded.append((seq, record.event_id))
                    return f"outcome {prepared}"

                committer = Committer(store, apply, limit=limit)  # type: ignore[arg-type]
                try:
                    await work(committer, store, folded)
                finally:
                    await committer.close()

        asyncio.run(asyncio.wait_for(life(), 30))

    return run


def test_all_queued_records_are_one_commit_in_their_order(committing):
    async def work(committer, store, folded):
        results = await asyncio.gather(*[committer.append([record(3 * n + i) for i in range(3)]) for n in range(100)])
        assert [seq for its in results for seq, *_ in its] == list(range(1, 301))
        assert folded == [(n + 1, f"e{n}") for n in range(300)]
        assert store.commits == [300]
        assert committer.queued == 0

    committing(work)


def test_records_that_arrive_during_a_commit_are_the_next_one(committing):
    async def work(committer, store, folded):
        first = committer.append([record(0)])
        await asyncio.sleep(0)  # it is being written now
        rest = [committer.append([record(n)]) for n in range(1, 50)]
        await asyncio.gather(first, *rest)
        assert store.commits == [1, 49]
        assert [event for _, event in folded] == [f"e{n}" for n in range(50)]

    committing(work)


def test_a_large_import_is_several_commits(committing):
    async def work(committer, store, folded):
        await asyncio.gather(*[committer.append([record(4000 * n + i) for i in range(4000)]) for n in range(3)])
        assert store.commits == [4000] * 3
        assert len(folded) == 12_000

    committing(work, limit=100_000)


def test_a_repeated_id_is_not_folded_again(committing):
    async def work(committer, store, folded):
        one, other = await asyncio.gather(committer.append([record(1)]), committer.append([record(1), record(2)]))
        assert one == [(1, True, "outcome 1")]
        # the store may skip a number
        assert [(new, outcome) for _, new, outcome in other] == [(False, None), (True, "outcome 2")]
        assert other[0][0] == 1
        assert await committer.append([record(2)]) == [(other[1][0], False, None)]
        assert [event for _, event in folded] == ["e1", "e2"]
        assert [decode(entry.body).event_id for entry in store.read(0)] == ["e1", "e2"]

    committing(work)


def test_a_full_store(committing):
    async def work(committer, store, folded):
        store.full = 1
        lost = await asyncio.gather(*[committer.append([record(n)]) for n in range(3)], return_exceptions=True)
        assert [type(error) for error in lost] == [StoreFull] * 3
        assert folded == []
        assert committer.queued == 0
        assert committer.problem == "the disk is full"
        assert await committer.append([record(0)]) == [(1, True, "outcome 0")]
        assert committer.problem is None
        assert folded == [(1, "e0")]

    committing(work)


def test_cancelled_requests(committing):
    async def work(committer, store, folded):
        calls = [committer.append([record(n)]) for n in range(3)]
        calls[0].cancel()
        await asyncio.gather(*calls[1:])
        assert [event for _, event in folded] == ["e0", "e1", "e2"], "a cancelled request is still in the log"
        store.full = 1
        calls = [committer.append([record(n)]) for n in range(3, 6)]
        await asyncio.sleep(0)
        calls[1].cancel()
        assert [type(e) for e in await asyncio.gather(*calls, return_exceptions=True)] == [
            StoreFull,
            asyncio.CancelledError,
            StoreFull,
        ]

    committing(work)


def test_a_full_queue(committing):
    async def work(committer, store, folded):
        first = [committer.append([record(n)]) for n in range(10)]
        with pytest.raises(QueueFull):
            committer.append([record(10)])
        urgent = committer.append([record(11)], urgent=True)
        await asyncio.gather(*first, urgent)
        await committer.append([record(12)])
        assert len(folded) == 12
        # a request larger than the queue would never get through
        assert len(await committer.append([record(n) for n in range(20, 50)])) == 30

    committing(work, limit=10)


def test_a_record_that_cannot_be_encoded_affects_no_other(committing):
    async def work(committer, store, folded):
        bad = NewRecord("id", Activated("r", "\ud800", 0.0))
        good = committer.append([record(1)]), committer.append([record(2), bad]), committer.append([record(3)])
        with pytest.raises(UnicodeEncodeError):
            await good[1]
        await asyncio.wait_for(asyncio.gather(good[0], good[2]), 30)
        with pytest.raises(UnicodeEncodeError):
            await committer.append([bad])
        assert committer.queued == 0
        assert [event for _, event in folded] == ["e1", "e3"]


def test_a_batch_is_encoded_in_slices(committing, monkeypatch):
    """As if every slice was over at once: others run between any two records."""
    monkeypatch.setattr(Slices, "over", True)

    async def work(committer, store, folded):
        encoded, turns, entry = [], 0, committer._entry

        def counted(new):
            encoded.append(turns)
            return entry(new)

        monkeypatch.setattr(committer, "_entry", counted)
        batch = committer.append([record(n) for n in range(100)])
        later = committer.append([record(100)])
        while not later.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(set(encoded)) == len(encoded) == 101
        assert [event for _, event in folded] == [f"e{n}" for n in range(101)]
        assert [it.seq for it in await batch] == [*range(1, 101)]

    committing(work)


def test_a_record_that_cannot_be_folded_stops_it(tmp_path, caplog):
    """The state is behind the log then, and must not be used any more."""

    def apply(seq, record, prepared):
        if record.event_id == "e1":
            raise KeyError("a bug")

    async def life():
        with _Failing(tmp_path / "x.db", durability="relaxed") as store:
            committer = Committer(store, apply, limit=10)
            calls = [committer.append([record(n)]) for n in range(3)]
            results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
            assert results[0] == [(1, True, None)]
            assert [type(e) for e in results[1:]] == [StoreError] * 2
            with pytest.raises(StoreError, match="restart the service"):
                committer.append([record(5)])
            await committer.probe()
            assert "restart the service" in committer.problem
            await committer.close()

    asyncio.run(life())
    assert "a bug" in caplog.text
