from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.committer import Committer, QueueFull
from driftrank.serve.records import Activated, decode
from driftrank.serve.store.base import Snapshot, StoreError, StoreFull
from driftrank.serve.store.sqlite import SQLiteStore


class _Moody(SQLiteStore):
    """A store whose disk is full for the next so many writes, and that says how large its commits were."""

    full = 0

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.commits: list[int] = []

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        self._fails()
        self.commits.append(len(entries))
        return super().append(entries)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = ()) -> None:
        self._fails()
        super().put_snapshots(snapshots, gone)

    def _fails(self) -> None:
        if self.full:
            self.full -= 1
            raise StoreFull("no room is left on the disk")


def named(n: int, name: str | None = None) -> tuple[str, Activated]:
    return name or f"id{n}", Activated("r", f"e{n}", float(n))


@pytest.fixture
def committing(tmp_path: Path) -> Any:
    """Runs a coroutine with a committer, its store, and what was folded."""

    def run(work: Callable[..., Coroutine[Any, Any, None]], limit: int = 1000) -> None:
        async def life() -> None:
            with _Moody(tmp_path / "x.db", durability="relaxed") as store:
                folded: list[tuple[int, str]] = []
                committer = Committer(store, lambda seq, record: folded.append((seq, record.event)), limit=limit)
                try:
                    await work(committer, store, folded)
                finally:
                    await committer.close()

        asyncio.run(asyncio.wait_for(life(), 30))

    return run


def test_all_that_wait_are_one_commit_in_the_order_they_came(committing):
    async def work(committer, store, folded):
        results = await asyncio.gather(*[committer.append([named(3 * n + i) for i in range(3)]) for n in range(100)])
        assert [seq for its in results for seq, _ in its] == list(range(1, 301))
        assert folded == [(n + 1, f"e{n}") for n in range(300)]
        assert store.commits == [300]
        assert committer.queued == 0

    committing(work)


def test_what_comes_during_a_commit_is_the_next_one(committing):
    async def work(committer, store, folded):
        first = committer.append([named(0)])
        await asyncio.sleep(0)  # it is being written now
        rest = [committer.append([named(n)]) for n in range(1, 50)]
        await asyncio.gather(first, *rest)
        assert store.commits == [1, 49]
        assert [event for _, event in folded] == [f"e{n}" for n in range(50)]

    committing(work)


def test_a_large_import_is_several_commits(committing):
    async def work(committer, store, folded):
        await asyncio.gather(*[committer.append([named(4000 * n + i) for i in range(4000)]) for n in range(3)])
        assert store.commits == [4000] * 3
        assert len(folded) == 12_000

    committing(work, limit=100_000)


def test_an_id_again_is_not_folded_again(committing):
    async def work(committer, store, folded):
        one, other = await asyncio.gather(committer.append([named(1)]), committer.append([named(1), named(2)]))
        assert one == [(1, True)]
        # whether a number is skipped is the store's affair
        assert [new for _, new in other] == [False, True]
        assert other[0][0] == 1
        assert await committer.append([named(2)]) == [(other[1][0], False)]
        assert [event for _, event in folded] == ["e1", "e2"]
        assert [decode(entry.body).event for entry in store.read(0)] == ["e1", "e2"]

    committing(work)


def test_a_full_store(committing):
    async def work(committer, store, folded):
        store.full = 1
        lost = await asyncio.gather(*[committer.append([named(n)]) for n in range(3)], return_exceptions=True)
        assert [type(error) for error in lost] == [StoreFull] * 3
        assert folded == []
        assert committer.queued == 0
        assert committer.problem == "no room is left on the disk"
        assert await committer.append([named(0)]) == [(1, True)]
        assert committer.problem is None
        assert folded == [(1, "e0")]

    committing(work)


def test_requests_that_are_given_up(committing):
    async def work(committer, store, folded):
        calls = [committer.append([named(n)]) for n in range(3)]
        calls[0].cancel()
        await asyncio.gather(*calls[1:])
        assert [event for _, event in folded] == ["e0", "e1", "e2"], "whoever asked, it is in the log"
        store.full = 1
        calls = [committer.append([named(n)]) for n in range(3, 6)]
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
        first = [committer.append([named(n)]) for n in range(10)]
        with pytest.raises(QueueFull):
            committer.append([named(10)])
        urgent = committer.append([named(11)], urgent=True)
        await asyncio.gather(*first, urgent)
        await committer.append([named(12)])
        assert len(folded) == 12
        # a request with more records than ever may wait would never get through
        assert len(await committer.append([named(n) for n in range(20, 50)])) == 30

    committing(work, limit=10)


def test_a_record_that_cannot_be_written_down_hurts_nobody_else(committing):
    async def work(committer, store, folded):
        good = committer.append([named(1)])
        with pytest.raises(UnicodeEncodeError):
            committer.append([("id", Activated("r", "\ud800", 0.0))])
        await asyncio.wait_for(good, 30)
        assert committer.queued == 0

    committing(work)


def test_a_fold_that_fails_ends_it(tmp_path, caplog):
    """The state is behind the log then, and must not be learnt on with."""

    def fold(seq, record):
        if record.event == "e1":
            raise KeyError("a fault of ours")

    async def life():
        with _Moody(tmp_path / "x.db", durability="relaxed") as store:
            committer = Committer(store, fold, limit=10)
            calls = [committer.append([named(n)]) for n in range(3)]
            results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
            assert results[0] == [(1, True)]
            assert [type(e) for e in results[1:]] == [StoreError] * 2
            with pytest.raises(StoreError, match="start the service again"):
                committer.append([named(5)])
            await committer.probe()
            assert "start the service again" in committer.problem
            await committer.close()

    asyncio.run(life())
    assert "a fault of ours" in caplog.text
