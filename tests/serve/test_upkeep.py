"""What the service does by itself: checkpoints, writing out, retention; and what when the store fails meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from typing import Any

import pytest

from driftrank.serve.config import ServerSettings
from driftrank.serve.fold import CHECKPOINT, Fold
from driftrank.serve.records import Final, Ranked
from driftrank.serve.service import Service
from driftrank.serve.store.base import Snapshot, StoreError, StoreFull
from driftrank.serve.store.sqlite import SQLiteStore
from driftrank.wire import RankerSettings, RankRequest, WarmRow
from tests.serve.house import House, differences

ITEMS = ["a", "b", "c", "d"]


class _Moody(SQLiteStore):
    """A store whose disk is full while the test says so."""

    full = False
    snapshots_fail = False

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        if self.full:
            raise StoreFull("no room is left on the disk")
        return super().append(entries)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = ()) -> None:
        if self.full or self.snapshots_fail:
            raise StoreFull("no room is left on the disk")
        super().put_snapshots(snapshots, gone)


def fill(house: House, n: int, prefix: str = "e") -> None:
    house.run(
        house.service.rank("default", [RankRequest(f"q{i % 10}", ITEMS, event_id=f"{prefix}:{i}") for i in range(n)])
    )


def test_a_checkpoint_makes_the_replay_short(tmp_path):
    with House(tmp_path) as house:
        fill(house, 200)
        assert house.recover().records == 202
        house.checkpoint()
        fill(house, 3, "f")
        before = house.state()
        replay = house.recover()
        assert (replay.records, replay.checkpoint) == (3, 202)
        assert not differences(before, house.state())
        assert house.restart().records == 0, "a stop in peace makes one"
        assert not differences(before, house.state())


def test_checkpoints_are_made_when_enough_is_new(tmp_path):
    with House(tmp_path, checkpoint_every=50) as house:
        fill(house, 60)

        async def wait() -> None:
            while house.store.get_snapshot(CHECKPOINT) is None:
                await asyncio.sleep(0.01)

        house.run(asyncio.wait_for(wait(), 30))
        assert house.recover().records == 0


def test_checkpoints_are_made_after_a_while(tmp_path):
    with House(tmp_path, checkpoint_seconds=0.05) as house:
        fill(house, 5)

        async def wait() -> None:
            while (found := house.store.get_snapshot(CHECKPOINT)) is None or found.seq < 7:
                await asyncio.sleep(0.01)

        house.run(asyncio.wait_for(wait(), 30))
        assert house.recover().records == 0


def test_a_checkpoint_that_falls_due_while_one_is_made(tmp_path):
    """It must not be waited for in vain, by a loop that leaves no room for requests."""
    with House(tmp_path, store=_Moody, checkpoint_every=20) as house:
        upkeep, looked = house.service.upkeep, []
        clean_up = upkeep._clean_up

        async def counted() -> None:
            looked.append(len(looked))
            if len(looked) > 100:
                raise SystemExit("it goes round and round")
            await clean_up()

        write = upkeep._write

        async def meanwhile(*args: Any) -> None:
            upkeep._checkpoint_due.set()
            await write(*args)

        async def wait() -> None:
            while len(looked) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)

        upkeep._clean_up, upkeep._write = counted, meanwhile
        fill(house, 25)
        house.run(asyncio.wait_for(wait(), 30))
        assert len(looked) == 2, "once for each time that it fell due"
        assert upkeep._new == 0
        house.store.snapshots_fail = True
        fill(house, 10, "f")
        with pytest.raises(StoreFull):
            house.checkpoint()
        assert upkeep._new == 10, "what was not written is new"
        house.store.snapshots_fail = False


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_while_a_checkpoint_falls_due(tmp_path, turns):
    with House(tmp_path) as house:
        fill(house, 5)

        async def both() -> None:
            await asyncio.sleep(0.01)  # until it waits
            house.service.upkeep._checkpoint_due.set()
            for _ in range(turns):  # of the event loop
                await asyncio.sleep(0)
            await house.service.upkeep.stop()

        house.run(asyncio.wait_for(both(), 30))


def test_requests_go_on_while_a_checkpoint_is_made(tmp_path):
    with House(tmp_path) as house:
        fill(house, 300)

        async def both() -> None:
            checkpoint = asyncio.ensure_future(house.service.upkeep.checkpoint())
            for n in range(50):
                await house.service.rank("default", [RankRequest(f"p{n % 7}", ITEMS, event_id=f"g:{n}")])
                if n == 20:
                    await house.service.reset("default", "q1", gone=True)
            await checkpoint

        house.run(both())
        before = house.state()
        assert house.recover().records < 60
        assert not differences(before, house.state())
        assert not differences(before, house.folded_anew())


def test_memory_stays_in_bounds(tmp_path):
    memory = 200_000
    with House(tmp_path, memory=memory) as house:
        for n in range(40):
            requests = [RankRequest(f"{n}/{i}", ITEMS, event_id=f"{n}:{i}") for i in range(20)]
            house.run(house.service.rank("default", requests))
            assert house.fold.nbytes < 2.5 * memory
        assert house.info().queries == 800
        assert len(house.fold.queries) < 200
        assert house.service.metrics.count("evictions") > 500
        before = house.state()  # reads all of them
        house.write_out()
        assert house.fold.nbytes <= memory
        assert house.recover().records == 802
        assert house.fold.nbytes <= 1.25 * memory, "also while it comes up"
        assert not differences(before, house.state())


def test_what_cannot_be_written_out_stays(tmp_path, caplog):
    with House(tmp_path, store=_Moody, tiny=True) as house:
        house.store.snapshots_fail = True
        fill(house, 30)
        with pytest.raises(StoreFull):
            house.write_out()
        assert len(house.fold.queries) == 10
        assert house.fold.dirty == set(house.fold.queries)
        assert house.feedback("e:3", [1]).outcome == "counted", "better too much memory than no answer"
        with pytest.raises(StoreFull):
            house.checkpoint()
        before = house.state()
        house.store.snapshots_fail = False
        house.write_out()
        assert not house.fold.queries
        house.recover()
        assert not differences(before, house.state())


def test_a_checkpoint_that_cannot_be_written_at_the_end(tmp_path, caplog):
    with House(tmp_path, store=_Moody) as house:
        fill(house, 5)
        before = house.state()
        house.store.snapshots_fail = True
        house.stop()
        assert "no checkpoint at the end" in caplog.text
        house.open()
        assert house.replay.records == 7
        assert not differences(before, house.state())


def test_a_full_disk(tmp_path):
    with House(tmp_path, store=_Moody, ranker={"wait": 100}) as house:
        fill(house, 3)
        before = house.state()
        house.store.full = True
        calls: list[Any] = [
            lambda: house.rank("new", ITEMS, "x"),
            lambda: house.rank("q0", [*ITEMS, "new"], "y"),
            lambda: house.feedback("e:0", [1]),
            lambda: house.put(policy="CascadeUCB1", k=2),
            lambda: house.reset(),
            lambda: house.reset("q0", gone=True),
            lambda: house.delete("default"),
            lambda: house.warmstart([WarmRow("q0", ["a"], [1])], "log"),
        ]
        for call in calls:
            with house.refused(503, "no room is left"):
                call()
            assert not differences(before, house.state()), "nothing has happened"
            assert not house.fold.ready
        assert house.service.problem == "no room is left on the disk"
        house.clock.now += 100
        with pytest.raises(StoreFull):
            house.finalise()
        house.store.full = False
        house.finalise()
        assert house.info().steps == 3
        assert house.service.problem is None
        assert house.rank("new", ITEMS, "x").step == 1
        assert not differences(house.state(), house.folded_anew())


def test_silence_goes_on_by_itself_after_a_full_disk(tmp_path, caplog):
    with House(tmp_path, store=_Moody, ranker={"wait": 1}) as house:
        fill(house, 3)
        house.store.full = True

        async def wait() -> None:
            house.clock.now += 1
            while "cannot finalise silence" not in caplog.text:
                await asyncio.sleep(0.01)
            house.store.full = False
            while house.info().pending:
                await asyncio.sleep(0.01)

        house.run(asyncio.wait_for(wait(), 30))
        assert house.info().steps == 3


def test_a_full_queue(tmp_path):
    with House(tmp_path, queue=5) as house:

        async def many() -> Any:
            calls = [house.service.rank("default", [RankRequest("q", ITEMS, event_id=f"e{n}")]) for n in range(20)]
            return await asyncio.gather(*calls, return_exceptions=True)

        answers = house.run(many())
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert len(refused) == 15
        assert {(error.status, error.headers["Retry-After"]) for error in refused} == {(429, "1")}
        assert house.info().lists == 5
        assert not house.fold.ready
        house.run(house.service.rank("default", [RankRequest("q", ITEMS) for _ in range(100)]))  # nobody else waits
        assert house.warmstart([WarmRow("q", ["a"], [1])] * 2500).counted == 2500


def test_a_request_that_is_given_up(tmp_path):
    with House(tmp_path) as house:

        async def give_up() -> None:
            call = asyncio.ensure_future(house.service.rank("default", [RankRequest("q", ITEMS, event_id="e")]))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await house.service.rank("default", [RankRequest("q", [*ITEMS, "x"], event_id="f")])

        house.run(give_up())
        assert house.info().lists == 2, "it is in the log, and a call that asks again gets it"
        assert not house.fold.ready
        assert not differences(house.state(), house.folded_anew())


# -- retention ---------------------------------------------------------------------------------------------------------


def test_retention_drops_only_what_nobody_needs(tmp_path):
    with House(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as house:
        house.rank("q", ITEMS, "old")
        house.rank("q", ITEMS, "deferred", defer=True)
        house.feedback("old", [1])
        house.clock.now += 1700
        house.activate("deferred")  # its list is needed until its wait is over
        house.rank("q", ITEMS, "young")
        before = house.state()
        house.forget_old()
        assert len(house.log()) == 7, "there is no checkpoint"
        house.checkpoint()
        house.clock.now += 200
        house.forget_old()
        assert next(record.event for _, record in house.log() if hasattr(record, "event")) == "deferred"
        assert len(house.log()) == 4
        house.recover()
        assert not differences(before, house.state())
        assert house.outcome("deferred", [1]) == "counted"
        assert house.outcome("old", [1]) == "orphan"
        house.pass_(5000)
        house.forget_old()
        assert len(house.log()) == 6, "what came after the checkpoint is needed, and the lists that it is about"
        house.checkpoint()
        house.forget_old()
        assert len(house.log()) <= 1
        before = house.state()
        house.restart()
        assert not differences(before, house.state())
        house.rank("q", ITEMS, "new")
        assert house.recover().records == 1


def test_retention_keeps_what_a_replay_will_ask_for(tmp_path):
    """Lists that came to their ends after the checkpoint: they wait for nothing any more, but not in the checkpoint."""
    with House(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as house:
        house.rank("q", ITEMS, "waits", defer=True)
        house.rank("q", ITEMS, "deferred", defer=True)
        house.clock.now += 1700
        house.activate("waits")
        house.rank("q", ITEMS, "young")
        house.checkpoint()
        house.clock.now += 200
        assert house.outcome("waits", [1]) == "counted"
        house.activate("deferred")
        assert house.outcome("deferred", [1]) == "counted"
        house.forget_old()
        before = house.state()
        house.recover()
        assert not differences(before, house.state())
        house.forget_old()
        house.recover()
        assert not differences(before, house.state())
        house.checkpoint()
        n = len(house.log())
        house.forget_old()
        assert len(house.log()) < n
        house.recover()
        assert not differences(before, house.state())


def test_retention_of_an_old_log(tmp_path):
    """Its rows are old, but they came just now: sent again, they count once."""
    with House(tmp_path, ranker={"wait": 10}, retention="30m") as house:
        house.clock.now += 10_000
        house.warmstart([WarmRow("q", ["a", "b"], [1], time=1.0)], "log")
        house.checkpoint()
        house.forget_old()
        assert len(house.log()) == 1
        assert house.warmstart([WarmRow("q", ["a", "b"], [1], time=1.0)], "log").duplicates == 1


def test_a_retention_for_ever(tmp_path):
    with House(tmp_path, retention="forever") as house:
        fill(house, 10)
        house.pass_(1e9)
        house.checkpoint()
        n = len(house.log())
        house.forget_old()
        assert len(house.log()) == n


def test_what_was_deleted_leaves_nothing_behind(tmp_path):
    with House(tmp_path) as house:
        house.put("other", policy="CascadeUCB1", k=3)
        for name in ("default", "other"):
            house.run(house.service.rank(name, [RankRequest(f"q{n}", ITEMS) for n in range(150)]))
        house.checkpoint()
        assert len(house.store.snapshot_names("q/")) == 300
        house.delete("other")
        house.reset("q7", gone=True)
        house.recover()  # it is not forgotten what there is to do
        house.clean_up()
        assert len(house.store.snapshot_names("q/")) == 149
        house.reset()
        house.checkpoint()
        house.recover()
        house.rank("q1", ITEMS)
        house.clean_up()
        assert house.store.snapshot_names("q/") == ["q/default/q1"]
        assert not house.fold.outdated


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_list_that_cannot_be_read_holds_nobody_up(tmp_path, caplog):
    """Records before a checkpoint are not looked at when the service starts."""
    with House(tmp_path, ranker={"wait": 100}) as house:
        for event in "abcd":
            house.rank("q", ITEMS, event)
        house.stop()
        with closing(sqlite3.connect(tmp_path / "house.db")) as file:
            file.execute("UPDATE log SET crc = crc + 1 WHERE seq = 4")
            file.commit()
        house.open()
        assert house.info().pending == 4
        assert house.outcome("a", [1]) == "counted"
        assert house.outcome("b", [1]) == "orphan"
        house.pass_(100)
        assert (house.info().pending, house.info().steps) == (0, 3)
        assert "record 4, of a list that waited, cannot be read" in caplog.text
        before = house.state()
        house.recover()
        assert not differences(before, house.state())


def test_a_snapshot_of_another_version_of_the_policy_is_told_and_the_query_starts_anew(tmp_path, monkeypatch, caplog):
    with House(tmp_path, "CascadeUCB1") as house:
        house.rank("q", ITEMS, event="before")
        house.feedback("before", [1])
        house.restart()
        monkeypatch.setattr("driftrank.policies.cascade_ucb1.CascadeUCB1.version", 2)
        house.rank("q", ITEMS, event="after")
        assert house.query("q").steps == 0
    assert "starts anew: its snapshot cannot be used" in caplog.text


def test_a_store_that_cannot_be_written_is_told_once(tmp_path, caplog):
    caplog.set_level("INFO")
    with House(tmp_path, "CascadeUCB1", store=_Moody) as house:
        house.store.full = True
        for n in range(3):
            with house.refused(503):
                house.rank("q", ITEMS, event=f"e{n}")
        house.store.full = False
        house.rank("q", ITEMS, event="after")
    said = [record.getMessage() for record in caplog.records if "the store can" in record.getMessage()]
    assert said == ["the store cannot be written: no room is left on the disk", "the store can be written again"]


def test_queries_that_come_back_are_counted(tmp_path):
    with House(tmp_path, "CascadeUCB1") as house:
        house.rank("q", ITEMS, event="before")
        house.restart()
        assert house.service.metrics.count("loads") == 0
        house.rank("q", ITEMS, event="after")
        house.rank("q", ITEMS, event="later")
        assert house.service.metrics.count("loads") == 1


class _Unreadable(SQLiteStore):
    """A store of which snapshots of queries cannot be read while the test says so."""

    unreadable = False

    def get_snapshot(self, name: str) -> Snapshot | None:
        if self.unreadable and name.startswith("q/"):
            raise StoreError("it cannot be read")
        return super().get_snapshot(name)


def test_a_record_that_is_folded_in_part_is_in_no_checkpoint(tmp_path, caplog):
    with House(tmp_path, store=_Unreadable) as house:
        fill(house, 5)
        house.checkpoint()
        house.service.upkeep._memory = 1
        house.write_out()
        house.store.unreadable = True
        with house.refused(503, "start the service again"):
            house.run(house.service.append([("f/1", Final("default", "e:3", house.clock.now, "feedback", [1]))]))
        house.stop()
        house.open()
        assert house.info().steps == 1
        assert "no checkpoint at the end" in caplog.text
        assert not differences(house.state(), house.folded_anew())


def test_a_start_that_fails_leaves_no_checkpoint_of_half_a_record(tmp_path):
    with House(tmp_path, store=_Unreadable) as house:
        for n in range(5):
            fill(house, 500, f"e{n}")
        before = house.state()
        house.crash()
        apply = Fold._ranked

        def fails(fold: Fold, seq: int, record: Ranked) -> None:
            apply(fold, seq, record)
            if record.event == "e4:400":
                raise StoreError("it cannot be read")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Fold, "_ranked", fails)
            with pytest.raises(StoreError, match="cannot be read"):
                house.open()
            house.stop()
        house.open()
        assert not differences(before, house.state())


def test_silence_of_a_ranker_that_was_deleted_is_not_that_of_the_next_one(tmp_path):
    """Which has its name, and may use its event ids."""
    with House(tmp_path, ranker={"wait": 100}) as house:
        settings = {"policy": "CascadeUCB1", "k": 3, "wait": 100}
        house.put("other", **settings)
        for name in ("default", "other"):
            house.rank("q", ITEMS, "e", ranker=name)
        house.clock.now += 100
        committer = house.service._committer
        append = committer.append

        async def slowly(*args: Any, **how: Any) -> Any:
            committer.append = append  # type: ignore[method-assign]
            settled = await append(*args, **how)
            await house.service.delete_ranker("other")
            await house.service.put_ranker("other", RankerSettings(**settings))
            await house.service.rank("other", [RankRequest("q", ITEMS, event_id="e")])
            return settled

        committer.append = slowly  # type: ignore[method-assign]
        house.run(house.service.upkeep.finalise())
        assert house.info("default").steps == 1
        assert house.outcome("e", [1], ranker="other") == "counted"


def test_a_deferred_list_that_the_log_has_forgotten_is_no_more(tmp_path):
    """In memory neither: what came of it would not be learnt by a replay."""
    with House(tmp_path, ranker={"wait": 100}, retention="30m") as house:
        house.rank("q", ITEMS, "deferred", defer=True)
        house.clock.now += 2000
        house.rank("q", ITEMS, "young")
        house.checkpoint()
        house.forget_old()
        with house.refused(404, "no list has it"):
            house.activate("deferred")
        assert house.outcome("deferred", [1]) == "orphan"
        assert house.outcome("young", [1]) == "counted"
        before = house.state()
        house.recover()
        assert not differences(before, house.state())


def test_a_list_that_begins_to_wait_while_records_are_forgotten_stays(tmp_path):
    with House(tmp_path, ranker={"wait": 100}, retention="30m") as house:
        fill(house, 1000)
        house.rank("q", ITEMS, "deferred", defer=True)
        house.pass_(2000)
        house.rank("q", ITEMS, "young")
        house.checkpoint()
        committer = house.service._committer
        run = committer.run

        async def slowly(work: Any, *args: Any) -> Any:
            committer.run = run  # type: ignore[method-assign]
            await house.service.activate("deferred", ["default"])
            return await run(work, *args)

        committer.run = slowly  # type: ignore[assignment, method-assign]
        house.forget_old()
        house.recover()
        assert house.outcome("deferred", [1]) == "counted"


def test_queries_that_are_only_looked_at_do_not_fill_the_memory(tmp_path):
    memory = 200_000
    with House(tmp_path, memory=memory) as house:
        house.warmstart([WarmRow(f"q{n}", ITEMS[:3], [1]) for n in range(500)])
        house.write_out()
        for n in range(500):
            house.query(f"q{n}")
        assert house.fold.nbytes > memory

        async def wait() -> None:
            while house.fold.nbytes > memory:
                await asyncio.sleep(0.01)

        house.run(asyncio.wait_for(wait(), 30))


@pytest.mark.parametrize("seq", [4, 5])
def test_what_came_of_a_list_and_cannot_be_read_holds_nobody_up(tmp_path, caplog, seq):
    """Of its records the list itself can be read, and its activation or its end cannot."""
    with House(tmp_path, ranker={"wait": 100}) as house:
        house.rank("q", ITEMS, "e", defer=True)
        house.activate("e")
        if seq == 5:
            house.feedback("e", [1])
        house.checkpoint()
        if seq == 4:
            house.feedback("e", [1])  # folded with what is in memory, and once more when it starts again
        house.crash()
        with closing(sqlite3.connect(tmp_path / "house.db")) as file:
            file.execute("UPDATE log SET crc = crc + 1 WHERE seq = ?", (seq,))
            file.commit()
        house.open()
        assert house.outcome("e", [2]) == "orphan"
        house.pass_(100)
        assert house.info().pending == 0
        before = house.state()
        house.recover()
        assert not differences(before, house.state())


def test_a_ranker_that_is_no_more_is_not_counted(tmp_path):
    """Or those who make rankers by the day would be told of all of them for ever."""
    with House(tmp_path) as house:
        house.put("other", policy="CascadeUCB1", k=3)
        house.rank("q", ITEMS, "e", ranker="other")
        house.feedback("e", [1], ranker="other")
        assert b'ranker="other"' in house.service.metrics.render()
        house.delete("other")
        assert b'ranker="other"' not in house.service.metrics.render()


def during_a_checkpoint(house: House, work: Callable[[], Awaitable[Any]]) -> None:
    """Have something done when all snapshots are written, and before what says up to where they are good."""
    upkeep = house.service.upkeep
    snapshot = upkeep.snapshot

    async def and_then(*args: Any) -> None:
        await snapshot(*args)
        upkeep.snapshot = snapshot  # type: ignore[method-assign]
        await work()

    upkeep.snapshot = and_then  # type: ignore[method-assign]
    house.checkpoint()


@pytest.mark.parametrize("written", ["never", "in vain", "after all"])
def test_a_deleted_query_that_comes_back_during_a_checkpoint_begins_anew(tmp_path, written):
    with House(tmp_path, store=_Moody) as house:
        house.rank("q", ITEMS, "e1")
        house.feedback("e1", [1])
        house.checkpoint()
        house.reset("q", gone=True)

        async def comes_back() -> None:
            await house.service.rank("default", [RankRequest("q", ITEMS, event_id="e2")])
            house.store.snapshots_fail = written == "in vain"
            if written != "never":
                with suppress(StoreFull):
                    await house.service.upkeep.snapshot([("default", "q")])
            house.store.snapshots_fail = False

        during_a_checkpoint(house, comes_back)
        before = house.state()
        house.recover()
        assert house.query("q").steps == 0
        assert not differences(before, house.state())
        house.clean_up()
        assert not house.fold.gone


@pytest.mark.parametrize("waits", [True, False])
def test_a_list_that_was_done_since_the_last_checkpoint_stays(tmp_path, waits):
    """A replay from there asks for it, when it comes to what became of it."""
    with House(tmp_path, ranker={"wait": 100}, retention="30m") as house:
        house.rank("q", ITEMS, "deferred", defer=True)
        house.clock.now += 2000
        if waits:
            house.activate("deferred")
        house.checkpoint()
        if not waits:
            house.activate("deferred")
        assert house.outcome("deferred", [1]) == "counted"
        before = house.state()
        for _ in range(2):  # it is not known from this life alone
            house.forget_old()
            house.recover()
            assert not differences(before, house.state())
        assert house.info().steps == 1
        house.checkpoint()
        house.forget_old()
        assert len(house.log()) == 2, "which are young"


def test_a_disk_that_is_full_from_the_start(tmp_path):
    """Who started it is told, in the words of the store."""

    async def life() -> None:
        with _Moody(tmp_path / "x.db") as store:
            store.full = True
            service = Service(store, ServerSettings())
            with pytest.raises(StoreFull, match="no room is left"):
                await service.start()
            await service.stop()

    asyncio.run(life())


def test_only_what_leaves_the_memory_is_counted_as_evicted(tmp_path):
    with House(tmp_path) as house:
        fill(house, 10)
        house.service.upkeep._memory = 1
        snapshot = house.service.upkeep.snapshot

        async def and_then(which: Any) -> None:
            await snapshot(which)
            house.service.upkeep.snapshot = snapshot  # type: ignore[method-assign]
            await house.service.rank("default", [RankRequest("q3", ITEMS, event_id="again")])

        house.service.upkeep.snapshot = and_then  # type: ignore[assignment, method-assign]
        house.write_out()
        assert not house.fold.queries
        assert house.service.metrics.count("evictions") == 10, "each of them once"


def test_a_query_that_is_deleted_once_more_during_a_checkpoint(tmp_path):
    """It was there at the checkpoint: a replay must find it, to count that it is no more."""
    with House(tmp_path) as house:
        house.rank("q", ITEMS, "e1")
        house.checkpoint()
        house.reset("q", gone=True)
        house.rank("q", ITEMS, "e2")
        during_a_checkpoint(house, lambda: house.service.reset("default", "q", gone=True))
        before = house.state()
        house.recover()
        assert house.info().queries == 0
        assert not differences(before, house.state())
