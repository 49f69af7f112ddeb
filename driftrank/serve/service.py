"""The ranking service, without the web: what the routes call.

A request becomes records, the records are committed, then folded; only then is it answered. Nothing in memory changes
before that, so a commit that fails has not happened at all.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import DecodeError, structs

from driftrank.kernels.rng import key_of
from driftrank.serve.committer import Committer, Named, QueueFull, Settled
from driftrank.serve.config import ServerSettings, check_ranker, policy_of
from driftrank.serve.events import Event
from driftrank.serve.fold import Fold, Ranker, Ready, forgotten
from driftrank.serve.items import check_even, check_id
from driftrank.serve.judging import after_the_end, positions
from driftrank.serve.lists import Ask, choose, draw, response
from driftrank.serve.metrics import Metrics
from driftrank.serve.problems import Refused
from driftrank.serve.query import Query, extend, rehearse
from driftrank.serve.records import (
    WHY,
    Activated,
    Clicked,
    Final,
    Ranked,
    RankerDeleted,
    RankerSet,
    Reset,
    activated_id,
    clicked_id,
    decode,
    final_id,
    ranked_id,
)
from driftrank.serve.store.base import Store, StoreDamaged, StoreError
from driftrank.serve.upkeep import Upkeep
from driftrank.wire import (
    Activation,
    Feedback,
    FeedbackResult,
    ItemId,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
)

_log = logging.getLogger("driftrank.serve")
_RESET = "what was learnt was reset since"


class Replay(NamedTuple):
    """How the service came up."""

    records: int
    seconds: float
    checkpoint: int  #: the record up to which snapshots were used


class Service:
    """Rankers over a store. Make it, ``await start()``, use it, ``await stop()``."""

    def __init__(self, store: Store, settings: ServerSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.ready = False
        self.stopping = False  #: long answers end
        self.store = store
        self._clock = clock
        self._now = 0.0  # what was said last: it may be in records that are not folded yet
        self.fold = Fold(store, self.metrics)

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> Replay:
        """Fold the log, make the rankers that the settings name, begin to look after time and memory."""
        self._committer = Committer(self.store, self.fold.apply, limit=self.settings.queue, committed=self._committed)
        self.upkeep = Upkeep(self.fold, self.store, self._committer, self.settings, self.metrics, self.now)
        replay = await self._replay()
        for name, settings in {"default": RankerSettings(), **self.settings.rankers}.items():
            ranker = self.fold.rankers.get(name)
            # a default ranker that the settings say nothing of may have been changed by a request
            if ranker is None or (settings != RankerSettings() and _explicit(settings, ranker) != ranker.settings):
                await self._compile(settings)
                await self._committer.append([self._setting(name, settings)])
        await self._compile_all()
        self._gauges()
        self.upkeep.start()
        self.ready = True
        return replay

    async def stop(self) -> None:
        """Write what must be written, so that the next start is quick."""
        self.ready = False
        await self.upkeep.stop()
        await self._committer.close()
        self.store.close()

    @property
    def problem(self) -> str | None:
        """Why nothing can be written at the moment."""
        return self._committer.problem if self.ready else "the service is starting or stopping"

    async def _replay(self) -> Replay:
        began = time.perf_counter()
        self.fold.restore()
        await self._compile_all()
        first = self.fold.seq
        damage = self.store.verify(first)
        if damage is not None:
            _log.error("the log is damaged: %s", damage)
        self.fold.metrics = Metrics()  # what was counted before the start is not counted again
        records = 0
        while entries := self.store.read(self.fold.seq, 2_000):
            for entry in entries:
                try:
                    record = decode(entry.body)
                except DecodeError as error:
                    raise StoreDamaged(f"record {entry.seq} is none that this version knows ({error})") from None
                self.fold.apply(entry.seq, record)
            records += len(entries)
            self.upkeep.folded(len(entries))
            await self.upkeep.shrink()
            await asyncio.sleep(0)
        self.fold.recount()
        self.fold.metrics = self.metrics
        out = Replay(records, time.perf_counter() - began, first)
        self.metrics.add("replayed_records", (), records)
        self.metrics.gauge("replay_seconds", lambda: out.seconds)
        return out

    def _gauges(self) -> None:
        fold = self.fold
        self.metrics.gauge("ready", lambda: self.ready and self.problem is None)
        self.metrics.gauge("state_bytes", lambda: fold.nbytes)
        self.metrics.gauge("resident_queries", lambda: len(fold.queries))
        self.metrics.gauge("lists_pending", lambda: {(name,): len(r.pending) for name, r in fold.rankers.items()})
        self.metrics.gauge("store_bytes", self.store.size)
        self.metrics.gauge("commit_queue_length", lambda: self._committer.queued)

    def _committed(self, records: int, took: float) -> None:
        self.metrics.add("records_appended", (), records)
        self.metrics.observe("commit_duration_seconds", (), took)
        self.upkeep.folded(records)

    def now(self) -> float:
        """The server's time. It stands still where the clock is set back."""
        self._now = max(self._clock(), self.fold.clock, self._now)
        return self._now

    async def append(self, records: Sequence[Named], *, urgent: bool = False) -> list[Settled]:
        try:
            return await self._committer.append(records, urgent=urgent)
        except QueueFull:
            raise Refused(
                429, "too many requests", "more records wait to be written than should", {"Retry-After": "1"}
            ) from None
        except StoreError as error:
            self.metrics.add("store_errors", (type(error).__name__,))
            raise Refused(503, "the store cannot be written", str(error), {"Retry-After": "5"}) from None

    # -- rank ------------------------------------------------------------------------------------------------------

    async def rank(self, name: str, requests: Sequence[RankRequest]) -> list[RankResponse]:
        """Lists, in the order of the requests. A bad request among them: none is made."""
        self._check_ready()
        if not self.upkeep.room.is_set():
            await self.upkeep.room.wait()
        ranker = self.ranker(name)
        self._check_batch(len(requests))
        now = self.now()
        made: list[Ranked] = []
        queries: dict[str, str] = {}
        try:
            for n, request in enumerate(requests):
                try:
                    made.append(self._rank(ranker, request, now))
                except ValueError as error:
                    where = f"request {n + 1} of {len(requests)}: " if len(requests) > 1 else ""
                    raise Refused(422, "bad request", f"{where}{error}") from None
                if queries.setdefault(made[-1].event, request.query) != request.query:
                    raise _taken(made[-1].event)
            fresh = [ranked for ranked in made if self.fold.events.cached(name, ranker.born, ranked.event) is None]
            records = [(ranked_id(name, ranker.born, ranked.event), ranked) for ranked in fresh]
            settled = await self.append(records) if records else []
        finally:
            for ranked in made:
                self.fold.ready.pop(id(ranked), None)
        new = {id(ranked) for ranked, (_, new) in zip(fresh, settled, strict=True) if new}
        out = []
        for request, ranked in zip(requests, made, strict=True):
            answer = ranked
            if id(ranked) not in new:
                answer = self._again(ranker, ranked.event, request).ranked
            else:
                self.metrics.add("lists", (name, ranked.arm))
                for letter in set(ranked.why):
                    self.metrics.add("items_shown", (name, WHY[letter]), ranked.why.count(letter))
            out.append(response(ranker, answer))
        return out

    def _again(self, ranker: Ranker, event_id: str, request: RankRequest) -> Event:
        """The list that a retried call asks for."""
        event = self.fold.events.get(ranker.name, ranker.born, event_id)
        if event is None:  # pragma: no cover - it was in the log a moment ago
            raise Refused(503, "try again", "the list is being forgotten", {"Retry-After": "1"})
        if event.ranked.query != request.query:
            raise _taken(event_id)
        return event

    def _rank(self, ranker: Ranker, request: RankRequest, now: float) -> Ranked:
        settings = ranker.settings
        ask = Ask(self.settings, settings, request)
        event_id = request.event_id
        if event_id is None:
            event_id = f"{int(now * 1000):x}-{os.urandom(8).hex()}"
        else:
            self._check_id("event_id", event_id)
            known = self.fold.events.cached(ranker.name, ranker.born, event_id)
            if known is not None:
                return self._again(ranker, event_id, request).ranked
        if ask.features and ranker.policy.contextual:
            check_even(ask.features)
        query = self.fold.query(ranker, request.query)
        ready = self._learner(ranker, request.query, query, ask)
        learner = ready.learner
        key = learner.key_at(draw(event_id))
        arm: str = settings.mode
        if settings.holdout and (key_of(f"holdout/{ranker.name}/{event_id}") >> 11) * 2.0**-53 < settings.holdout:
            arm = "holdout"
        offered = ask.items if query is None or query.missing(ask.items) or ask.features else None
        if offered is None and query is not None and len(query.seen) != len(ask.items):
            offered = ask.items
        chosen = choose(learner, ask, arm, now, key)
        ranked = Ranked(
            ranker.name, request.query, event_id, now, learner.steps + 1, chosen.shown, chosen.why, key, chosen.score,
            arm, offered, ask.features if offered is not None and learner.policy.contextual else None,
            chosen.propensity, chosen.memo, request.defer, ranker.since, query.since if query else 0,
        )  # fmt: skip
        if query is None or learner is not query.learner:
            self.fold.ready[id(ranked)] = ready  # of this very list: another may come with the same event_id
        return ranked

    def _learner(self, ranker: Ranker, name: str, query: Query | None, ask: Ask) -> Ready:
        """One that knows all candidates; the query's own stays as it is until the list is in the log."""
        if query is None:
            learner = ranker.begin(name, ask.items, ask.features)
            return Ready(None, 0, learner)
        new = query.missing(ask.items)
        if not new and not (ask.features and ranker.policy.contextual):
            return Ready(query, query.version, query.learner)
        learner = query.learner.copy()
        extend(learner, new, ask.items, ask.features)
        return Ready(query, query.version, learner)

    # -- feedback --------------------------------------------------------------------------------------------------

    async def feedback(self, name: str, said: Sequence[Feedback]) -> list[FeedbackResult]:
        """What became of each. A malformed one among them: none is taken."""
        ranker = self.ranker(name)
        self._check_batch(len(said))
        now = self.now()
        out: list[FeedbackResult | None] = []
        records: list[Named] = []
        where: list[int] = []
        for n, feedback in enumerate(said):
            try:
                found = self._judge(ranker, feedback, now)
            except ValueError as error:
                self.metrics.add("feedback", (name, "malformed"))
                at = f"feedback {n + 1} of {len(said)}: " if len(said) > 1 else ""
                raise Refused(422, "bad request", f"{at}{error}") from None
            if isinstance(found, FeedbackResult):
                out.append(found)
            else:
                out.append(None)
                records.append(found)
                where.append(n)
        settled = await self.append(records) if records else []
        for n, (_, record), (_, new) in zip(where, records, settled, strict=True):
            assert isinstance(record, Final | Clicked)
            out[n] = self._outcome(ranker, record, new)
        results = [result for result in out if result is not None]
        for result in results:
            self.metrics.add("feedback", (name, result.outcome))
        return results

    def _judge(self, ranker: Ranker, feedback: Feedback, now: float) -> FeedbackResult | Named:
        """What it is already known to be, or the record that it makes."""
        self._check_id("event_id", feedback.event_id)
        if isinstance(feedback.time, str) and len(feedback.time) > self.settings.max_id:  # it is kept in memory, too
            raise ValueError(f"time: {len(feedback.time)} characters, at most {self.settings.max_id} are allowed")
        event = self.fold.events.get(ranker.name, ranker.born, feedback.event_id)
        if event is None:
            return FeedbackResult(feedback.event_id, "orphan", detail="no list has this event_id")
        clicks, shown = positions(event.ranked, feedback)
        if event.start is None:
            return FeedbackResult(feedback.event_id, "inactive", detail="the list was deferred and is not activated")
        if event.final is not None:
            return after_the_end(event.final, feedback.event_id, clicks, shown)
        if now >= event.began + ranker.wait:
            return FeedbackResult(feedback.event_id, "late", detail="the wait for clicks was over")
        # what was collected before the settings changed is not lost
        if ranker.settings.second_click == "update" or event.start in ranker.collected:
            name = clicked_id(ranker.name, feedback.event_id, event.seq, clicks, shown)
            return name, Clicked(ranker.name, feedback.event_id, now, clicks, shown, feedback.time)
        name = final_id(ranker.name, feedback.event_id, event.seq)
        return name, Final(ranker.name, feedback.event_id, now, "feedback", clicks, shown, feedback.time)

    def _outcome(self, ranker: Ranker, record: Final | Clicked, new: bool) -> FeedbackResult:
        event = self.fold.events.get(ranker.name, ranker.born, record.event)
        if event is None or self.fold.rankers.get(ranker.name) is not ranker:  # it was deleted meanwhile
            return FeedbackResult(record.event, "orphan")
        if isinstance(record, Clicked):
            if event.ranked.arm != "holdout" and self._forgotten(ranker, event):
                return FeedbackResult(record.event, "forgotten", detail=_RESET)
            if not new:
                return FeedbackResult(record.event, "duplicate", len(record.clicks))
            done = event.final
            if done is not None and (done.how != "feedback" or not {*record.clicks} <= {*done.clicks}):
                return FeedbackResult(record.event, "late", detail="the wait for clicks was over")
            clicks, _ = ranker.collected.get(event.start or 0, (done.clicks if done else record.clicks, None))
            return FeedbackResult(record.event, "collected", len(clicks))
        if not new:
            assert event.final is not None
            return after_the_end(event.final, record.event, record.clicks, record.shown)
        if event.ranked.arm == "holdout":
            return FeedbackResult(record.event, "holdout", len(record.clicks))
        if self._forgotten(ranker, event):
            return FeedbackResult(record.event, "forgotten", detail=_RESET)
        return FeedbackResult(record.event, "counted", len(record.clicks))

    def _forgotten(self, ranker: Ranker, event: Event) -> bool:
        """Whether what was learnt was started anew since the list was made."""
        return forgotten(event, ranker, self.fold.query(ranker, event.ranked.query))

    async def activate(self, event_id: str, names: Iterable[str]) -> Activation:
        """A deferred list was shown. It is looked for in these rankers."""
        self._check_ready()
        self.check_named("event_id", event_id)
        rankers = [self.fold.rankers[name] for name in names if name in self.fold.rankers]
        events = [self.fold.events.get(ranker.name, ranker.born, event_id) for ranker in rankers]
        found = [event for event in events if event is not None]
        if not found:
            raise Refused(404, "no such event", f"event_id={event_id!r}: no list has it")
        if len(found) > 1:
            raise Refused(
                409, "which?", "several rankers have such a list: use /v1/rankers/{ranker}/events/{id}/activate"
            )
        ranked = found[0].ranked
        if found[0].start is not None:  # shown is shown
            return Activation(event_id, "duplicate")
        name = activated_id(ranked.ranker, event_id, found[0].seq)
        ((_, new),) = await self.append([(name, Activated(ranked.ranker, event_id, self.now()))])
        return Activation(event_id, "activated" if new else "duplicate")

    # -- rankers and queries ---------------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not self.ready:
            raise Refused(503, "Not ready", "the service is starting or stopping", {"Retry-After": "1"})

    def ranker(self, name: str) -> Ranker:
        self._check_ready()
        try:
            return self.fold.rankers[name]
        except KeyError:
            detail = f"ranker {name!r}: there is none of this name; name it in the settings, or make it with PUT"
            raise Refused(404, "no such ranker", detail) from None

    def ranker_names(self) -> list[str]:
        self._check_ready()
        return sorted(self.fold.rankers)

    def ranker_settings(self) -> dict[str, RankerSettings]:
        return {name: ranker.settings for name, ranker in self.fold.rankers.items()}

    def info(self, name: str) -> RankerInfo:
        r = self.ranker(name)
        return RankerInfo(name, r.settings, r.queries, r.lists, r.steps, r.clicks, len(r.pending))

    async def put_ranker(self, name: str, settings: RankerSettings) -> RankerInfo:
        """Make a ranker or change it. Where policy, k, seed or horizon change, it starts to learn anew."""
        self._check_ready()
        try:
            check_ranker(name, settings)
            if settings.keys and self.settings.admin_key is None:
                raise ValueError(
                    "keys: the server needs an admin key first; without one nobody could change them again"
                )
            await self._compile(settings)
        except ValueError as error:
            raise Refused(422, "bad settings", str(error)) from None
        await self._set(name, settings)
        return self.info(name)

    async def _compile_all(self) -> None:
        for ranker in self.fold.rankers.values():
            with suppress(ValueError):  # it was taken when there was more memory
                await self._compile(ranker.settings)

    async def _compile(self, settings: RankerSettings) -> None:
        """Before the first list, and beside the event loop: others are answered meanwhile."""
        policy, most = policy_of(settings), self.settings.memory_bytes
        try:
            size: float = await asyncio.to_thread(rehearse, policy, settings.k, settings.horizon, most)
        except MemoryError:
            size = math.inf
        if size > most:
            raise ValueError(f"policy={policy.spec!r}: a query takes {size:.3g} bytes, more than the memory for all")

    async def _set(self, name: str, settings: RankerSettings) -> None:
        await self.append([self._setting(name, settings)], urgent=True)

    def _setting(self, name: str, settings: RankerSettings) -> Named:
        settings, chosen = _explicit(settings, self.fold.rankers.get(name)), settings.policy is not None
        return once("ranker"), RankerSet(name, self.now(), settings, chosen)

    async def delete_ranker(self, name: str) -> None:
        self.ranker(name)
        await self.append([(once("ranker"), RankerDeleted(name, self.now()))])

    async def reset(self, name: str, query: str | None = None, *, gone: bool = False) -> None:
        """Forget what was learnt; of one query, or of all."""
        ranker = self.ranker(name)
        if query is not None and self.fold.query(ranker, query) is None:
            raise no_query(name, query)
        await self.append([(once("reset"), Reset(name, self.now(), query, gone))])

    # -- limits ----------------------------------------------------------------------------------------------------

    def _check_batch(self, n: int) -> None:
        if not 1 <= n <= self.settings.max_batch:
            raise Refused(422, "bad request", f"{n} requests at once: must be from 1 to {self.settings.max_batch}")

    def _check_id(self, name: str, value: ItemId) -> None:
        check_id(name, value, self.settings.max_id)

    def check_named(self, name: str, value: str) -> None:
        """An id that is not in a body."""
        try:
            self._check_id(name, value)
        except ValueError as error:
            raise Refused(422, "bad request", str(error)) from None


def _explicit(settings: RankerSettings, before: Ranker | None) -> RankerSettings:
    """With the policy named: a later version may have another default, and the log must mean the same.

    A ranker that has the default of an earlier version keeps it: what it has learnt is worth more than a better policy
    that begins with nothing.
    """
    if settings.policy is None and before is not None and not before.chosen:
        kept = structs.replace(settings, policy=before.settings.policy)
        if (settings.mode == "safe") == (before.settings.mode == "safe"):  # which has a policy of its own
            return kept
    return structs.replace(settings, policy=policy_of(settings).spec)


def _taken(event_id: str) -> Refused:
    return Refused(409, "event id taken", f"event_id={event_id!r}: was used for another query")


def no_query(ranker: str, query: str) -> Refused:
    return Refused(404, "no such query", f"query {query!r}: ranker {ranker!r} knows nothing of it")


def once(kind: str) -> str:
    """An id for what is done as often as it is asked."""
    return f"{kind}/{os.urandom(12).hex()}"
