"""A service without HTTP, over a store in a folder, in an event loop of its own. The test sets the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import msgpack, to_builtins

from driftrank.serve.answers.queries import Introspection
from driftrank.serve.log.records import Record, decode
from driftrank.serve.log.store.base import LogOnly
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.operations.transfer import Transfer
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service, StartReplay
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.state import State
from driftrank.wire import (
    Activation,
    Clicked,
    Counted,
    Feedback,
    FeedbackResult,
    QueryState,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
    WarmRow,
)

T = TypeVar("T")
CHEAP = "CascadeUCB1"


class Clock:
    """The clock of the service."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Harness:
    """Opened by ``Harness(folder)``, closed at the end of a ``with`` block."""

    def __init__(
        self, folder: Path, policy: str | None = CHEAP, *, store: type[SQLiteStore] = SQLiteStore, tiny: bool = False,
        ranker: dict[str, Any] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.clock = Clock()
        self._path = folder / "service.db"
        self._kind = store
        self.settings = ServerSettings(**({"checkpoint_seconds": 3600.0} | settings))
        self._tiny = tiny
        self.open()
        # by a request: rankers in the settings are set again at every start
        if policy is not None:
            self.put(**({"policy": policy, "k": 3} | (ranker or {})))

    @classmethod
    def at(cls, folder: Path, **how: Any) -> Harness:
        """One with the store that is in the folder, unchanged."""
        return cls(folder, None, **how)

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    # -- start and stop --------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self.store = self._kind(self._path, durability="relaxed")
        self.service = Service(self.store, self.settings, clock=self.clock)
        self.replay: StartReplay = self.run(self._start())

    async def _start(self) -> StartReplay:
        starting = asyncio.ensure_future(self.service.start())
        if self._tiny:  # no query stays in memory
            await asyncio.sleep(0)
            self.service.maintenance._memory = 1
        return await starting

    def stop(self) -> None:
        """Gracefully."""
        self.run(self.service.stop())
        self._runner.close()

    def crash(self) -> None:
        """Without writing anything."""
        self._runner.close()
        self.service._committer._writer.shutdown()
        self.store.close()

    def restart(self) -> StartReplay:
        self.stop()
        self.open()
        return self.replay

    def recover(self) -> StartReplay:
        """Crash and start again."""
        self.crash()
        self.open()
        return self.replay

    def commit(self) -> None:
        """Wait for records of tasks that nobody awaits, such as the ends of feedback windows."""

        async def committed() -> None:
            committer = self.service._committer
            while committer._busy or committer._waiting:
                await asyncio.sleep(0.001)

        self.run(committed())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    # -- requests --------------------------------------------------------------------------------------------------

    def rank(
        self, query: str, items: Sequence[Any], event: str | None = None, ranker: str = "default", **how: Any
    ) -> RankResponse:
        (answer,) = self.run(self.service.rank(ranker, [RankRequest(query, list(items), event_id=event, **how)]))
        return answer

    def shown(self, *args: Any, **how: Any) -> list[Any]:
        """The items of a ranking."""
        return [item.id for item in self.rank(*args, **how).items]

    def feedback(
        self, event: str, clicks: Sequence[Any] | None = None, ranker: str = "default", **how: Any
    ) -> FeedbackResult:
        """Clicks on items or, if they are integers, on positions."""
        at = None if clicks is None else [Clicked(position=c) if isinstance(c, int) else c for c in clicks]
        feedback = Feedback(event, at, **how)
        (result,) = self.run(self.service.feedback(ranker, [feedback]))
        return result

    def outcome(self, *args: Any, **how: Any) -> str:
        return self.feedback(*args, **how).outcome

    def activate(self, event: str, ranker: str = "default") -> Activation:
        return self.run(self.service.activate(event, [ranker]))

    def warmstart(self, rows: Sequence[WarmRow], batch: str | None = None, ranker: str = "default") -> Counted:
        return self.run(self.transfer.warmstart(ranker, rows, batch))

    def put(self, ranker: str = "default", **settings: Any) -> RankerInfo:
        return self.run(self.service.put_ranker(ranker, RankerSettings(**settings), discard=True))

    def reset(self, query: str | None = None, *, gone: bool = False, ranker: str = "default") -> None:
        self.run(self.service.reset(ranker, query, gone=gone))

    def delete(self, ranker: str) -> None:
        self.run(self.service.delete_ranker(ranker))

    def export(self, ranker: str = "default") -> dict[str, bytes]:
        async def states() -> dict[str, bytes]:
            return {query: state async for query, state in self.transfer.export(ranker)}

        return self.run(states())

    def import_(self, states: dict[str, bytes], ranker: str = "default") -> Counted:
        return self.run(self.transfer.import_(ranker, list(states.items())))

    def info(self, ranker: str = "default") -> RankerInfo:
        return self.service.info(ranker)

    @contextmanager
    def refused(self, status: int, says: str = "") -> Iterator[None]:
        with pytest.raises(Refused) as caught:
            yield
        assert caught.value.status == status, caught.value
        assert says in f"{caught.value.title}: {caught.value}", caught.value

    # -- maintenance -----------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Advance the clock, and end the feedback windows that are over then."""
        self.clock.now += seconds
        self.end_feedback_windows()

    def end_feedback_windows(self) -> None:
        async def until_done() -> None:
            while await self.service.maintenance.end_feedback_windows():
                pass

        self.run(until_done())

    def checkpoint(self) -> None:
        self.run(self.service.maintenance.checkpoint())

    def evict(self) -> None:
        """As much as the memory requires."""
        self.run(self.service.maintenance.evict())

    def drop_outdated(self) -> None:
        """Drop all snapshots that are not valid any more."""
        self.checkpoint()
        self.run(self.service.maintenance._drop_outdated())

    def forget_old(self) -> None:
        self.run(self.service.maintenance._forget_old())

    # -- the state -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.service.state

    @property
    def introspection(self) -> Introspection:
        return Introspection(self.service)

    @property
    def transfer(self) -> Transfer:
        return Transfer(self.service)

    def query(self, name: str, ranker: str = "default", arm: str = "") -> QueryState:
        return self.run(self.introspection.state(ranker, name, arm=arm))

    def log(self) -> list[tuple[int, Record]]:
        return [(entry.seq, decode(entry.body)) for entry in self.store.read(0, 1_000_000)]

    def names(self, ranker: str = "default") -> list[str]:
        return self.run(self.introspection.names(ranker, None, 1000))

    def dump(self) -> dict[str, Any]:
        return dump(self.state, {name: self.names(name) for name in self.state.rankers})

    def dump_of_log(self) -> dict[str, Any]:
        """The state that the log alone gives."""
        state = State(LogOnly(self.store), Metrics())
        for seq, record in self.log():
            state.apply(seq, record)
        return dump(state, {name: sorted(q for r, q in state.queries if r == name) for name in state.rankers})


def dump(state: State, names: dict[str, list[str]]) -> dict[str, Any]:
    """The whole state, for comparison to the bit. ``names``: of the queries of each ranker."""
    out: dict[str, Any] = {"seq": state.seq, "clock": state.clock, "operations": state.operations}
    for name, ranker in state.rankers.items():
        queries = {}
        for query_name in names[name]:
            query = state.query(ranker, query_name)
            assert query is not None
            queries[query_name] = query.to_bytes()
        out[name] = {
            "settings": ranker.settings, "created": ranker.created, "since": ranker.since, "queries": ranker.queries,
            "impressions": ranker.impressions, "steps": ranker.steps, "clicks": ranker.clicks,
            "waiting": ranker.waiting.to_bytes(), "collected": dict(ranker.collected),
            "deferred": dict(ranker.deferred), "withdrawn": dict(ranker.withdrawn), "sizes": ranker.sizes,
            "value": ranker.value, "values": ranker.values, "stable": ranker.stable_lists.to_bytes(),
            "arms": {label: _dump_arm(state, arm) for label, arm in ranker.arms.items()},
            "experiment": msgpack.encode(ranker.experiment), "series": ranker.series.saved(),
            "of queries": queries, "traffic": to_builtins(ranker.traffic.queries), "changes": ranker.changes,
            "shared": None if ranker.shared is None else ranker.shared.to_bytes(), "shared seq": ranker.shared_seq,
        }  # fmt: skip
    return out


def _dump_arm(state: State, arm: Arm) -> dict[str, Any]:
    """An arm besides a ranker's own, with those of its queries that are in memory."""
    queries = {name: state.queries[owner, name].to_bytes() for owner, name in state.queries if owner == arm.owner}
    return {
        "settings": arm.settings, "since": arm.since, "queries": arm.queries, "impressions": arm.impressions,
        "steps": arm.steps, "clicks": arm.clicks, "value": arm.value, "sizes": arm.sizes, "of queries": queries,
        "shared": None if arm.shared is None else arm.shared.to_bytes(), "shared seq": arm.shared_seq,
    }  # fmt: skip


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The differences of two dumps, as text: dumps themselves are long."""
    if isinstance(one, dict) and isinstance(other, dict):
        out = []
        for key in sorted({*one, *other}, key=str):
            if key not in one or key not in other:
                out.append(f"{path}/{key}: only in one of them")
            else:
                out += differences(one[key], other[key], f"{path}/{key}")
        return out
    return [] if one == other else [f"{path}: {str(one)[:300]} != {str(other)[:300]}"]
