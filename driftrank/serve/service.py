"""The ranking service, without HTTP: what the routes call.

A request becomes records, the records are committed, then folded, and only then is it answered. Nothing in memory
changes before that, so a commit that fails has no effect.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, DecodeError, structs

from driftrank.kernels.rng import key_of
from driftrank.serve.experiment import gauges
from driftrank.serve.explore import shown_as_ranked
from driftrank.serve.feedback import feedback_record, reported, withdrawal
from driftrank.serve.follower import Follower
from driftrank.serve.http.problems import Refused
from driftrank.serve.items import check_id
from driftrank.serve.log.committer import Committer, NewRecord, QueueFull, Settled
from driftrank.serve.log.records import (
    WHY,
    Activated,
    Clicked,
    Final,
    Ranked,
    RankerDeleted,
    RankerSet,
    Reset,
    Withdrawn,
    activated_id,
    decode,
    ranked_id,
    withdrawn_id,
)
from driftrank.serve.log.store.base import LogEntry, Store, StoreDamaged, StoreError, StoreUnknown
from driftrank.serve.log.store.shared import Node, SharedStore
from driftrank.serve.maintenance import Maintenance
from driftrank.serve.metrics import Metrics, position_label
from driftrank.serve.paging import page_of
from driftrank.serve.rank import CheckedRequest, degraded_response, make_impression, response
from driftrank.serve.ranker_settings import arms_of, settings_of_arm
from driftrank.serve.settings import ServerSettings, check_ranker, policy_of
from driftrank.serve.shared_maintenance import SharedMaintenance
from driftrank.serve.slices import Slices
from driftrank.serve.state import outcome
from driftrank.serve.state.arms import Arm, Assignment
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.queries import QueryKey, QueryTable
from driftrank.serve.state.query import Query, warm_up
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.wire import (
    ENCODER,
    Activation,
    Explored,
    Feedback,
    FeedbackResult,
    ItemId,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
    SharedState,
    route_of,
)

_log = logging.getLogger("driftrank.serve")
_NOT_READY = "the service is starting or stopping"
#: seconds after which it is logged that a policy is being compiled: compiled ones are loaded by then
_SOON = 2.0


#: seconds that a request waits at most for what its client has seen at another node
_MOST_BEHIND = 0.2


class StartReplay(NamedTuple):
    """The replay of the log at the start."""

    records: int
    seconds: float
    checkpoint: int  #: the record up to which snapshots were used


class Service:
    """Rankers over a store. Create it, ``await start()``, use it, ``await stop()``."""

    def __init__(self, store: Store, settings: ServerSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.ready = False
        self.starting = True
        self._doing = _NOT_READY
        self.draining = False  #: asked to stop: not ready, but requests are answered for some time
        self.stopping = False  #: long answers end
        self.url = ""  #: at which it listens, for people
        self.worker: int | None = None  #: its number, if there are several processes at this address
        self.all_metrics = self._own_metrics  #: returns the metrics of all these processes
        self.store = store
        self._clock = clock
        #: one batch of a ranker is computed at a time: many of them would share the loop with everybody else
        self._one_batch: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._now = 0.0  # the last time given out: it may be in records that are not folded yet
        self.state = State(store, self.metrics, HeldQueries if isinstance(store, SharedStore) else QueryTable)
        self._follower: Follower | None = None  # if others write to the log, too

    # -- start and stop --------------------------------------------------------------------------------------------

    async def start(self) -> StartReplay:
        """Replay the log, create the rankers of the settings, start the maintenance."""
        if isinstance(self.store, SharedStore):
            self._follower = Follower(
                self.store, self.state, limit=self.settings.queue, committed=self._committed, followed=self._followed,
                compile_=self._compile_if_possible, begin_again=self._begin_again, poll=self.settings.follow_seconds,
            )  # fmt: skip
            self._committer: Committer = self._follower
            shared = SharedMaintenance(
                self.state, self.store, self._follower, self.settings, self.metrics, now=self.now
            )
            shared.url, shared.worker, shared.clock = self.url, self.worker, self._clock
            self.maintenance: Maintenance = shared
            replay = await self._follow()
        else:
            self._committer = Committer(
                self.store, self.state.apply, limit=self.settings.queue, committed=self._committed
            )
            self.maintenance = Maintenance(
                self.state, self.store, self._committer, self.settings, self.metrics, now=self.now
            )
            replay = await self._replay()
        await self._set_rankers({"default": RankerSettings(), **self.settings.rankers})
        await self._compile_all()
        self._gauges()
        self.maintenance.start()
        self.ready, self.starting, self._doing = True, False, _NOT_READY
        return replay

    async def _set_rankers(self, rankers: Mapping[str, RankerSettings]) -> None:
        """Create or change the rankers of the settings."""
        for name, settings in rankers.items():
            ranker = self.state.rankers.get(name)
            # a default ranker that is not in the settings may have been changed by a request
            if ranker is None or (settings != RankerSettings() and _explicit(settings, ranker) != ranker.settings):
                if name not in self.settings.discard and (lost := self.would_discard(name, settings)):
                    raise ValueError(
                        f"ranker {name}: {lost}; start with --discard {name} to begin again, "
                        "or with the settings that it has"
                    )
                await self._compile(settings)
                new = self._setting(name, settings, "settings")
                if self._follower is not None:  # services that start at the same time write it once
                    new = new._replace(id=self._id_of(name, settings))
                    (settled,) = await self._committer.append([new])
                    if not settled.new and name not in self.state.rankers:
                        await self._committer.append([new._replace(id=unique_id("ranker"))])
                else:
                    await self._committer.append([new])
                self.log_operation(name, "set", "settings")

    def _id_of(self, name: str, settings: RankerSettings) -> str:
        """The id of the record of a setting: one for the same settings after the same operation."""
        last = max((entry.number for entry in self.state.operations if entry.ranker == name), default=0)
        return f"ranker/{name}/{last}/{key_of(ENCODER.encode(settings).decode()):x}"

    async def configure(self, settings: ServerSettings) -> None:
        """Change the settings while it runs; rankers only if they have others in the settings than before."""
        before = self.settings
        changed = {name: of for name, of in settings.rankers.items() if before.rankers.get(name) != of}
        await self._set_rankers(changed)
        self.settings = self.maintenance.settings = settings

    async def stop(self) -> None:
        """Write a checkpoint, so that the next start is quick, and close the store."""
        self.ready = self.starting = False
        await self.maintenance.stop()
        await self._committer.close()
        self.store.close()

    @property
    def problem(self) -> str | None:
        """The reason why nothing can be written at the moment."""
        if not self.ready:
            return self._doing
        return self._committer.problem or (self._follower.late if self._follower else None)

    async def _replay(self) -> StartReplay:
        began = time.perf_counter()
        self.state.restore()
        await self._compile_all()
        first = self.state.seq
        damage = self.store.verify(first)
        if damage is not None:
            _log.error("the log is damaged: %s", damage)
        self.state.metrics = Metrics()  # counts from before the start are not counted again
        self.state.replaying = True
        records = 0
        self._doing = "the log is being replayed"
        while entries := self.store.read(self.state.seq, 2_000):
            for entry in entries:
                try:
                    record = decode(entry.body)
                except DecodeError as error:
                    raise StoreDamaged(f"record {entry.seq} is unknown to this version ({error})") from None
                self.state.apply(entry.seq, record)
            records += len(entries)
            self.maintenance.folded(len(entries))
            await self.maintenance.evict()
            await asyncio.sleep(0)
        self.state.recount()
        self.state.metrics, self.state.replaying = self.metrics, False
        out = StartReplay(records, time.perf_counter() - began, first)
        self.metrics.add("replayed_records", (), records)
        self.metrics.gauge("replay_seconds", lambda: out.seconds)
        return out

    async def _follow(self) -> StartReplay:
        """Begin with the last checkpoint, and take in what came after it."""
        assert self._follower is not None
        began = time.perf_counter()
        await self._follower.set_clock(self._clock)
        self.state.restore()
        await self._compile_all()
        first = self.state.seq
        self._doing = "the log is being replayed"
        records = await self._follower.catch_up()
        self._follower.start()
        out = StartReplay(records, time.perf_counter() - began, first)
        self.metrics.add("replayed_records", (), records)
        self.metrics.gauge("replay_seconds", lambda: out.seconds)
        return out

    async def _begin_again(self) -> None:
        """The log was cut: what was in memory may not be in it."""
        self.state.begin_again()
        await self._compile_all()
        self.metrics.add("begun_again")

    def _followed(self, records: int) -> None:
        self.metrics.add("records_followed", (), records)
        self.maintenance.folded(records)

    async def _compile_if_possible(self, settings: RankerSettings) -> None:
        with suppress(ValueError):  # another service, with more memory, has accepted it
            await self._compile(settings)

    async def _own_metrics(self) -> bytes:
        return self.metrics.render()

    def _gauges(self) -> None:
        state = self.state
        self.metrics.gauge("ready", lambda: self.ready and self.problem is None)
        self.metrics.gauge("state_bytes", lambda: state.queries.nbytes)
        self.metrics.gauge(
            "shared_model_bytes", lambda: {(arm.owner,): arm.shared_bytes for arm in state.every_arm() if arm.shares}
        )
        self.metrics.gauge("resident_queries", lambda: len(state.queries))
        self.metrics.gauge("lists_pending", lambda: {(name,): len(r.waiting) for name, r in state.rankers.items()})
        self.metrics.gauge("store_bytes", self.store.size)
        if self._follower is not None:
            follower, maintenance = self._follower, self.maintenance
            self.metrics.gauge("follow_age_seconds", lambda: time.monotonic() - follower.at)
            self.metrics.gauge("last_record", lambda: state.seq)
            self.metrics.gauge("appends_in_doubt", lambda: follower.doubts)
            self.metrics.gauge("keeper", lambda: isinstance(maintenance, SharedMaintenance) and maintenance.keeper)
        self.metrics.gauge("commit_queue_length", lambda: self._committer.queued)
        for name, read in gauges(state).items():
            self.metrics.gauge(name, read)

    def _committed(self, records: int, seconds: float) -> None:
        self.metrics.add("records_appended", (), records)
        self.metrics.observe("commit_duration_seconds", (), seconds)
        self.maintenance.folded(records)

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

    async def _settle(self) -> None:
        """Wait until what an answer from memory is about is durable, if others write to the log, too: their records can
        be read before they are.
        """
        if self._follower is not None:
            try:
                await self._follower.settle()
            except StoreError as error:
                raise Refused(503, "Store not writable", str(error), {"Retry-After": "1"}) from None

    async def _hold(self, name: str, query: str) -> None:
        """As :meth:`hold`, until the next await."""
        if self._follower is not None:
            while not all(self.state.queries.holds(key) for key in self._keys(name, [query])):
                await self.hold(name, [query])

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
        entries: list[LogEntry] = []
        if isinstance(self.store, SharedStore):
            entries = await self._committer.run(self.store.numbered, missing) if missing else []
        else:
            with suppress(StoreDamaged):  # as good as forgotten
                entries = [entry for seq in missing for entry in self.store.read(seq - 1, 1) if entry.seq == seq]
        ranked = [record for entry in entries if isinstance(record := decode(entry.body), Ranked)]
        read = await self.impressions(ranker, [record.event_id for record in ranked])
        found = {it.seq: it for it in (*known.values(), *read.values()) if it is not None}
        return [found[seq] for seq in records if seq in found]

    async def store_use(self) -> tuple[int | None, list[Node]]:
        """The size of the store, and the services that use it if several can; nothing if it cannot be read."""
        try:
            size: int = await self._committer.run(self.store.size)
            if isinstance(self.store, SharedStore):
                return size, await self._committer.run(self.store.nodes)
            return size, []
        except StoreError:
            return None, []

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

    # -- rank ------------------------------------------------------------------------------------------------------

    async def rank(self, name: str, requests: Sequence[RankRequest], *, lenient: bool = False) -> list[RankResponse]:
        """Rankings, in the order of the requests; none if one of these is bad.

        ``lenient``: as long as it cannot rank, because it is starting or the store cannot be written, the baseline.
        """
        if lenient and self.starting:
            return self._degraded(name, requests, "starting")
        self.check_ready()
        if not self.maintenance.memory_free.is_set():
            await self.maintenance.memory_free.wait()
        ranker = self.ranker(name)
        self._check_batch(len(requests))
        slices = Slices()
        rankings: list[Ranked | NewRecord] = []
        notes: list[Sequence[str]] = []
        asked: dict[str, int] = {}
        await self.hold(name, {request.query for request in requests})
        async with self._one_batch[name] if len(requests) > 1 else nullcontext():
            now = self.now()
            for n, request in enumerate(requests):
                if n and slices.over:  # not after the last: calls of one request are recorded in the order they came
                    await slices.pause()
                    now = self.now()
                if self._follower is not None:
                    await self._hold(name, request.query)
                    ranker = self.ranker(name)  # it may have been deleted and created meanwhile
                try:
                    event_id = self._event_id(name, request, now)
                    assigned = ranker.assign(event_id, self._subject(request))
                    checked = CheckedRequest(self.settings, assigned.arm.settings, assigned.arm.policy, request)
                    rankings.append(self._rank(ranker, assigned, request, checked, event_id, now))
                    notes.append(checked.notes)
                except ValueError as error:
                    where = f"request {n + 1} of {len(requests)}: " if len(requests) > 1 else ""
                    raise Refused(422, "Bad value", f"{where}{error}") from None
                if request.event_id is not None and asked.setdefault(event_id, checked.asked) != checked.asked:
                    raise _taken(event_id)
        records = [ranking for ranking in rankings if isinstance(ranking, NewRecord)]
        try:
            settled = iter(await self.append(_stamped(records, now)) if records else [])
            if not records:
                await self._settle()
        except Refused as problem:
            if problem.status != 503 or not lenient:
                raise
            return self._degraded(name, requests, "store")
        if ranker.withdrawn:
            await self._take_back(ranker, [new.record.event_id for new in records if isinstance(new.record, Ranked)])
        out = []
        for ranking, said in zip(rankings, notes, strict=True):
            if out and slices.over:
                await slices.pause()
            ranked = ranking.record if isinstance(ranking, NewRecord) else ranking
            assert isinstance(ranked, Ranked)
            if isinstance(ranking, NewRecord):
                if next(settled).new:
                    self._count(ranked)
                else:
                    found = (await self.impressions(ranker, [ranked.event_id]))[ranked.event_id]
                    ranked = _served(found, ranked.query, ranked.asked)
            self.count_ignored(ranker, said)
            out.append(response(ranker, ranked, said))
        return out

    def _degraded(
        self, name: str, requests: Sequence[RankRequest], why: Literal["starting", "store"]
    ) -> list[RankResponse]:
        """The baseline for each request."""
        settings = self.ranker_settings().get(name)
        if settings is None:  # it may be in the part of the log that is not replayed yet
            self.check_ready()
            raise no_ranker(name)
        self._check_batch(len(requests))
        try:
            out = [degraded_response(self.settings, settings, request, why) for request in requests]
        except ValueError as error:
            raise Refused(422, "Bad value", str(error)) from None
        self.metrics.add("lists_degraded", (name, why), len(out))
        return out

    def _event_id(self, ranker: str, request: RankRequest, now: float) -> str:
        if request.event_id is None:
            new = f"{int(now * 1000):x}-{os.urandom(8).hex()}"
            # with several nodes feedback should reach the one that has the query
            return new if self._follower is None else f"{new}@{route_of(ranker, request.query)}"
        self._check_id("event_id", request.event_id)
        return request.event_id

    def _subject(self, request: RankRequest) -> str | None:
        if request.subject is not None:
            self._check_id("subject", request.subject)
        return request.subject

    def _rank(
        self, ranker: Ranker, assigned: Assignment, request: RankRequest, checked: CheckedRequest, event_id: str,
        now: float,
    ) -> Ranked | NewRecord:  # fmt: skip
        """The impression that was served for this event id, or a new one."""
        if request.event_id is not None:
            cached = self.state.cached_impression(ranker, event_id)
            if cached is not None:
                return _served(cached, request.query, checked.asked)
        query = self.state.query(assigned.arm, request.query)
        if query is not None:
            self._check_items(query, checked.items)
        page = page_of(self.state, ranker, assigned, query, request, checked, now) if ranker.stable else None
        ranked, prepared = make_impression(
            ranker, assigned, request.query, query, checked, event_id, now, defer=request.defer, page=page
        )
        return NewRecord(ranked_id(ranker.name, ranker.created, event_id), ranked, prepared)

    def count_ignored(self, arm: Arm, notes: Sequence[str]) -> None:
        for note in notes:
            self.metrics.add("ignored", (arm.ranker_name, note.partition(":")[0]))

    def _count(self, ranked: Ranked) -> None:
        self.metrics.add("lists", (ranked.ranker, ranked.arm))
        for letter in set(ranked.why):
            self.metrics.add("items_shown", (ranked.ranker, WHY[letter]), ranked.why.count(letter))
        for n, letter in enumerate(ranked.why, 1):
            if letter == "e":
                self.metrics.add("explored_by_position", (ranked.ranker, position_label(n)))

    def answered(self, name: str, rankings: Iterable[RankResponse], *, delivered: bool) -> None:
        """Note whether an answer could be sent. What nobody gets, nobody sees: it is not learnt from."""
        ranker = self.state.rankers.get(name)
        if ranker is None:
            return
        for ranking in rankings:
            impression = self.state.cached_impression(ranker, ranking.event_id)
            if impression is None:
                continue
            if delivered:
                impression.delivered = True
            elif not impression.delivered:
                self.maintenance.undelivered(ranker, impression)

    async def _take_back(self, ranker: Ranker, event_ids: Iterable[str]) -> None:
        """End those of these impressions that were taken back before they were known."""
        found = await self.impressions(ranker, event_ids)
        ends = [
            withdrawal(ranker, it, self.now())
            for it in found.values()
            if it is not None and it.final is None and ranker.has_withdrawn(it.ranked.event_id, it.ranked.time)
        ]
        if ends:
            await self.append(ends, urgent=True)

    # -- feedback --------------------------------------------------------------------------------------------------

    async def feedback(self, name: str, feedbacks: Sequence[Feedback]) -> list[FeedbackResult]:
        """The outcome of each; if one is malformed, all are rejected."""
        ranker = self.ranker(name)
        self._check_batch(len(feedbacks))
        slices = Slices()
        results: list[FeedbackResult | NewRecord] = []
        known = await self._known(ranker, feedbacks)
        ranker = self.ranker(name)
        async with self._one_batch[name] if len(feedbacks) > 1 else nullcontext():
            now = self.now()
            for n, feedback in enumerate(feedbacks):
                if n and slices.over:
                    await slices.pause()
                    now = self.now()
                try:
                    results.append(self._feedback(ranker, feedback, now, known))
                except ValueError as error:
                    self.metrics.add("feedback", (name, "malformed"))
                    where = f"feedback {n + 1} of {len(feedbacks)}: " if len(feedbacks) > 1 else ""
                    raise Refused(422, "Bad value", f"{where}{error}") from None
        records = [result for result in results if isinstance(result, NewRecord)]
        settled = iter(await self.append(_stamped(records, now)) if records else [])
        if not records:
            await self._settle()
        out = [self._outcome(it, next(settled)) if isinstance(it, NewRecord) else it for it in results]
        await self._take_back(ranker, [new.record.event_id for new in records if isinstance(new.record, Withdrawn)])
        for result in out:
            self.metrics.add("feedback", (name, result.outcome))
        return out

    async def _known(self, ranker: Ranker, feedbacks: Sequence[Feedback]) -> dict[str, Impression | None] | None:
        """The impressions that feedback is about, with their queries in memory; None if they can be read at once."""
        if self._follower is None:
            return None
        most = self.settings.max_id
        ids = [f.event_id for f in feedbacks if 0 < len(f.event_id) <= most]
        known = await self.impressions(ranker, ids)
        await self.hold(ranker.name, {it.ranked.query for it in known.values() if it is not None})
        return known

    def _feedback(
        self, ranker: Ranker, feedback: Feedback, now: float, known: dict[str, Impression | None] | None
    ) -> FeedbackResult | NewRecord:
        """The outcome of feedback that changes nothing, or the record of any other."""
        event_id, max_id = feedback.event_id, self.settings.max_id
        if not event_id:  # of a baseline that was answered instead of a ranking
            return outcome.orphan(event_id)
        self._check_id("event_id", event_id)
        if feedback.shown is not None and feedback.shown < 0:
            raise ValueError(f"shown={feedback.shown}: must be at least 0")
        if isinstance(feedback.time, str) and len(feedback.time) > max_id:  # it is kept in memory, too
            raise ValueError(f"time: {len(feedback.time)} characters, at most {max_id} are allowed")
        impression = self.state.impression(ranker, event_id) if known is None else known[event_id]
        if impression is None:
            if feedback.shown == 0 and not feedback.clicks:
                record = Withdrawn(ranker.name, event_id, now)
                return NewRecord(withdrawn_id(ranker.name, ranker.created, event_id), record)
            return outcome.orphan(event_id)
        given = reported(impression.ranked, feedback, ranker.settings.values or {})
        collected = impression.opened_by in ranker.collected
        result = outcome.unrecorded(impression, ranker.feedback_window, now, given, collected=collected)
        return result or feedback_record(ranker, impression, now, given, feedback.time)

    def _outcome(self, new: NewRecord, settled: Settled) -> FeedbackResult:
        if settled.new:
            if settled.outcome is None:  # only if others write to the log, too
                raise Refused(503, "Store not readable", f"record {settled.seq} could not be folded")
            assert isinstance(settled.outcome, FeedbackResult)
            return settled.outcome
        if not settled.seq:  # another service has forgotten the impression
            assert isinstance(new.record, Final | Clicked)
            return outcome.orphan(new.record.event_id)
        if isinstance(new.record, Withdrawn):
            return outcome.withdrawn(new.record.event_id)
        assert isinstance(new.record, Final | Clicked)
        return self.state.repeated(new.record)

    async def activate(self, event_id: str, names: Iterable[str]) -> Activation:
        """Open the feedback window of a deferred impression of one of these rankers."""
        self.check_ready()
        self.check_named("event_id", event_id)
        rankers = [self.state.rankers[name] for name in names if name in self.state.rankers]
        all_ = [(await self.impressions(ranker, [event_id]))[event_id] for ranker in rankers]
        found = [it for it in all_ if it is not None]
        if not found:
            raise Refused(404, "No such event", f"event_id={event_id!r}: no ranking has it")
        if len(found) > 1:
            detail = "several rankers have such a ranking: use /v1/rankers/{ranker}/events/{id}/activate"
            raise Refused(409, "Ambiguous event id", detail)
        (impression,) = found
        if impression.final is not None and impression.final.how == "withdrawn":
            raise Refused(409, "Ranking taken back", f"event_id={event_id!r}: the ranking was taken back")
        if impression.opened_by is not None:  # it was not deferred, or is activated already
            await self._settle()
            return Activation(event_id, "duplicate")
        name = impression.ranked.ranker
        record = Activated(name, event_id, self.now())
        new = NewRecord(activated_id(name, event_id, impression.seq), record, about=impression)
        (settled,) = await self.append([new])
        if not settled.seq:
            raise Refused(404, "No such event", f"event_id={event_id!r}: no ranking has it")
        return Activation(event_id, "activated" if settled.new else "duplicate")

    # -- rankers and queries ---------------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raise unless requests can be answered."""
        if not self.ready:
            raise Refused(503, "Not ready", self._doing, {"Retry-After": "1"})

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
        return RankerInfo(name, r.settings, queries, lists, steps, clicks, len(r.waiting), shared, worth, explored)

    async def put_ranker(
        self, name: str, settings: RankerSettings, *, discard: bool = False, by: str = "", undoes: int = 0
    ) -> RankerInfo:
        """Create a ranker or change it. A change that would cost what it has learnt needs ``discard``."""
        self.check_ready()
        try:
            check_ranker(name, settings)
            if settings.keys and not self.settings.admin_keys:
                raise ValueError("keys: the server needs an admin key first; without one they could never be changed")
            await self._compile(settings)
        except ValueError as error:
            raise Refused(422, "Bad settings", str(error)) from None
        ranker = self.state.rankers.get(name)
        if (
            ranker is not None
            and not undoes
            and ranker.is_set(_explicit(settings, ranker), settings.policy is not None)
        ):
            await self._settle()
            return self.info(name)
        if not discard and (lost := self.would_discard(name, settings)):
            raise Refused(409, "Would discard what was learnt", f"{lost}; ?discard=true does it all the same")
        await self.append([self._setting(name, settings, by, undoes)], urgent=True)
        self.log_operation(name, "set", by)
        configured = self.settings.rankers.get(name, RankerSettings())
        if configured != RankerSettings() and self.would_discard(name, configured):
            _log.warning("ranker %s: the server's settings differ, and the next start will refuse them", name)
        return self.info(name)

    async def patch_ranker(
        self, name: str, changes: Mapping[str, Any], *, discard: bool = False, by: str = ""
    ) -> RankerInfo:
        """Change some settings of a ranker."""
        return await self.put_ranker(name, self.patched(name, changes), discard=discard, by=by)

    def patched(self, name: str, changes: Mapping[str, Any]) -> RankerSettings:
        """The settings that a ranker would have after some changes."""
        ranker = self.ranker(name)
        before = ranker.settings if ranker.chosen else structs.replace(ranker.settings, policy=None)
        return structs.replace(before, **changes)

    def would_discard(self, name: str, settings: RankerSettings) -> str | None:
        """The loss of a ranker if it had other settings, as text; None if there is none."""
        ranker = self.state.rankers.get(name)
        discarded = ranker.discarded_by(_explicit(settings, ranker)) if ranker else []
        if not discarded:
            return None
        steps = sum(arm.steps for arm, _ in discarded)
        return f"{'; '.join(why for _, why in discarded)} would discard what was learnt from {steps} rankings"

    def log_operation(self, name: str, what: str, by: str) -> None:
        last = self.state.operations[-1] if self.state.operations else None
        extra = {"ranker": name, "operation": last.number if last else None, "by": by}
        _log.info("ranker %s: %s by %s", name, what, by or "unknown", extra=extra)

    async def _compile_all(self) -> None:
        for arm in list(self.state.every_arm()):
            with suppress(ValueError):  # it was accepted when there was more memory
                await self._compile(arm.settings)

    async def _compile(self, settings: RankerSettings) -> None:
        """Compile before the first ranking, in a thread: other requests are answered meanwhile."""
        for arm in arms_of(settings):
            await self._compile(settings_of_arm(settings, arm))
        policy, most = policy_of(settings), self.settings.memory_bytes
        if self.starting:
            self._doing = f"compiling {policy.spec}"
        slow = asyncio.get_running_loop().call_later(_SOON, self._log_compiling, policy.spec)
        try:
            size: float = await asyncio.to_thread(warm_up, policy, settings.k, settings.horizon, most)
        except MemoryError:
            size = math.inf
        finally:
            slow.cancel()
        if size > most:
            raise ValueError(
                f"policy={policy.spec!r}: a query or its shared model takes {size:.3g} bytes, "
                "more than the memory for all"
            )

    def _log_compiling(self, spec: str) -> None:
        meanwhile = "; until then rankings are the caller's order" if self.starting else ""
        _log.info("compiling %s: the first time takes up to a minute%s", spec, meanwhile)

    def _setting(self, name: str, settings: RankerSettings, by: str, undoes: int = 0) -> NewRecord:
        ranker, chosen = self.state.rankers.get(name), settings.policy is not None
        settings = _explicit(settings, ranker)
        steps = sum(arm.steps for arm, _ in ranker.discarded_by(settings)) if ranker else 0
        record = RankerSet(name, self.now(), settings, chosen, keep=True, by=by, steps=steps, undoes=undoes or UNSET)
        return NewRecord(unique_id("ranker"), record)

    async def delete_ranker(self, name: str, *, by: str = "") -> None:
        record = RankerDeleted(name, self.now(), by, sum(arm.steps for arm in self.ranker(name).every_arm()))
        await self.append([NewRecord(unique_id("ranker"), record)])
        self.log_operation(name, "deleted", by)

    async def reset(
        self, name: str, query: str | None = None, *, gone: bool = False, by: str = "", undoes: int = 0
    ) -> None:
        """Forget what was learnt, for one query or for all. ``gone``: delete the query."""
        arms = list(self.ranker(name).every_arm())
        steps = sum(arm.steps for arm in arms)
        if query is not None:
            await self._hold(name, query)
            arms = list(self.ranker(name).every_arm())
            found = [its for its in (self.state.query(arm, query) for arm in arms) if its is not None]
            if not found:
                raise no_query(name, query)
            steps = sum(its.steps for its in found)
        record = Reset(name, self.now(), query, gone, by, steps, undoes)
        await self.append([NewRecord(unique_id("reset"), record)])
        what = "reset" if query is None else f"query {query!r} {'deleted' if gone else 'reset'}"
        self.log_operation(name, what, by)

    # -- limits ----------------------------------------------------------------------------------------------------

    def _check_batch(self, n: int) -> None:
        if not 1 <= n <= self.settings.max_batch:
            raise Refused(422, "Bad value", f"{n} requests at once: must be from 1 to {self.settings.max_batch}")

    def _check_items(self, query: Query, items: Sequence[ItemId]) -> None:
        """Raise if a query would have too many items: each call takes time for all of them."""
        most = self.settings.max_query_items
        if query.learner.open or len(query.seen) + len(items) <= most:
            return
        n = len(query.seen) + len(query.missing(items))
        if n > most:
            raise ValueError(f"items: the query would have {n}, at most {most} are allowed (max_query_items)")

    def _check_id(self, name: str, value: ItemId) -> None:
        check_id(name, value, self.settings.max_id)

    def check_named(self, name: str, value: str) -> None:
        """Check an id that is not in a body."""
        try:
            self._check_id(name, value)
        except ValueError as error:
            raise Refused(422, "Bad value", str(error)) from None


def _explicit(settings: RankerSettings, before: Ranker | None) -> RankerSettings:
    """The settings with the policy named: a later version may have another default, and the log must not change.

    A ranker with the default policy of an earlier version keeps it: what it has learnt is worth more than a better
    policy that begins with nothing.
    """
    if settings.policy is None and before is not None and not before.chosen:
        kept = structs.replace(settings, policy=before.settings.policy)
        if (settings.mode == "safe") == (before.settings.mode == "safe"):  # safe mode has a policy of its own
            return kept
    return structs.replace(settings, policy=policy_of(settings).spec)


def _stamped(records: list[NewRecord], now: float) -> list[NewRecord]:
    """The records of a batch with the time of its last slice: times in the log ascend, and others came in between."""
    return [
        new if new.record.time == now else new._replace(record=structs.replace(new.record, time=now)) for new in records
    ]


def _served(impression: Impression | None, query: str, asked: int) -> Ranked:
    """The impression that a retried request asks for."""
    if impression is None:  # pragma: no cover - it was in the log a moment ago
        raise Refused(503, "Not ready", "the ranking is being forgotten", {"Retry-After": "1"})
    ranked = impression.ranked
    if ranked.query != query or ranked.asked not in (0, asked):
        raise _taken(ranked.event_id)
    return ranked


def _taken(event_id: str) -> Refused:
    return Refused(409, "Event id taken", f"event_id={event_id!r}: was used for another query, other items or k")


def no_ranker(name: str) -> Refused:
    detail = f"ranker {name!r}: no such ranker; add it to the settings or create it with PUT"
    return Refused(404, "No such ranker", detail)


def no_query(ranker: str, query: str) -> Refused:
    return Refused(404, "No such query", f"query {query!r}: ranker {ranker!r} has no such query")


def unique_id(kind: str) -> str:
    """An id for a record that may be repeated."""
    return f"{kind}/{os.urandom(12).hex()}"
