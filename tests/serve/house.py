"""A service without the web, over a store in a folder, in a loop of its own. Time passes only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from driftrank.serve.config import ServerSettings
from driftrank.serve.fold import Fold
from driftrank.serve.metrics import Metrics
from driftrank.serve.problems import Refused
from driftrank.serve.queries import Queries
from driftrank.serve.records import Record, decode
from driftrank.serve.service import Replay, Service
from driftrank.serve.store.base import Snapshot
from driftrank.serve.store.sqlite import SQLiteStore
from driftrank.serve.transfer import Transfer
from driftrank.wire import (
    Activation,
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
    """The time, as far as the service knows."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class House:
    """Opened by ``House(folder)``; closed at the end of a ``with`` block."""

    def __init__(
        self, folder: Path, policy: str | None = CHEAP, *, store: type[SQLiteStore] = SQLiteStore, tiny: bool = False,
        ranker: dict[str, Any] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.clock = Clock()
        self._path = folder / "house.db"
        self._kind = store
        self.settings = ServerSettings(**({"checkpoint_seconds": 3600.0} | settings))
        self._tiny = tiny
        self.open()
        # by a request: settings of the server would be set again at every start
        if policy is not None:
            self.put(**({"policy": policy, "k": 3} | (ranker or {})))

    @classmethod
    def at(cls, folder: Path, **how: Any) -> House:
        """One that is there already, as it is."""
        return cls(folder, None, **how)

    def __enter__(self) -> House:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    # -- life ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self.store = self._kind(self._path, durability="relaxed")
        self.service = Service(self.store, self.settings, clock=self.clock)
        self.replay: Replay = self.run(self._start())

    async def _start(self) -> Replay:
        starting = asyncio.ensure_future(self.service.start())
        if self._tiny:  # no query has room: each is written out and read again
            await asyncio.sleep(0)
            self.service.upkeep._memory = 1
        return await starting

    def stop(self) -> None:
        """In peace."""
        self.run(self.service.stop())
        self._runner.close()

    def crash(self) -> None:
        """Nothing is written any more."""
        self._runner.close()
        self.service._committer._writer.shutdown()
        self.store.close()

    def restart(self) -> Replay:
        self.stop()
        self.open()
        return self.replay

    def recover(self) -> Replay:
        """Crash and come back."""
        self.crash()
        self.open()
        return self.replay

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    # -- requests --------------------------------------------------------------------------------------------------

    def rank(
        self, query: str, items: Sequence[Any], event: str | None = None, ranker: str = "default", **how: Any
    ) -> RankResponse:
        (answer,) = self.run(self.service.rank(ranker, [RankRequest(query, list(items), event_id=event, **how)]))
        return answer

    def shown(self, *args: Any, **how: Any) -> list[Any]:
        """The list alone."""
        return [item.id for item in self.rank(*args, **how).items]

    def feedback(
        self, event: str, clicks: Sequence[Any] | None = None, ranker: str = "default", **how: Any
    ) -> FeedbackResult:
        said = Feedback(event, None if clicks is None else list(clicks), **how)
        (result,) = self.run(self.service.feedback(ranker, [said]))
        return result

    def outcome(self, *args: Any, **how: Any) -> str:
        return self.feedback(*args, **how).outcome

    def activate(self, event: str, ranker: str = "default") -> Activation:
        return self.run(self.service.activate(event, [ranker]))

    def warmstart(self, rows: Sequence[WarmRow], batch: str | None = None, ranker: str = "default") -> Counted:
        return self.run(self.transfer.warmstart(ranker, rows, batch))

    def put(self, ranker: str = "default", **settings: Any) -> RankerInfo:
        return self.run(self.service.put_ranker(ranker, RankerSettings(**settings)))

    def reset(self, query: str | None = None, *, gone: bool = False, ranker: str = "default") -> None:
        self.run(self.service.reset(ranker, query, gone=gone))

    def delete(self, ranker: str) -> None:
        self.run(self.service.delete_ranker(ranker))

    def export(self, ranker: str = "default") -> dict[str, bytes]:
        async def all_of_it() -> dict[str, bytes]:
            return {query: state async for query, state in self.transfer.export(ranker)}

        return self.run(all_of_it())

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

    # -- what happens by itself ------------------------------------------------------------------------------------

    def pass_(self, seconds: float) -> None:
        """Time goes by, and what is due is done."""
        self.clock.now += seconds
        self.finalise()

    def finalise(self) -> None:
        async def until_done() -> None:
            while await self.service.upkeep.finalise():
                pass

        self.run(until_done())

    def checkpoint(self) -> None:
        self.run(self.service.upkeep.checkpoint())

    def write_out(self) -> None:
        """As much as the memory says."""
        self.run(self.service.upkeep.shrink())

    def clean_up(self) -> None:
        """All snapshots that are of no use are dropped."""
        self.checkpoint()
        self.run(self.service.upkeep._clean_up())

    def forget_old(self) -> None:
        self.run(self.service.upkeep._forget_old())

    # -- looking in ------------------------------------------------------------------------------------------------

    @property
    def fold(self) -> Fold:
        return self.service.fold

    @property
    def queries(self) -> Queries:
        return Queries(self.service)

    @property
    def transfer(self) -> Transfer:
        return Transfer(self.service)

    def query(self, name: str, ranker: str = "default") -> QueryState:
        return self.queries.state(ranker, name)

    def log(self) -> list[tuple[int, Record]]:
        return [(entry.seq, decode(entry.body)) for entry in self.store.read(0, 1_000_000)]

    def names(self, ranker: str = "default") -> list[str]:
        return self.queries.names(ranker, None, 1000)

    def state(self) -> dict[str, Any]:
        return state_of(self.fold, {name: self.names(name) for name in self.fold.rankers})

    def folded_anew(self) -> dict[str, Any]:
        """The state as the log alone gives it."""
        fold = Fold(_NoSnapshots(self.store), Metrics())  # type: ignore[arg-type]
        for seq, record in self.log():
            fold.apply(seq, record)
        return state_of(fold, {name: sorted(q for r, q in fold.queries if r == name) for name in fold.rankers})


class _NoSnapshots:
    """A store that never had any."""

    def __init__(self, store: SQLiteStore) -> None:
        self.find = store.find
        self.read = store.read

    def get_snapshot(self, name: str) -> Snapshot | None:
        return None


def state_of(fold: Fold, names: dict[str, list[str]]) -> dict[str, Any]:
    """All of it, for comparison to the bit."""
    out: dict[str, Any] = {"seq": fold.seq, "clock": fold.clock}
    for name, ranker in fold.rankers.items():
        queries = {}
        for query_name in names[name]:
            query = fold.query(ranker, query_name)
            assert query is not None
            queries[query_name] = query.to_bytes()
        counts = {"queries": ranker.queries, "lists": ranker.lists, "steps": ranker.steps, "clicks": ranker.clicks}
        out[name] = {
            "settings": ranker.settings, "since": ranker.since, **counts, "pending": ranker.pending.to_bytes(),
            "collected": dict(ranker.collected), "deferred": dict(ranker.deferred), "of queries": queries,
        }  # fmt: skip
    return out


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two states differ, in words: states themselves are long."""
    if isinstance(one, dict) and isinstance(other, dict):
        out = []
        for key in sorted({*one, *other}, key=str):
            if key not in one or key not in other:
                out.append(f"{path}/{key}: only in one of them")
            else:
                out += differences(one[key], other[key], f"{path}/{key}")
        return out
    return [] if one == other else [f"{path}: {str(one)[:300]} != {str(other)[:300]}"]
