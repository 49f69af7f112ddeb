"""The core of the service: its state and its log, as requests and their handlers use them.

A request becomes records, the records are committed, then folded, and only then is it answered. Nothing in memory
changes before that, so a commit that fails has no effect.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from driftrank.serve.log.committer import Committer, NewRecord, QueueFull, Settled
from driftrank.serve.log.store.base import Store, StoreError, StoreUnknown
from driftrank.serve.log.store.shared import Node, SharedStore
from driftrank.serve.maintenance import Maintenance
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.problems import Refused
from driftrank.serve.ranking.explore import shown_as_ranked
from driftrank.serve.ranking.items import check_id
from driftrank.serve.settings.ranker import notes
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.sharing.follower import Follower
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.queries import QueryKey, QueryTable
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.wire import Explored, ItemId, RankerInfo, RankerSettings, SharedState

NOT_READY = "the service is starting or stopping"
#: seconds that a request waits at most for what its client has seen at another node
_MOST_BEHIND = 0.2


class ServiceCore:
    """State and log: reading, appending, waiting for what other services write, and the limits of requests."""

    maintenance: Maintenance  #: from the start on
    _committer: Committer  # the same

    def __init__(self, store: Store, settings: ServerSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.ready = False
        self.starting = True
        self.doing = NOT_READY  #: the reason why it is not ready
        self.store = store
        self.shared = isinstance(store, SharedStore)  #: other services may write to the log, too
        self._clock = clock
        #: one batch of a ranker is computed at a time: many of them would share the loop with everybody else
        self.one_batch: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._now = 0.0  # the last time given out: it may be in records that are not folded yet
        self.state = State(store, self.metrics, HeldQueries if self.shared else QueryTable)
        self._follower: Follower | None = None  # if others write to the log, too

    @property
    def problem(self) -> str | None:
        """The reason why nothing can be written at the moment."""
        if not self.ready:
            return self.doing
        return self._committer.problem or (self._follower.late if self._follower else None)

    def check_ready(self) -> None:
        """Raise unless requests can be answered."""
        if not self.ready:
            raise Refused(503, "Not ready", self.doing, {"Retry-After": "1"})

    def now(self) -> float:
        """The server's time. It stands still while the clock is behind it."""
        if self._follower is not None:  # not the time of records: one clock ahead would stop all
            self._now = max(self._follower.now(self._clock()), self._now)
        else:
            self._now = max(self._clock(), self.state.clock, self._now)
        return self._now

    @property
    def position(self) -> int | None:
        """The last record that was folded, if others write to the log, too."""
        return None if self._follower is None else self.state.seq

    # -- read ------------------------------------------------------------------------------------------------------

    def ranker(self, name: str) -> Ranker:
        self.check_ready()
        try:
            return self.state.rankers[name]
        except KeyError:
            raise no_ranker(name) from None

    def arm(self, name: str, arm: str | None) -> Arm:
        """An arm of a ranker; None: its own."""
        found = self.ranker(name).arm(arm or "")
        if found is None:
            raise Refused(404, "No such arm", f"arm={arm!r}: ranker {name!r} has no such arm")
        return found

    def ranker_names(self) -> list[str]:
        self.check_ready()
        return sorted(self.state.rankers)

    def ranker_settings(self) -> dict[str, RankerSettings]:
        """The settings of all rankers; as long as the log is not replayed, those of the settings file, too."""
        known = {"default": RankerSettings(), **self.settings.rankers} if self.starting else {}
        return known | {name: ranker.settings for name, ranker in self.state.rankers.items()}

    def info(self, name: str) -> RankerInfo:
        r = self.ranker(name)
        shared = None if r.shared is None else SharedState(**r.shared.summary(), bytes=r.shared.nbytes)
        arms = list(r.every_arm())
        queries, lists, steps, clicks, value = (
            sum(getattr(arm, count) for arm in arms) for count in ("queries", "impressions", "steps", "clicks", "value")
        )
        worth = value if value != clicks else None
        explored = Explored(*shown_as_ranked(r.settings.k, r.explore)) if r.explore else None
        pending, said = len(r.waiting), notes(r.settings)
        return RankerInfo(name, r.settings, queries, lists, steps, clicks, pending, shared, worth, explored, said)

    async def reach(self, seq: int) -> None:
        """Wait a moment for a record that the caller has seen elsewhere."""
        if self._follower is not None and self.ready and seq > self.state.seq:
            await self._follower.reach(seq, _MOST_BEHIND)

    async def hold(self, name: str, queries: Iterable[str]) -> None:
        """See that queries are in memory, if others write to the log, too; the store can be read at once otherwise."""
        if self._follower is not None:
            try:
                await self._follower.hold(self._keys(name, queries))
            except StoreError as error:
                raise Refused(503, "Store not readable", str(error), {"Retry-After": "1"}) from None

    async def hold_until_await(self, name: str, query: str) -> None:
        """As :meth:`hold`, until the next await."""
        if self._follower is not None:
            while not all(self.state.queries.holds(key) for key in self._keys(name, [query])):
                await self.hold(name, [query])

    async def settle(self) -> None:
        """Wait until what an answer from memory is about is durable, if others write to the log, too: their records can
        be read before they are.
        """
        if self._follower is not None:
            try:
                await self._follower.settle()
            except StoreError as error:
                raise Refused(503, "Store not writable", str(error), {"Retry-After": "1"}) from None

    def _keys(self, name: str, queries: Iterable[str]) -> list[QueryKey]:
        """Queries of all arms of a ranker."""
        arms = list(self.ranker(name).every_arm())
        return [(arm.owner, query) for query in queries for arm in arms]

    async def impressions(self, ranker: Ranker, event_ids: Iterable[str]) -> dict[str, Impression | None]:
        """Impressions by event id."""
        ids = list(dict.fromkeys(event_ids))
        if self._follower is None:
            return {event_id: self.state.impression(ranker, event_id) for event_id in ids}
        found = await self._follower.find([(ranker.name, ranker.created, event_id) for event_id in ids])
        return dict(zip(ids, found, strict=True))

    async def impressions_of(self, ranker: Ranker, records: Sequence[int]) -> list[Impression]:
        """Impressions by their records, ascending; without those that the log has forgotten."""
        known = {seq: self.state.impressions.in_memory(seq) for seq in records}
        missing = [seq for seq, found in known.items() if found is None]
        if missing:
            read = await self._committer.run(self.state.impressions.read_ranked, missing, ranker.created)
            known |= {it.seq: it for it in read}
        return [found for found in known.values() if found is not None]

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        """Call a method that reads the store; one in a database is read beside the event loop."""
        return await self._committer.read(work, *args)

    async def store_use(self) -> tuple[int | None, list[Node]]:
        """The size of the store, and the services that use it if several can; nothing if it cannot be read."""
        try:
            size: int = await self._committer.run(self.store.size)
            if isinstance(self.store, SharedStore):
                return size, await self._committer.run(self.store.nodes)
            return size, []
        except StoreError:
            return None, []

    # -- write -----------------------------------------------------------------------------------------------------

    async def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> list[Settled]:
        try:
            return await self._committer.append(records, urgent=urgent)
        except QueueFull:
            detail = "the queue of records to be written is full"
            raise Refused(429, "Too many requests", detail, {"Retry-After": "1"}) from None
        except StoreUnknown as error:
            self.metrics.add("store_errors", (type(error).__name__,))
            detail = f"{error}; the outcome is unknown: the same request, with its event_id, settles it"
            raise Refused(503, "Outcome unknown", detail, {"Retry-After": "1"}) from None
        except StoreError as error:
            self.metrics.add("store_errors", (type(error).__name__,))
            raise Refused(503, "Store not writable", str(error), {"Retry-After": "5"}) from None

    # -- limits ----------------------------------------------------------------------------------------------------

    def check_batch(self, n: int) -> None:
        if not 1 <= n <= self.settings.max_batch:
            raise Refused(422, "Bad value", f"{n} requests at once: must be from 1 to {self.settings.max_batch}")

    def check_id(self, name: str, value: ItemId) -> None:
        check_id(name, value, self.settings.max_id)

    def check_named(self, name: str, value: str) -> None:
        """Check an id that is not in a body."""
        try:
            self.check_id(name, value)
        except ValueError as error:
            raise Refused(422, "Bad value", str(error)) from None


def no_ranker(name: str) -> Refused:
    detail = f"ranker {name!r}: no such ranker; add it to the settings or create it with PUT"
    return Refused(404, "No such ranker", detail)


def no_query(ranker: str, query: str) -> Refused:
    return Refused(404, "No such query", f"query {query!r}: ranker {ranker!r} has no such query")


def unique_id(kind: str) -> str:
    """An id for a record that may be repeated."""
    return f"{kind}/{os.urandom(12).hex()}"
