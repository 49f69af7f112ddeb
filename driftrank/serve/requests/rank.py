"""Rank requests: checked, ranked, recorded, and answered when the record is durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Literal

from driftrank.serve.core import ServiceCore, no_ranker
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.records import WHY, Ranked, ranked_id
from driftrank.serve.monitoring.metrics import position_label
from driftrank.serve.problems import Refused
from driftrank.serve.ranking.choice import CheckedRequest, degraded_response, make_impression, response
from driftrank.serve.ranking.paging import page_of
from driftrank.serve.requests.feedback import stamped, take_back
from driftrank.serve.slices import Slices
from driftrank.serve.state.arms import Arm, Assignment
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.query import Query
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import ItemId, RankRequest, RankResponse, route_of

#: problems for which the baseline is answered instead of a ranking
_STORE_FAILED = ("Outcome unknown", "Store not readable", "Store not writable")


class RankRequests:
    """Answers rank requests."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def rank(
        self, name: str, requests: Sequence[RankRequest], *, lenient: bool = False,
        has_gone: Callable[[], bool] = lambda: False,
    ) -> list[RankResponse]:  # fmt: skip
        """Rankings, in the order of the requests; none if one of these is bad.

        ``lenient``: as long as it cannot rank, because it is starting or the store cannot be used, the baseline.
        ``has_gone``: tells whether the caller does not wait for it any more.
        """
        if lenient and self._core.starting:
            return self._degraded(name, requests, "starting")
        self._core.check_ready()
        try:
            return await self._rankings(name, requests, settles=lambda: not lenient or has_gone())
        except Refused as problem:
            if not lenient or problem.title not in _STORE_FAILED:
                raise
            return self._degraded(name, requests, "store")

    async def _rankings(
        self, name: str, requests: Sequence[RankRequest], settles: Callable[[], bool]
    ) -> list[RankResponse]:
        """``settles``: tells whether the caller may send the same requests again, if their outcome is unknown."""
        core = self._core
        if not core.maintenance.memory_free.is_set():
            await core.maintenance.memory_free.wait()
        ranker = core.ranker(name)
        core.check_batch(len(requests))
        slices = Slices()
        rankings: list[Ranked | NewRecord] = []
        notes: list[Sequence[str]] = []
        asked: dict[str, int] = {}
        await core.hold(name, {request.query for request in requests})
        async with core.one_batch[name] if len(requests) > 1 else nullcontext():
            now = core.now()
            for n, request in enumerate(requests):
                if n and slices.over:  # not after the last: calls of one request are recorded in the order they came
                    await slices.pause()
                    now = core.now()
                if core.shared:
                    await core.hold_until_await(name, request.query)
                    ranker = core.ranker(name)  # it may have been deleted and created meanwhile
                try:
                    event_id = self._event_id(name, request, now)
                    assigned = ranker.assign(event_id, self._subject(request))
                    checked = CheckedRequest(core.settings, assigned.arm.settings, assigned.arm.policy, request)
                    rankings.append(self._rank(ranker, assigned, request, checked, event_id, now))
                    notes.append(checked.notes)
                except ValueError as error:
                    where = f"request {n + 1} of {len(requests)}: " if len(requests) > 1 else ""
                    raise Refused(422, "Bad value", f"{where}{error}") from None
                if request.event_id is not None and asked.setdefault(event_id, checked.asked) != checked.asked:
                    raise _taken(event_id)
        records = [ranking for ranking in rankings if isinstance(ranking, NewRecord)]
        try:
            settled = iter(await core.append(stamped(records, now)) if records else [])
            if not records:
                await core.settle()
        except Refused as problem:
            if problem.title == "Outcome unknown":  # the list may be in the log, though nobody sees it
                again = asked if settles() else ()
                unseen = [new.record.event_id for new in records if isinstance(new.record, Ranked)]
                core.maintenance.unseen(ranker, [event_id for event_id in unseen if event_id not in again])
            raise
        if ranker.withdrawn:
            await take_back(core, ranker, [new.record.event_id for new in records if isinstance(new.record, Ranked)])
        out: list[RankResponse] = []
        for ranking, said in zip(rankings, notes, strict=True):
            if out and slices.over:
                await slices.pause()
            ranked = ranking.record if isinstance(ranking, NewRecord) else ranking
            assert isinstance(ranked, Ranked)
            if isinstance(ranking, NewRecord):
                if next(settled).new:
                    self._count(ranked)
                else:
                    found = (await core.impressions(ranker, [ranked.event_id]))[ranked.event_id]
                    ranked = _served(found, ranked.query, ranked.asked)
            self.count_ignored(ranker, said)
            out.append(response(ranker, ranked, said))
        return out

    def _degraded(
        self, name: str, requests: Sequence[RankRequest], why: Literal["starting", "store"]
    ) -> list[RankResponse]:
        """The baseline for each request."""
        core = self._core
        settings = core.ranker_settings().get(name)
        if settings is None:  # it may be in the part of the log that is not replayed yet
            core.check_ready()
            raise no_ranker(name)
        core.check_batch(len(requests))
        try:
            out = [degraded_response(core.settings, settings, request, why) for request in requests]
        except ValueError as error:
            raise Refused(422, "Bad value", str(error)) from None
        core.metrics.add("lists_degraded", (name, why), len(out))
        return out

    def _event_id(self, ranker: str, request: RankRequest, now: float) -> str:
        core = self._core
        if request.event_id is None:
            new = f"{int(now * 1000):x}-{os.urandom(8).hex()}"
            # with several nodes feedback should reach the one that has the query
            return new if not core.shared else f"{new}@{route_of(ranker, request.query)}"
        core.check_id("event_id", request.event_id)
        return request.event_id

    def _subject(self, request: RankRequest) -> str | None:
        if request.subject is not None:
            self._core.check_id("subject", request.subject)
        return request.subject

    def _rank(
        self, ranker: Ranker, assigned: Assignment, request: RankRequest, checked: CheckedRequest, event_id: str,
        now: float,
    ) -> Ranked | NewRecord:  # fmt: skip
        """The impression that was served for this event id, or a new one."""
        core = self._core
        if request.event_id is not None:
            cached = core.state.cached_impression(ranker, event_id)
            if cached is not None:
                return _served(cached, request.query, checked.asked)
        query = core.state.query(assigned.arm, request.query)
        if query is not None:
            self._check_items(query, checked.items)
        page = page_of(core.state, ranker, assigned, query, request, checked, now) if ranker.stable else None
        ranked, prepared = make_impression(
            ranker, assigned, request.query, query, checked, event_id, now, defer=request.defer, page=page
        )
        return NewRecord(ranked_id(ranker.name, ranker.created, event_id), ranked, prepared)

    def _check_items(self, query: Query, items: Sequence[ItemId]) -> None:
        """Raise if a query would have too many items: each call takes time for all of them."""
        most = self._core.settings.max_query_items
        if query.learner.open or len(query.seen) + len(items) <= most:
            return
        n = len(query.seen) + len(query.missing(items))
        if n > most:
            raise ValueError(f"items: the query would have {n}, at most {most} are allowed (max_query_items)")

    def count_ignored(self, arm: Arm, notes: Sequence[str]) -> None:
        for note in notes:
            self._core.metrics.add("ignored", (arm.ranker_name, note.partition(":")[0]))

    def _count(self, ranked: Ranked) -> None:
        core = self._core
        core.metrics.add("lists", (ranked.ranker, ranked.arm))
        for letter in set(ranked.why):
            core.metrics.add("items_shown", (ranked.ranker, WHY[letter]), ranked.why.count(letter))
        for n, letter in enumerate(ranked.why, 1):
            if letter == "e":
                core.metrics.add("explored_by_position", (ranked.ranker, position_label(n)))

    def answered(self, name: str, rankings: Iterable[RankResponse], *, delivered: bool) -> None:
        """Note whether an answer could be sent. What nobody gets, nobody sees: it is not learnt from."""
        core = self._core
        ranker = core.state.rankers.get(name)
        if ranker is None:
            return
        for ranking in rankings:
            impression = core.state.cached_impression(ranker, ranking.event_id)
            if impression is None:
                continue
            if delivered:
                impression.delivered = True
            elif not impression.delivered:
                core.maintenance.undelivered(ranker, impression)


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
