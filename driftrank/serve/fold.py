"""The state of the service: a fold over the records of its log.

Only :meth:`Fold.apply` changes it, one record after the other in the order of the log, and all it looks at is the
record and the state: the same log gives the same state, to the bit, on any machine.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, msgpack

from driftrank.policies.base import Policy
from driftrank.policies.durations import seconds
from driftrank.policies.learner import Learner
from driftrank.serve.config import policy_of
from driftrank.serve.events import Event, Events
from driftrank.serve.metrics import Metrics
from driftrank.serve.pending import Pending
from driftrank.serve.query import Query, begin
from driftrank.serve.records import (
    Activated,
    Clicked,
    Final,
    Imported,
    Lost,
    Ranked,
    RankerDeleted,
    RankerSet,
    Record,
    Reset,
    Warm,
)
from driftrank.serve.store.base import Snapshot, Store, StoreError
from driftrank.wire import ItemId, RankerSettings

_log = logging.getLogger("driftrank.serve")
CHECKPOINT = "checkpoint"
COUNTS = "counts"
#: settings that make what was learnt so far useless
_RESTART = ("policy", "k", "seed", "horizon")


class Ranker:
    """A ranker: settings, and counts over all its queries."""

    def __init__(self, name: str, settings: RankerSettings, since: int, *, chosen: bool) -> None:
        self.name = name
        self.born = since  #: the record that made it; lists of an earlier one of this name are another's
        self.since = since  #: the record that it began to learn with; what was learnt before does not count
        self.queries = self.lists = self.steps = self.clicks = 0
        self.pending = Pending()
        #: of lists whose clicks are collected: those so far, and how many items were shown
        self.collected: dict[int, tuple[list[int], int | None]] = {}
        #: the lists behind waits that an activation began
        self.deferred: dict[int, int] = {}
        self.set(settings, chosen=chosen)

    def set(self, settings: RankerSettings, *, chosen: bool) -> None:
        self.settings = settings
        self.chosen = chosen  #: somebody named the policy
        self.policy: Policy = policy_of(settings)
        self.spec = self.policy.spec
        self.wait = seconds("wait", settings.wait)
        self.keep = seconds("forget_items", settings.forget_items)

    def begin(self, query: str, items: Sequence[ItemId], features: list[list[float]] | None = None) -> Learner:
        """A learner for a query that nobody asked before."""
        settings = self.settings
        return begin(self.policy, settings.k, items, features, settings.seed, settings.horizon, query)

    def learnt(self, clicks: Sequence[int]) -> None:
        """A list was learnt from."""
        self.steps += 1
        self.clicks += len(clicks)

    def restart(self, seq: int) -> None:
        """Forget what was learnt."""
        self.since = seq
        self.queries = self.lists = self.steps = self.clicks = 0


class Ready(NamedTuple):
    """A learner that has all items of a coming list."""

    query: Query | None  #: which it was copied from, if from any
    version: int  #: at which time
    learner: Learner


class _SavedRanker(Struct):
    born: int
    settings: RankerSettings
    since: int
    queries: int
    lists: int
    steps: int
    clicks: int
    pending: bytes
    collected: dict[int, tuple[list[int], int | None]]
    deferred: dict[int, int]
    chosen: bool = True


#: of a ranker: queries, lists, steps, clicks
_Counts = tuple[int, int, int, int]


class _Saved(Struct):
    clock: float
    rankers: dict[str, _SavedRanker]
    outdated: list[str]


class Fold:
    """Rankers, queries, waiting lists."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self.metrics = metrics
        self.seq = 0  #: the last record folded
        self.clock = 0.0  #: the time of it
        self._torn = False  # a record is in it in part
        #: the oldest record that a replay from the last checkpoint asks for, though nobody may wait for it any more
        self.needed = 0
        self.rankers: dict[str, Ranker] = {}
        self.events = Events(store)
        #: queries in memory, the least recently used first
        self.queries: OrderedDict[tuple[str, str], Query] = OrderedDict()
        self.dirty: set[tuple[str, str]] = set()  #: those that differ from their snapshots
        self.nbytes = 0  #: of the queries in memory
        #: queries that are no more, while their snapshots may still be there
        self.gone: set[tuple[str, str]] = set()
        #: rankers that were deleted or started anew, while snapshots from before may still be there
        self.outdated: set[str] = set()
        #: learners that were made ready for a list, by the id() of its record; taken as they are if nothing happened in
        #: between
        self.ready: dict[int, Ready] = {}
        #: counts of rankers as they were after a record yet to come
        self._counts: tuple[int, dict[str, _Counts]] | None = None
        self._apply: dict[type, Callable[[int, Any], None]] = {
            Ranked: self._ranked,
            Activated: self._activated,
            Clicked: self._clicked,
            Final: self._final,
            Lost: self._lost,
            Warm: self._warm,
            RankerSet: self._ranker_set,
            RankerDeleted: self._ranker_deleted,
            Reset: self._reset,
            Imported: self._imported,
        }

    def apply(self, seq: int, record: Record) -> None:
        """Fold the next record."""
        if self._counts is not None and seq > self._counts[0]:
            self.recount()
        self._torn = True
        self._apply[type(record)](seq, record)
        self._torn = False
        self.seq = seq
        self.clock = max(self.clock, record.time)

    # -- queries ---------------------------------------------------------------------------------------------------

    def query(self, ranker: Ranker, name: str) -> Query | None:
        """The query, from memory or from its snapshot."""
        at = (ranker.name, name)
        found = self.queries.get(at)
        if found is not None:
            self.queries.move_to_end(at)
            return found
        if self.rankers.get(ranker.name) is not ranker:  # deleted while somebody waited: its queries must not come back
            return None
        snapshot = None if at in self.gone else self._store.get_snapshot(snapshot_name(*at))
        if snapshot is None or snapshot.seq < ranker.since:
            return None
        try:
            found = Query.from_bytes(snapshot.body)
        except ValueError as error:  # a version of the policy that this one does not know
            _log.error("query %r of ranker %s starts anew: its snapshot cannot be used: %s", name, ranker.name, error)
            return None
        self.metrics.add("loads")
        self._keep(at, found)
        return found

    def _keep(self, at: tuple[str, str], query: Query) -> None:
        before = self.queries.pop(at, None)
        self.nbytes += query.nbytes - (before.nbytes if before else 0)
        self.queries[at] = query

    def drop(self, at: tuple[str, str]) -> None:
        """From memory."""
        query = self.queries.pop(at, None)
        if query is not None:
            self.nbytes -= query.nbytes
        self.dirty.discard(at)

    def _changed(self, seq: int, at: tuple[str, str], query: Query, before: int) -> None:
        query.seq = seq
        query.version += 1
        self.nbytes += query.nbytes - before
        self.dirty.add(at)

    # -- records ---------------------------------------------------------------------------------------------------

    def _ranked(self, seq: int, record: Ranked) -> None:
        ready = self.ready.pop(id(record), None)
        ranker = self.rankers.get(record.ranker)
        if ranker is None or 0 < record.ranker_since < ranker.born:  # it was deleted meanwhile
            return
        self.events.add(Event(seq, record))
        ranker.lists += 1
        if not record.defer:
            ranker.pending.add(seq, record.time)
        at = (record.ranker, record.query)
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:  # of a snapshot that has it
            ranker.queries += query.since == seq
            return
        if not _same_life(record, ranker, query):
            return
        try:
            if query is None:  # the policy may be another than the one that made the list, and refuse to begin with it
                items = record.shown if record.items is None else record.items
                fits = ready is not None and ready.query is None and ready.learner.policy is ranker.policy
                learner = ready.learner if ready and fits else ranker.begin(record.query, items, record.features)
                query = self._new(ranker, record.query, learner, seq, record.time)
            elif ready is not None and ready.query is query and ready.version == query.version:
                learner = ready.learner
            else:
                learner = None
            size = query.nbytes
            query.offered(record, ranker.keep, learner)
        except ValueError as error:
            _passed_over(seq, error)
        if query is not None:
            self._changed(seq, at, query, size)

    def _new(self, ranker: Ranker, name: str, learner: Learner, seq: int, time: float) -> Query:
        """A query that nobody asked before."""
        query = Query(learner, seq)
        query.seen = dict.fromkeys(learner.items, time)  # type: ignore[arg-type]
        query.measure()
        self._keep((ranker.name, name), query)
        ranker.queries += 1
        return query

    def _activated(self, seq: int, record: Activated) -> None:
        ranker, event = self._event(record)
        if ranker is not None and event is not None:
            event.start, event.began = seq, record.time
            ranker.pending.add(seq, record.time)
            ranker.deferred[seq] = event.seq
            self.needed = min(self.needed, event.seq)

    def _clicked(self, seq: int, record: Clicked) -> None:
        ranker, event = self._event(record)
        if ranker is not None and event is not None and event.start is not None and event.start in ranker.pending:
            clicks, shown = ranker.collected.get(event.start, ([], 0))
            ranker.collected[event.start] = (
                sorted({*clicks, *record.clicks}),  # a click cannot be taken back
                None if shown is None or record.shown is None else max(shown, record.shown),  # nor a look
            )

    def _final(self, seq: int, record: Final) -> None:
        ranker, event = self._event(record)
        if ranker is None or event is None:
            return
        event.final = record
        waited = event.start is not None and ranker.pending.remove(event.start)
        if event.start is not None:
            ranker.collected.pop(event.start, None)
            ranker.deferred.pop(event.start, None)
        ranked = event.ranked
        self.metrics.add("lists_finalised", (record.ranker, ranked.arm, record.how))
        if not waited or record.how == "dropped":
            return
        self.metrics.add("clicks", (record.ranker, ranked.arm), len(record.clicks))
        if ranked.arm == "holdout":
            return
        query = self.query(ranker, ranked.query)
        if query is None or forgotten(event, ranker, query):
            return
        if query.seq >= seq:
            ranker.learnt(record.clicks)
            return
        size, alarms = query.nbytes, query.learner.alarm_count
        shown = ranked.shown[: record.shown]
        try:
            query.learn(shown, record.clicks, record.time, like=ranked)
            ranker.learnt(record.clicks)
        except ValueError as error:
            _passed_over(seq, error)
        if query.learner.alarm_count > alarms:
            self.metrics.add("changes_detected", (record.ranker,), query.learner.alarm_count - alarms)
        self._changed(seq, (record.ranker, ranked.query), query, size)

    def _lost(self, seq: int, record: Lost) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is not None:
            ranker.pending.remove(record.start)
            ranker.collected.pop(record.start, None)
            ranker.deferred.pop(record.start, None)

    def _warm(self, seq: int, record: Warm) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None or record.ranker_since not in (0, ranker.since):  # sent again, its batch would count twice
            return
        at = (record.ranker, record.query)
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:
            ranker.learnt(record.clicks)
            ranker.queries += query.since == seq
            return
        k = ranker.settings.k  # may have become smaller since the request
        ranking, clicks = record.ranking[:k], [click for click in record.clicks if click <= k]
        features = None if record.features is None else record.features[:k]
        try:
            if query is None:
                learner = ranker.begin(record.query, ranking, features)
                query = self._new(ranker, record.query, learner, seq, record.time)
            size = query.nbytes
            query.learn(ranking, clicks, record.when, features=features)
            ranker.learnt(clicks)
        except ValueError as error:
            _passed_over(seq, error)
        if query is not None:
            self._changed(seq, at, query, size)

    def _ranker_set(self, seq: int, record: RankerSet) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            self.rankers[record.ranker] = Ranker(record.ranker, record.settings, seq, chosen=record.chosen)
            return
        before = ranker.settings
        ranker.set(record.settings, chosen=record.chosen)
        if any(getattr(before, name) != getattr(record.settings, name) for name in _RESTART):
            ranker.restart(seq)
            self._drop_all(record.ranker)

    def _ranker_deleted(self, seq: int, record: RankerDeleted) -> None:
        if self.rankers.pop(record.ranker, None) is not None:
            self._drop_all(record.ranker)
            self.events.forget(record.ranker)
            self.metrics.forget(record.ranker)

    def _reset(self, seq: int, record: Reset) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            return
        if record.query is None:
            ranker.restart(seq)
            self._drop_all(record.ranker)
            return
        query = self.query(ranker, record.query)
        if query is None or query.seq >= seq:
            return
        at = (record.ranker, record.query)
        if record.gone or ranker.policy.contextual:  # features are not kept without what was learnt with them
            ranker.queries -= 1
            self.drop(at)
            self.gone.add(at)
            return
        fresh = Query(ranker.begin(record.query, list(query.seen)), seq)
        fresh.seen, fresh.all_seen, fresh.sweep = query.seen, query.all_seen, query.sweep
        fresh.measure()
        self._keep(at, fresh)
        self.dirty.add(at)

    def _imported(self, seq: int, record: Imported) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            return
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:
            return
        try:
            fresh = Query.from_bytes(record.state)
        except ValueError as error:  # a version of the policy that this one does not know
            _passed_over(seq, error)
            return
        if not fresh.fits(ranker.policy, ranker.settings.k):  # which changed since the request
            return
        ranker.queries += query is None
        fresh.since = fresh.seq = seq
        ranker.steps += fresh.steps - (query.steps if query else 0)
        ranker.clicks += fresh.clicks - (query.clicks if query else 0)
        ranker.lists += fresh.lists - (query.lists if query else 0)
        at = (record.ranker, record.query)
        self._keep(at, fresh)
        self.dirty.add(at)

    def _event(self, record: Activated | Clicked | Final) -> tuple[Ranker | None, Event | None]:
        ranker = self.rankers.get(record.ranker)
        return ranker, None if ranker is None else self.events.get(record.ranker, ranker.born, record.event)

    def since(self, name: str) -> int:
        """The record from which on a ranker's snapshots count."""
        return self.rankers[name].since if name in self.rankers else self.seq + 1

    def _drop_all(self, ranker: str) -> None:
        self.outdated.add(ranker)
        for at in [at for at in self.queries if at[0] == ranker]:
            self.drop(at)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshots(self, which: Iterable[tuple[str, str]]) -> list[Snapshot]:
        """Of queries in memory, as they are now; they are no longer dirty.

        With them the counts of the rankers: a query that is ahead of the last checkpoint does not say how it came about
        (it may have been deleted and begun again), so a replay could not count up to there.
        """
        self._check_whole()
        out = [self._count()] if self._counts is None else []
        for at in which:
            query = self.queries.get(at)
            if query is not None and at in self.dirty:
                out.append(Snapshot(snapshot_name(*at), query.seq, query.to_bytes()))
                self.dirty.discard(at)
                self.gone.discard(at)
        return out

    def checkpoint(self) -> Snapshot:
        """All but the queries."""
        self._check_whole()
        rankers = {
            name: _SavedRanker(
                r.born, r.settings, r.since, r.queries, r.lists, r.steps, r.clicks, r.pending.to_bytes(), r.collected,
                r.deferred, r.chosen,
            )
            for name, r in self.rankers.items()
        }  # fmt: skip
        return Snapshot(CHECKPOINT, self.seq, msgpack.encode(_Saved(self.clock, rankers, sorted(self.outdated))))

    def _check_whole(self) -> None:
        """A record that failed half-way is folded again at the next start, which must find nothing of it."""
        if self._torn:
            raise StoreError(f"the record after {self.seq} is in the state in part; start the service again")

    def restore(self) -> None:
        """Begin where the last checkpoint was made, if any was; the records after it come next."""
        snapshot, counts = self._store.get_snapshot(CHECKPOINT), self._store.get_snapshot(COUNTS)
        if counts is not None and counts.seq > (snapshot.seq if snapshot else 0):
            self._counts = counts.seq, msgpack.decode(counts.body, type=dict[str, _Counts])
        if snapshot is None:
            return
        saved = msgpack.decode(snapshot.body, type=_Saved)
        self.seq, self.clock, self.outdated = snapshot.seq, saved.clock, set(saved.outdated)
        for name, its in saved.rankers.items():
            ranker = self.rankers[name] = Ranker(name, its.settings, its.born, chosen=its.chosen)
            ranker.since = its.since
            ranker.queries, ranker.lists, ranker.steps, ranker.clicks = its.queries, its.lists, its.steps, its.clicks
            ranker.pending = Pending.from_bytes(its.pending)
            ranker.collected, ranker.deferred = its.collected, its.deferred
        self.needed = self.oldest

    def _count(self) -> Snapshot:
        counts = {name: (r.queries, r.lists, r.steps, r.clicks) for name, r in self.rankers.items()}
        return Snapshot(COUNTS, self.seq, msgpack.encode(counts))

    def recount(self) -> None:
        """All that the saved counts have in them is folded."""
        if self._counts is not None:
            for name, ranker in self.rankers.items():
                if name in self._counts[1]:
                    ranker.queries, ranker.lists, ranker.steps, ranker.clicks = self._counts[1][name]
            self._counts = None

    @property
    def oldest(self) -> int:
        """The oldest record that may still be asked for."""
        first = [self.seq + 1]
        for ranker in self.rankers.values():
            first += [n for n in (ranker.pending.first,) if n is not None]
            first += ranker.deferred.values()
        return min(first)


def forgotten(event: Event, ranker: Ranker, query: Query | None) -> bool:
    """Whether what was learnt was started anew since the list was made."""
    if query is None or event.seq < max(query.since, ranker.since):
        return True
    return not _same_life(event.ranked, ranker, query)


def _same_life(ranked: Ranked, ranker: Ranker, query: Query | None) -> bool:
    since = query.since if query else None
    return ranked.ranker_since in (0, ranker.since) and ranked.query_since in (0, since)


def _passed_over(seq: int, error: ValueError) -> None:
    """What a learner does not take: features of another length that came at the same time, say.

    It happens again in every replay, and in the same way: the state stays a function of the log.
    """
    _log.warning("record %d: not learnt: %s", seq, error)


def snapshot_name(ranker: str, query: str) -> str:
    return f"q/{ranker}/{query}"
