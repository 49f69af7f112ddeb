"""All kinds of requests at the same time, in random order: the state is that of the log, and nothing hangs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from driftrank.serve.log.store.base import Snapshot, StoreFull
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.problems import Refused
from driftrank.wire import Feedback, Item, RankerSettings, RankRequest, WarmRow
from tests.serve.harness import Harness, differences

POLICIES = ["CascadeUCB1", "RankedEXP3", "BubbleRank:horizon=1000", "BatchRank:horizon=1000", "CascadeLinUCB"]
HOW: dict[str, Any] = {"wait": 100, "forget_items": 100}


class _Failing(SQLiteStore):
    """A store whose disk is full at random times."""

    chance: random.Random | None = None

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        self._fails()
        return super().append(entries)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), **how: Any) -> None:
        self._fails()
        super().put_snapshots(snapshots, gone, **how)

    def _fails(self) -> None:
        if self.chance is not None and self.chance.random() < 0.2:
            raise StoreFull("the disk is full")


class Crowd:
    """Random concurrent requests."""

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.chance = random.Random(seed)
        self.states: dict[str, bytes] = {}

    def one(self) -> Coroutine[Any, Any, Any]:
        chance, service = self.chance, self.harness.service
        query, event = f"q{chance.randrange(4)}", f"e:{chance.randrange(40)}"
        ids = chance.sample(range(12), chance.randint(1, 8))
        width = chance.choice([None, 2, 2, 2, 3])
        items = ids if width is None else [Item(n, [chance.random() for _ in range(width)]) for n in ids]
        settings = RankerSettings(policy=chance.choice(POLICIES), k=chance.choice([2, 3]), **HOW)
        rows = [WarmRow(query, chance.sample(range(12), 3), [1])] * chance.randint(1, 3)
        late = chance.random() < 0.2
        few, some, many = 1, 3, 20
        what = [
            (many, lambda: service.rank("default", [RankRequest(query, items, event_id=event, defer=late)])),
            (many, lambda: service.feedback("default", [Feedback(event, [1] if chance.random() < 0.5 else [])])),
            (some, lambda: service.activate(event, ["default"])),
            (few, lambda: service.reset("default")),
            (some, lambda: service.reset("default", query)),
            (some, lambda: service.reset("default", query, gone=True)),
            (few, lambda: service.append([service._changes.setting_record("default", settings, "")])),
            (few, lambda: self.recreated(settings)),
            (some, lambda: self.harness.transfer.warmstart("default", rows, chance.choice([None, "x", "y"]))),
            (some, self.export),
            (some, lambda: self.harness.transfer.import_("default", list(self.states.items()))),
            (some, lambda: service.maintenance.checkpoint()),
            (some, lambda: service.maintenance.evict()),
            (some, lambda: service.maintenance.end_feedback_windows()),
            (some, lambda: service.maintenance._drop_outdated()),
        ]  # fmt: skip
        return chance.choices([work for _, work in what], [n for n, _ in what])[0]()

    async def recreated(self, settings: RankerSettings) -> None:
        service = self.harness.service
        await service.delete_ranker("default")
        await service.append([service._changes.setting_record("default", settings, "")])

    async def export(self) -> None:
        self.states = {query: state async for query, state in self.harness.transfer.export("default")}

    async def all_at_once(self, n: int) -> None:
        results = await asyncio.gather(*[self.one() for _ in range(n)], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Refused | StoreFull):
                raise result
            assert not isinstance(result, Refused) or result.status in (404, 409, 422, 503), result


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 111, 113])
@pytest.mark.parametrize("failing", [False, True])
def test_the_state_is_that_of_the_log(tmp_path, seed, failing):
    with Harness(tmp_path, POLICIES[seed % 5], tiny=seed % 2 == 0, ranker=HOW, store=_Failing) as harness:
        crowd = Crowd(harness, seed)
        for n in range(25):
            harness.store.chance = random.Random(n) if failing else None
            harness.run(asyncio.wait_for(crowd.all_at_once(12), 30))
            harness.store.chance = None
            harness.clock.now += crowd.chance.choice([0, 1, 30, 120])
            if "default" not in harness.state.rankers:
                harness.put(policy="CascadeUCB1", k=3, **HOW)
            if n % 5 == 4:
                harness.end_feedback_windows()  # else the next start may do so while its state is compared
                harness.commit()
                before = harness.dump()
                assert not differences(before, harness.dump_of_log())
                harness.recover()
                assert not differences(before, harness.dump())
        harness.end_feedback_windows()
        harness.advance(1000)
        assert harness.info().pending == 0
        assert harness.state.queries.nbytes == sum(query.nbytes for query in harness.state.queries.values())


def test_a_ranker_that_is_set_and_deleted_at_the_same_time(tmp_path):
    with Harness(tmp_path) as harness:
        harness.put("made", k=3)
        service = harness.service

        async def in_one_commit() -> Any:
            committer = service._committer
            committer._next_at = asyncio.get_running_loop().time() + 60
            setting = asyncio.ensure_future(service.put_ranker("made", RankerSettings(k=2)))
            while not committer.queued:
                await asyncio.sleep(0.001)
            deleting = asyncio.ensure_future(service.delete_ranker("made"))
            while committer.queued < 2:
                await asyncio.sleep(0.001)
            committer._commit()
            return await asyncio.gather(setting, deleting, return_exceptions=True)

        refused, deleted = harness.run(in_one_commit())
        assert isinstance(refused, Refused)
        assert (refused.status, refused.title, deleted) == (409, "Changed meanwhile", None)
