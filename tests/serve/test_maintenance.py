"""Checkpoints, eviction, retention, and the end of feedback windows; also while the store fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar

import pytest

from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.records import Final, Lost, Ranked
from driftrank.serve.log.store.base import LogEntry, Snapshot, StoreError, StoreFull
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state import impression_fold
from driftrank.serve.state.checkpoint import CHECKPOINT
from driftrank.serve.state.state import State
from driftrank.wire import RankerSettings, RankRequest, WarmRow
from tests.serve.harness import Harness, differences

ITEMS = ["a", "b", "c", "d"]


class _Failing(SQLiteStore):
    """A store whose disk is full while the test sets it so."""

    full = False
    snapshots_fail = False

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        if self.full:
            raise StoreFull("the disk is full")
        return super().append(entries)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), **how: Any) -> None:
        if self.full or self.snapshots_fail:
            raise StoreFull("the disk is full")
        super().put_snapshots(snapshots, gone, **how)


def fill(harness: Harness, n: int, prefix: str = "e") -> None:
    harness.run(
        harness.service.rank("default", [RankRequest(f"q{i % 10}", ITEMS, event_id=f"{prefix}:{i}") for i in range(n)])
    )


def test_a_checkpoint_makes_the_replay_short(tmp_path):
    with Harness(tmp_path) as harness:
        fill(harness, 200)
        assert harness.recover().records == 202
        harness.checkpoint()
        fill(harness, 3, "f")
        before = harness.dump()
        replay = harness.recover()
        assert (replay.records, replay.checkpoint) == (3, 202)
        assert not differences(before, harness.dump())
        assert harness.restart().records == 0, "a graceful shutdown writes one"
        assert not differences(before, harness.dump())


def test_checkpoints_after_a_number_of_records(tmp_path):
    with Harness(tmp_path, checkpoint_every=50) as harness:
        fill(harness, 60)

        async def wait() -> None:
            while harness.store.get_snapshot(CHECKPOINT) is None:
                await asyncio.sleep(0.01)

        harness.run(asyncio.wait_for(wait(), 30))
        assert harness.recover().records == 0


def test_checkpoints_after_a_time(tmp_path):
    with Harness(tmp_path, checkpoint_seconds=0.05) as harness:
        fill(harness, 5)

        async def wait() -> None:
            while (found := harness.store.get_snapshot(CHECKPOINT)) is None or found.seq < 7:
                await asyncio.sleep(0.01)

        harness.run(asyncio.wait_for(wait(), 30))
        assert harness.recover().records == 0


def test_a_checkpoint_that_falls_due_while_one_is_written(tmp_path):
    """It must not lead to a loop that blocks requests."""
    with Harness(tmp_path, store=_Failing, checkpoint_every=20) as harness:
        maintenance, checks_done = harness.service.maintenance, []
        drop_outdated = maintenance._drop_outdated

        async def counted() -> None:
            checks_done.append(len(checks_done))
            if len(checks_done) > 100:
                raise SystemExit("an endless loop")
            await drop_outdated()

        write = maintenance._write

        async def meanwhile(*args: Any) -> None:
            maintenance._checkpoint_due.set()
            await write(*args)

        async def wait() -> None:
            while len(checks_done) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)

        maintenance._drop_outdated, maintenance._write = counted, meanwhile
        fill(harness, 25)
        harness.run(asyncio.wait_for(wait(), 30))
        assert len(checks_done) == 2, "once each time it was due"
        assert maintenance._new == 0
        harness.store.snapshots_fail = True
        fill(harness, 10, "f")
        with pytest.raises(StoreFull):
            harness.checkpoint()
        assert maintenance._new == 10, "records that were not written are counted again"
        harness.store.snapshots_fail = False


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_while_a_checkpoint_falls_due(tmp_path, turns):
    with Harness(tmp_path) as harness:
        fill(harness, 5)

        async def both() -> None:
            await asyncio.sleep(0.01)  # until it waits for the event
            harness.service.maintenance._checkpoint_due.set()
            for _ in range(turns):  # of the event loop
                await asyncio.sleep(0)
            await harness.service.maintenance.stop()

        harness.run(asyncio.wait_for(both(), 30))


def test_requests_go_on_while_a_checkpoint_is_written(tmp_path):
    with Harness(tmp_path) as harness:
        fill(harness, 300)

        async def both() -> None:
            checkpoint = asyncio.ensure_future(harness.service.maintenance.checkpoint())
            for n in range(50):
                await harness.service.rank("default", [RankRequest(f"p{n % 7}", ITEMS, event_id=f"g:{n}")])
                if n == 20:
                    await harness.service.reset("default", "q1", gone=True)
            await checkpoint

        harness.run(both())
        before = harness.dump()
        assert harness.recover().records < 60
        assert not differences(before, harness.dump())
        assert not differences(before, harness.dump_of_log())


def test_memory_stays_within_its_limit(tmp_path):
    memory = 200_000
    with Harness(tmp_path, memory=memory) as harness:
        for n in range(40):
            requests = [RankRequest(f"{n}/{i}", ITEMS, event_id=f"{n}:{i}") for i in range(20)]
            harness.run(harness.service.rank("default", requests))
            assert harness.state.queries.nbytes < 2.5 * memory
        assert harness.info().queries == 800
        assert len(harness.state.queries) < 200
        assert harness.service.metrics.count("evictions") > 500
        before = harness.dump()  # loads all of them
        harness.evict()
        assert harness.state.queries.nbytes <= memory
        assert harness.recover().records == 802
        assert harness.state.queries.nbytes <= 1.25 * memory, "also during the replay"
        assert not differences(before, harness.dump())


def test_queries_that_cannot_be_written_stay_in_memory(tmp_path, caplog):
    with Harness(tmp_path, store=_Failing, tiny=True) as harness:
        harness.store.snapshots_fail = True
        fill(harness, 30)
        with pytest.raises(StoreFull):
            harness.evict()
        assert len(harness.state.queries) == 10
        assert harness.state.queries.dirty == set(harness.state.queries)
        assert harness.feedback("e:3", [1]).outcome == "counted", "better too much memory than no answer"
        with pytest.raises(StoreFull):
            harness.checkpoint()
        before = harness.dump()
        harness.store.snapshots_fail = False
        harness.evict()
        assert not harness.state.queries
        harness.recover()
        assert not differences(before, harness.dump())


def test_a_last_checkpoint_that_cannot_be_written(tmp_path, caplog):
    with Harness(tmp_path, store=_Failing) as harness:
        fill(harness, 5)
        before = harness.dump()
        harness.store.snapshots_fail = True
        harness.stop()
        assert "no checkpoint at the end" in caplog.text
        harness.open()
        assert harness.replay.records == 7
        assert not differences(before, harness.dump())


def test_a_full_disk(tmp_path):
    with Harness(tmp_path, store=_Failing, ranker={"wait": 100}) as harness:
        fill(harness, 3)
        before = harness.dump()
        harness.store.full = True
        calls: list[Any] = [
            lambda: harness.rank("new", ITEMS, "x"),
            lambda: harness.rank("q0", [*ITEMS, "new"], "y"),
            lambda: harness.feedback("e:0", [1]),
            lambda: harness.put(policy="CascadeUCB1", k=2),
            lambda: harness.reset(),
            lambda: harness.reset("q0", gone=True),
            lambda: harness.delete("default"),
            lambda: harness.warmstart([WarmRow("q0", ["a"], [1])], "log"),
        ]
        for call in calls:
            with harness.refused(503, "the disk is full"):
                call()
            assert not differences(before, harness.dump()), "a failed request changes nothing"
        assert harness.service.problem == "the disk is full"
        harness.clock.now += 100
        with pytest.raises(StoreFull):
            harness.end_feedback_windows()
        harness.store.full = False
        harness.end_feedback_windows()
        assert harness.info().steps == 3
        assert harness.service.problem is None
        assert harness.rank("new", ITEMS, "x").step == 1
        assert not differences(harness.dump(), harness.dump_of_log())


def test_feedback_windows_end_after_a_full_disk(tmp_path, caplog):
    with Harness(tmp_path, store=_Failing, ranker={"wait": 1}) as harness:
        fill(harness, 3)
        harness.store.full = True

        async def wait() -> None:
            harness.clock.now += 1
            while "cannot end feedback windows" not in caplog.text:
                await asyncio.sleep(0.01)
            harness.store.full = False
            while harness.info().pending:
                await asyncio.sleep(0.01)

        harness.run(asyncio.wait_for(wait(), 30))
        assert harness.info().steps == 3


def test_a_full_queue(tmp_path):
    with Harness(tmp_path, queue=5) as harness:

        async def many() -> Any:
            calls = [harness.service.rank("default", [RankRequest("q", ITEMS, event_id=f"e{n}")]) for n in range(20)]
            return await asyncio.gather(*calls, return_exceptions=True)

        answers = harness.run(many())
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert len(refused) == 15
        assert {(error.status, error.headers["Retry-After"]) for error in refused} == {(429, "1")}
        assert harness.info().lists == 5
        harness.run(
            harness.service.rank("default", [RankRequest("q", ITEMS) for _ in range(100)])
        )  # an empty queue accepts any request
        assert harness.warmstart([WarmRow("q", ["a"], [1])] * 2500).counted == 2500


def test_a_cancelled_request(tmp_path):
    with Harness(tmp_path) as harness:

        async def cancel() -> None:
            call = asyncio.ensure_future(harness.service.rank("default", [RankRequest("q", ITEMS, event_id="e")]))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await harness.service.rank("default", [RankRequest("q", [*ITEMS, "x"], event_id="f")])

        harness.run(cancel())
        assert harness.info().lists == 2, "it is in the log, and a retry gets it"
        assert not differences(harness.dump(), harness.dump_of_log())


# -- retention ---------------------------------------------------------------------------------------------------------


def test_retention_deletes_only_records_that_are_not_needed(tmp_path):
    with Harness(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as harness:
        harness.rank("q", ITEMS, "old")
        harness.rank("q", ITEMS, "deferred", defer=True)
        harness.feedback("old", [1])
        harness.clock.now += 1700
        harness.activate("deferred")  # its record is needed until the end of its window
        harness.rank("q", ITEMS, "young")
        before = harness.dump()
        harness.forget_old()
        assert len(harness.log()) == 7, "without a checkpoint all are needed"
        harness.checkpoint()
        harness.clock.now += 200
        harness.forget_old()
        assert next(record.event_id for _, record in harness.log() if hasattr(record, "event_id")) == "deferred"
        assert len(harness.log()) == 4
        harness.recover()
        assert not differences(before, harness.dump())
        assert harness.outcome("deferred", [1]) == "counted"
        assert harness.outcome("old", [1]) == "orphan"
        harness.advance(5000)
        harness.forget_old()
        assert len(harness.log()) == 6, "records after the checkpoint are needed, and their impressions"
        harness.checkpoint()
        harness.forget_old()
        assert len(harness.log()) <= 1
        before = harness.dump()
        harness.restart()
        assert not differences(before, harness.dump())
        harness.rank("q", ITEMS, "new")
        assert harness.recover().records == 1


def test_retention_keeps_records_that_a_replay_needs(tmp_path):
    """Impressions that ended after the checkpoint: in the checkpoint they still wait."""
    with Harness(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as harness:
        harness.rank("q", ITEMS, "waits", defer=True)
        harness.rank("q", ITEMS, "deferred", defer=True)
        harness.clock.now += 1700
        harness.activate("waits")
        harness.rank("q", ITEMS, "young")
        harness.checkpoint()
        harness.clock.now += 200
        assert harness.outcome("waits", [1]) == "counted"
        harness.activate("deferred")
        assert harness.outcome("deferred", [1]) == "counted"
        harness.forget_old()
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())
        harness.forget_old()
        harness.recover()
        assert not differences(before, harness.dump())
        harness.checkpoint()
        n = len(harness.log())
        harness.forget_old()
        assert len(harness.log()) < n
        harness.recover()
        assert not differences(before, harness.dump())


def test_retention_of_an_old_log(tmp_path):
    """Its rows are old, but their records are new: sent again, they count once."""
    with Harness(tmp_path, ranker={"wait": 10}, retention="30m") as harness:
        harness.clock.now += 10_000
        harness.warmstart([WarmRow("q", ["a", "b"], [1], time=1.0)], "log")
        harness.checkpoint()
        harness.forget_old()
        assert len(harness.log()) == 1
        assert harness.warmstart([WarmRow("q", ["a", "b"], [1], time=1.0)], "log").duplicates == 1


def test_retention_forever(tmp_path):
    with Harness(tmp_path, retention="forever") as harness:
        fill(harness, 10)
        harness.advance(1e9)
        harness.checkpoint()
        n = len(harness.log())
        harness.forget_old()
        assert len(harness.log()) == n


def test_deleted_queries_and_rankers_leave_no_snapshots(tmp_path):
    with Harness(tmp_path) as harness:
        harness.put("other", policy="CascadeUCB1", k=3)
        for name in ("default", "other"):
            harness.run(harness.service.rank(name, [RankRequest(f"q{n}", ITEMS) for n in range(150)]))
        harness.checkpoint()
        assert len(harness.store.snapshot_names("q/")) == 300
        harness.delete("other")
        harness.reset("q7", gone=True)
        harness.recover()  # the list of outdated snapshots survives
        harness.drop_outdated()
        assert len(harness.store.snapshot_names("q/")) == 149
        harness.reset()
        harness.checkpoint()
        harness.recover()
        harness.rank("q1", ITEMS)
        harness.drop_outdated()
        assert harness.store.snapshot_names("q/") == ["q/default/q1"]
        assert not harness.state.outdated


# -- damage ------------------------------------------------------------------------------------------------------------


def test_an_impression_that_cannot_be_read_blocks_nothing(tmp_path, caplog):
    """Records before a checkpoint are not verified at the start."""
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        for event in "abcd":
            harness.rank("q", ITEMS, event)
        harness.stop()
        with closing(sqlite3.connect(tmp_path / "service.db")) as file:
            file.execute("UPDATE log SET crc = crc + 1 WHERE seq = 4")
            file.commit()
        harness.open()
        assert harness.info().pending == 4
        assert harness.outcome("a", [1]) == "counted"
        assert harness.outcome("b", [1]) == "orphan"
        harness.advance(100)
        assert (harness.info().pending, harness.info().steps) == (0, 3)
        assert "record 4, of a waiting impression, cannot be read" in caplog.text
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())


def test_nothing_is_learnt_from_a_lost_impression(tmp_path):
    """It may still be in memory, where feedback finds it."""
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        harness.rank("q", ITEMS, "e")
        (seq, _) = harness.log()[-1]
        harness.run(harness.service.append([NewRecord("l/default", Lost("default", harness.clock.now, seq))]))
        assert harness.outcome("e", [1]) == "late"
        assert (harness.info().pending, harness.info().steps) == (0, 0)
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_snapshot_of_another_version_of_the_policy_is_logged_and_the_query_reset(tmp_path, monkeypatch, caplog):
    with Harness(tmp_path, "CascadeUCB1") as harness:
        harness.rank("q", ITEMS, event="before")
        harness.feedback("before", [1])
        harness.restart()
        monkeypatch.setattr("driftrank.policies.stationary.cascade_ucb1.CascadeUCB1.version", 2)
        harness.rank("q", ITEMS, event="after")
        assert harness.query("q").steps == 0
    assert "is reset: cannot use its snapshot" in caplog.text


def test_a_store_that_cannot_be_written_is_logged_once(tmp_path, caplog):
    caplog.set_level("INFO")
    with Harness(tmp_path, "CascadeUCB1", store=_Failing) as harness:
        harness.store.full = True
        for n in range(3):
            with harness.refused(503):
                harness.rank("q", ITEMS, event=f"e{n}")
        harness.store.full = False
        harness.rank("q", ITEMS, event="after")
    logged = [record.getMessage() for record in caplog.records if "the store can" in record.getMessage()]
    assert logged == ["the store cannot be written: the disk is full", "the store can be written again"]


def test_queries_loaded_from_snapshots_are_counted(tmp_path):
    with Harness(tmp_path, "CascadeUCB1") as harness:
        harness.rank("q", ITEMS, event="before")
        harness.restart()
        assert harness.service.metrics.count("loads") == 0
        harness.rank("q", ITEMS, event="after")
        harness.rank("q", ITEMS, event="later")
        assert harness.service.metrics.count("loads") == 1


class _Unreadable(SQLiteStore):
    """A store whose snapshots of queries cannot be read while the test sets it so."""

    unreadable = False

    def get_snapshot(self, name: str) -> Snapshot | None:
        if self.unreadable and name.startswith("q/"):
            raise StoreError("it cannot be read")
        return super().get_snapshot(name)


def test_a_record_folded_in_part_is_in_no_checkpoint(tmp_path, caplog):
    with Harness(tmp_path, store=_Unreadable) as harness:
        fill(harness, 5)
        harness.checkpoint()
        harness.service.maintenance._memory = 1
        harness.evict()
        harness.store.unreadable = True
        with harness.refused(503, "restart the service"):
            final = Final("default", "e:3", harness.clock.now, "feedback", [1])
            harness.run(harness.service.append([NewRecord("f/1", final)]))
        harness.stop()
        harness.open()
        assert harness.info().steps == 1
        assert "no checkpoint at the end" in caplog.text
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_start_that_fails_leaves_no_checkpoint_of_half_a_record(tmp_path):
    with Harness(tmp_path, store=_Unreadable) as harness:
        for n in range(5):
            fill(harness, 500, f"e{n}")
        before = harness.dump()
        harness.crash()
        apply = impression_fold.ranked

        def fails(state: State, seq: int, record: Ranked, prepared: Any) -> None:
            apply(state, seq, record, prepared)
            if record.event_id == "e4:400":
                raise StoreError("it cannot be read")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(impression_fold, "ranked", fails)
            with pytest.raises(StoreError, match="cannot be read"):
                harness.open()
            harness.stop()
        harness.open()
        assert not differences(before, harness.dump())


class _ReadBy(SQLiteStore):
    """A store that knows which threads have read entries."""

    readers: ClassVar[list[str]] = []

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        self.readers.append(threading.current_thread().name)
        return super().read(after, limit)

    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]:
        self.readers.append(threading.current_thread().name)
        return super().find(ids)

    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]:
        self.readers.append(threading.current_thread().name)
        return super().numbered(seqs)


def test_windows_of_impressions_that_are_not_in_memory_end_beside_the_event_loop(tmp_path):
    """Half an hour of traffic is more than memory holds, and most of it ends by silence."""
    with Harness(tmp_path, store=_ReadBy, ranker={"wait": 100}) as harness:
        harness.state.impressions._kept = 260
        fill(harness, 400)
        harness.rank("q1", ITEMS, "late", defer=True)
        harness.activate("late")
        fill(harness, 300, "f")
        del harness.store.readers[:]
        harness.advance(100)
        assert (harness.info().pending, harness.info().steps) == (0, 701)
        assert {reader.partition("_")[0] for reader in harness.store.readers} == {"driftrank-writer"}
        assert not differences(harness.dump(), harness.dump_of_log())


def test_windows_of_a_deleted_ranker_do_not_end_those_of_the_next_one(tmp_path):
    """It has the same name, and may use the same event ids."""
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        settings = {"policy": "CascadeUCB1", "k": 3, "wait": 100}
        harness.put("other", **settings)
        for name in ("default", "other"):
            harness.rank("q", ITEMS, "e", ranker=name)
        harness.clock.now += 100
        committer = harness.service._committer
        append = committer.append

        async def slowly(*args: Any, **how: Any) -> Any:
            committer.append = append  # type: ignore[method-assign]
            settled = await append(*args, **how)
            await harness.service.delete_ranker("other")
            await harness.service.put_ranker("other", RankerSettings(**settings))
            await harness.service.rank("other", [RankRequest("q", ITEMS, event_id="e")])
            return settled

        committer.append = slowly  # type: ignore[method-assign]
        harness.run(harness.service.maintenance.end_feedback_windows())
        assert harness.info("default").steps == 1
        assert harness.outcome("e", [1], ranker="other") == "counted"


def test_a_deferred_impression_that_the_log_has_forgotten_does_not_exist(tmp_path):
    """Nor in memory: a replay could not learn from it."""
    with Harness(tmp_path, ranker={"wait": 100}, retention="30m") as harness:
        harness.rank("q", ITEMS, "deferred", defer=True)
        harness.clock.now += 2000
        harness.rank("q", ITEMS, "young")
        harness.checkpoint()
        harness.forget_old()
        with harness.refused(404, "no ranking has it"):
            harness.activate("deferred")
        assert harness.outcome("deferred", [1]) == "orphan"
        assert harness.outcome("young", [1]) == "counted"
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())


def test_an_impression_activated_while_records_are_forgotten_stays(tmp_path):
    with Harness(tmp_path, ranker={"wait": 100}, retention="30m") as harness:
        fill(harness, 1000)
        harness.rank("q", ITEMS, "deferred", defer=True)
        harness.advance(2000)
        harness.rank("q", ITEMS, "young")
        harness.checkpoint()
        committer = harness.service._committer
        run = committer.run

        async def slowly(work: Any, *args: Any) -> Any:
            committer.run = run  # type: ignore[method-assign]
            await harness.service.activate("deferred", ["default"])
            return await run(work, *args)

        committer.run = slowly  # type: ignore[assignment, method-assign]
        harness.forget_old()
        harness.recover()
        assert harness.outcome("deferred", [1]) == "counted"


def test_queries_that_are_only_read_do_not_fill_the_memory(tmp_path):
    memory = 200_000
    with Harness(tmp_path, memory=memory) as harness:
        harness.warmstart([WarmRow(f"q{n}", ITEMS[:3], [1]) for n in range(500)])
        harness.evict()
        for n in range(500):
            harness.query(f"q{n}")
        assert harness.state.queries.nbytes > memory

        async def wait() -> None:
            while harness.state.queries.nbytes > memory:
                await asyncio.sleep(0.01)

        harness.run(asyncio.wait_for(wait(), 30))


@pytest.mark.parametrize("seq", [4, 5])
def test_an_activation_or_end_that_cannot_be_read_blocks_nothing(tmp_path, caplog, seq):
    """The impression itself can be read."""
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        harness.rank("q", ITEMS, "e", defer=True)
        harness.activate("e")
        if seq == 5:
            harness.feedback("e", [1])
        harness.checkpoint()
        if seq == 4:
            harness.feedback("e", [1])  # folded from memory, and again at the next start
        harness.crash()
        with closing(sqlite3.connect(tmp_path / "service.db")) as file:
            file.execute("UPDATE log SET crc = crc + 1 WHERE seq = ?", (seq,))
            file.commit()
        harness.open()
        assert harness.outcome("e", [2]) == "orphan"
        harness.advance(100)
        assert harness.info().pending == 0
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())


def test_the_counts_of_a_deleted_ranker_are_dropped(tmp_path):
    """Otherwise the metrics of short-lived rankers would accumulate."""
    with Harness(tmp_path) as harness:
        harness.put("other", policy="CascadeUCB1", k=3)
        harness.rank("q", ITEMS, "e", ranker="other")
        harness.feedback("e", [1], ranker="other")
        assert b'ranker="other"' in harness.service.metrics.render()
        harness.delete("other")
        assert b'ranker="other"' not in harness.service.metrics.render()


def during_a_checkpoint(harness: Harness, work: Callable[[], Awaitable[Any]]) -> None:
    """Run a checkpoint, and ``work`` between its snapshots of queries and the checkpoint itself."""
    maintenance = harness.service.maintenance
    snapshot = maintenance.snapshot

    async def and_then(*args: Any) -> None:
        await snapshot(*args)
        maintenance.snapshot = snapshot  # type: ignore[method-assign]
        await work()

    maintenance.snapshot = and_then  # type: ignore[method-assign]
    harness.checkpoint()


@pytest.mark.parametrize("written", ["never", "fails", "succeeds"])
def test_a_deleted_query_created_again_during_a_checkpoint_is_a_new_one(tmp_path, written):
    with Harness(tmp_path, store=_Failing) as harness:
        harness.rank("q", ITEMS, "e1")
        harness.feedback("e1", [1])
        harness.checkpoint()
        harness.reset("q", gone=True)

        async def created_again() -> None:
            await harness.service.rank("default", [RankRequest("q", ITEMS, event_id="e2")])
            harness.store.snapshots_fail = written == "fails"
            if written != "never":
                with suppress(StoreFull):
                    await harness.service.maintenance.snapshot([("default", "q")])
            harness.store.snapshots_fail = False

        during_a_checkpoint(harness, created_again)
        before = harness.dump()
        harness.recover()
        assert harness.query("q").steps == 0
        assert not differences(before, harness.dump())
        harness.drop_outdated()
        assert not harness.state.queries.deleted


@pytest.mark.parametrize("waits", [True, False])
def test_an_impression_that_ended_since_the_last_checkpoint_stays(tmp_path, waits):
    """A replay from there needs it to fold its end."""
    with Harness(tmp_path, ranker={"wait": 100}, retention="30m") as harness:
        harness.rank("q", ITEMS, "deferred", defer=True)
        harness.clock.now += 2000
        if waits:
            harness.activate("deferred")
        harness.checkpoint()
        if not waits:
            harness.activate("deferred")
        assert harness.outcome("deferred", [1]) == "counted"
        before = harness.dump()
        for _ in range(2):  # also after a restart
            harness.forget_old()
            harness.recover()
            assert not differences(before, harness.dump())
        assert harness.info().steps == 1
        harness.checkpoint()
        harness.forget_old()
        assert len(harness.log()) == 2, "both are young"


def test_a_disk_that_is_full_at_the_start(tmp_path):
    """The start fails with the error of the store."""

    async def start() -> None:
        with _Failing(tmp_path / "x.db") as store:
            store.full = True
            service = Service(store, ServerSettings())
            with pytest.raises(StoreFull, match="the disk is full"):
                await service.start()
            await service.stop()

    asyncio.run(start())


def test_only_queries_that_leave_the_memory_count_as_evicted(tmp_path):
    with Harness(tmp_path) as harness:
        fill(harness, 10)
        harness.service.maintenance._memory = 1
        snapshot = harness.service.maintenance.snapshot

        async def and_then(which: Any) -> None:
            await snapshot(which)
            harness.service.maintenance.snapshot = snapshot  # type: ignore[method-assign]
            await harness.service.rank("default", [RankRequest("q3", ITEMS, event_id="again")])

        harness.service.maintenance.snapshot = and_then  # type: ignore[assignment, method-assign]
        harness.evict()
        assert not harness.state.queries
        assert harness.service.metrics.count("evictions") == 10, "each once"


def test_a_query_deleted_again_during_a_checkpoint(tmp_path):
    """It existed at the checkpoint: a replay must find it to subtract it from the counts."""
    with Harness(tmp_path) as harness:
        harness.rank("q", ITEMS, "e1")
        harness.checkpoint()
        harness.reset("q", gone=True)
        harness.rank("q", ITEMS, "e2")
        during_a_checkpoint(harness, lambda: harness.service.reset("default", "q", gone=True))
        before = harness.dump()
        harness.recover()
        assert harness.info().queries == 0
        assert not differences(before, harness.dump())
