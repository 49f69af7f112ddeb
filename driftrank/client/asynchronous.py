"""The client for asyncio, and the calls of both clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, Self, overload

from ..validation import check_integer
from ..wire import (
    Activation,
    ChangeLogged,
    Counted,
    EventState,
    ExperimentState,
    Feedback,
    FeedbackResult,
    Item,
    ItemId,
    OperationLogged,
    Overview,
    QueryLists,
    QueryState,
    QuerySummary,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
    SeriesState,
    ShadowState,
    WarmRow,
    route_in,
    route_of,
)
from . import calls
from .calls import Call, Click, segment
from .core import Core
from .event_loop import EventLoop
from .shown import Shown
from .threads import Threads, run

#: by whether what was learnt may be discarded
_QUERY = ("", "?discard=true")


class AsyncClient(Core):
    """A connection to a ranking service. Tasks of one event loop may share it; when that has ended, another may use it.

    The parameters are those of :class:`~.core.Core`.

    Examples
    --------
    With a service that listens there::

        async with AsyncClient("http://127.0.0.1:8080") as client:
            ranking = await client.rank("shoes", ["red", "blue", "green"])
            await client.feedback(ranking.event_id, clicks=["blue"])
    """

    # The methods of Client are these, run on threads: they must not call each other.

    _runtime_class = EventLoop

    # -- ranking ---------------------------------------------------------------------------------------------------

    async def rank(
        self,
        query: str,
        items: Iterable[ItemId | Item],
        *,
        k: int | None = None,
        event_id: str | None = None,
        excluded: Iterable[ItemId] = (),
        pinned: Mapping[str, int] | None = None,
        baseline: Iterable[ItemId] | None = None,
        defer: bool = False,
        items_unordered: bool = False,
        context: Mapping[str, Any] | None = None,
        subject: str | None = None,
        offset: int = 0,
        fallback: bool = False,
    ) -> RankResponse:
        """Rank items for a query.

        ``subject`` is the id of a user or session, which decides on the arm of an experiment and gets the same list
        again for as long as the ranker's setting ``stable``; ``offset`` is the number of positions on earlier pages.

        The service starts from the order of ``baseline``, by default that of the items' scores, or of the items;
        ``items_unordered`` says that it means nothing. ``context`` is what is known of the request, and
        ``Item(id, features, score)`` what is known of an item.

        With ``fallback`` the call returns within ``timeout``: if the service does not answer, the result is the
        baseline (by default the items as given) with an empty event id, as long as the ranker's lists: as answers have
        shown, or as the client's ``k`` says. For a while after that the service is not asked at all, so that not every
        page waits. Feedback for a fallback is not sent. The ranking that the service may still make is taken back in
        the background: it was not shown. A call that the service refuses (a key without access, an unknown ranker, no
        items, an item twice) is an error of the caller, and raises with a fallback, too.
        """
        route = route_of(self.name, query)
        request = RankRequest(
            query, calls.listed("items", items), k, event_id or calls.new_event_id(route),
            calls.listed("excluded", excluded), dict(pinned or {}),
            None if baseline is None else calls.listed("baseline", baseline), defer,
            items_unordered, None if context is None else dict(context), subject=subject, offset=offset,
        )  # fmt: skip
        call = Call("POST", f"{self._path}/rank", RankResponse, calls.encoded(request, RankRequest), route=route)
        assert request.event_id is not None
        # an id that the caller chose may be asked for again
        events = [request.event_id] if fallback or not event_id else []
        other = (lambda: calls.fallback(request, self._k)) if fallback else None
        return self._note_k(request, await self._rank(call, events, other))

    async def rank_many(self, requests: Iterable[RankRequest], *, fallback: bool = False) -> list[RankResponse]:
        """Rank several times in one call."""
        given = list(requests)
        named = [calls.with_event_id(self.name, request) for request in given]
        events = [str(to.event_id) for asked, to in zip(given, named, strict=True) if fallback or not asked.event_id]
        call = Call("POST", f"{self._path}/rank", list[RankResponse], calls.encoded(named, list[RankRequest]))
        other = (lambda: [calls.fallback(request, self._k) for request in named]) if fallback else None
        answers = await self._rank(call, events, other)
        return [self._note_k(request, answer) for request, answer in zip(named, answers, strict=True)]

    @asynccontextmanager
    async def showing(self, query: str, items: Iterable[ItemId | Item], **how: Any) -> AsyncIterator[Shown]:
        """Rank, show, and send feedback at the end of the block; the arguments are those of ``rank``.

        ::

            async with client.showing("shoes", ["red", "blue"], fallback=True) as page:
                show(page.items)
                page.click("blue")
        """
        page = Shown(await self.rank(query, items, **how))
        try:
            yield page
        except BaseException:
            await self._feedback(page.feedback(failed=True), False)
            raise
        await self._feedback(page.feedback(failed=False), False)

    @overload
    async def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, value: float | None = ..., kind: str | None = ...,
        wait: Literal[False] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    async def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, value: float | None = ..., kind: str | None = ...,
        wait: Literal[True],
    ) -> FeedbackResult: ...  # fmt: skip
    async def feedback(
        self,
        event_id: str,
        clicks: Iterable[Click] | None = None,
        shown: int | None = None,
        time: float | str | None = None,
        *,
        value: float | None = None,
        kind: str | None = None,
        wait: bool = False,
    ) -> FeedbackResult | None:
        """Report the clicked items or positions of a ranking; none if nothing was clicked.

        Each click is worth ``value``, from 0 to 1, or as much as the ranker's settings have for this ``kind`` of event;
        1 by default. Feedback is sent in the background; with ``wait`` it is sent at once and its result returned.
        """
        given = Feedback(event_id, clicks, shown, time, value, kind)  # type: ignore[arg-type]
        return await self._feedback(given, wait)

    async def feedback_many(self, feedbacks: Iterable[Feedback]) -> list[FeedbackResult]:
        """Send several feedbacks at once, in one call."""
        given = list(feedbacks)
        bodies = [calls.feedback_body(feedback) for feedback in given if feedback.event_id]
        results = await self._send(calls.feedback(self.name, bodies)) if bodies else []
        in_order = iter(results)
        return [next(in_order) if feedback.event_id else calls.NEVER_SEEN for feedback in given]

    async def activate(self, event_id: str) -> Activation:
        """Report that a deferred ranking was shown."""
        path = f"{self._path}/events/{segment(event_id)}/activate"
        return await self._send(Call("POST", path, Activation, route=route_in(event_id)))

    async def flush(self, timeout: float | None = None) -> bool:
        """Wait until all feedback is sent, at most ``timeout`` seconds; return whether it is."""
        return await self._flush(timeout)

    async def close(self, timeout: float = 5.0) -> None:
        """Send the remaining feedback, for at most ``timeout`` seconds, and close the connections."""
        await self._close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close(5.0)

    # -- queries and rankers ---------------------------------------------------------------------------------------

    async def event(self, event_id: str) -> EventState:
        """A ranking that was served: its candidates, why, its feedback, and what became of it."""
        return await self._send(Call("GET", f"{self._path}/events/{segment(event_id)}", EventState))

    async def query(self, query: str, offset: int = 0, limit: int = 1000, sort: str = "estimate") -> QueryState:
        """The state of a query, with ``limit`` of its items after the first ``offset``.

        ``sort``: by estimate, score, samples, last_offered, last_change or id.
        """
        check_integer("offset", offset, 0)
        check_integer("limit", limit, 1)
        whole = (offset, limit, sort) == (0, 1000, "estimate")
        page = "" if whole else calls.parameters(offset=offset, limit=limit, sort=sort)
        path = f"{self._path}/queries/{segment(query)}{page}"
        return await self._send(Call("GET", path, QueryState, route=route_of(self.name, query)))

    async def query_lists(self, query: str, limit: int = 20) -> QueryLists:
        """The latest lists of a query with their clicks, and its items in them."""
        path = f"{self._path}/lists/{segment(query)}{calls.parameters(limit=limit)}"
        return await self._send(Call("GET", path, QueryLists))

    async def top_queries(self, by: str = "traffic", offset: int = 0, limit: int = 100) -> list[QuerySummary]:
        """Queries with their traffic: by "traffic", by latest "change", or by "loss" against the holdout."""
        page = calls.parameters(by=by, offset=offset, limit=limit)
        return await self._send(Call("GET", f"{self._path}/top-queries{page}", list[QuerySummary]))

    async def changes(
        self, query: str | None = None, *, before: int | None = None, limit: int = 100
    ) -> list[ChangeLogged]:
        """The changes of users that were detected, latest first: ``limit`` of those before a number."""
        page = calls.parameters(query=query, before=before, limit=limit)
        return await self._send(Call("GET", f"{self._path}/changes{page}", list[ChangeLogged]))

    async def queries(self, after: str = "", limit: int = 100) -> list[str]:
        """Names of queries, sorted: the first ``limit`` after one of them."""
        check_integer("limit", limit, 1)
        # the query "" comes after nothing, not after itself
        page = calls.parameters(after=after or None, limit=limit)
        return await self._send(Call("GET", f"{self._path}/queries{page}", list[str]))

    async def delete_query(self, query: str) -> None:
        await self._send(Call("DELETE", f"{self._path}/queries/{segment(query)}", bytes))

    async def rankers(self) -> list[RankerInfo]:
        """The rankers that this key has access to."""
        return await self._send(Call("GET", "/v1/rankers", list[RankerInfo]))

    async def ranker(self, name: str | None = None) -> RankerInfo:
        """Settings and counts of a ranker; by default of this client's."""
        return await self._ranker_info(Call("GET", calls.ranker_path(self.name if name is None else name), RankerInfo))

    async def put_ranker(self, name: str, settings: RankerSettings, *, discard: bool = False) -> RankerInfo:
        """Create a ranker, or replace its settings. A change that costs what it has learnt needs ``discard``.

        Waits for a policy that is compiled for the first time.
        """
        body = calls.encoded(settings, RankerSettings)
        return await self._ranker_info(
            Call("PUT", calls.ranker_path(name) + _QUERY[discard], RankerInfo, body, long=True)
        )

    async def patch_ranker(self, name: str, changes: Mapping[str, Any], *, discard: bool = False) -> RankerInfo:
        """Change some settings of a ranker."""
        body = calls.encoded(dict(changes), dict[str, Any])
        return await self._ranker_info(
            Call("PATCH", calls.ranker_path(name) + _QUERY[discard], RankerInfo, body, long=True)
        )

    async def operations(
        self, name: str | None = None, *, before: int | None = None, limit: int = 100
    ) -> list[OperationLogged]:
        """The operations on a ranker, by default on this client's, latest first: ``limit`` of those before a number."""
        path = f"{calls.ranker_path(self.name if name is None else name)}/operations"
        return await self._send(Call("GET", path + calls.parameters(before=before, limit=limit), list[OperationLogged]))

    async def all_operations(self, *, before: int | None = None, limit: int = 100) -> list[OperationLogged]:
        """The operations on all rankers, latest first: ``limit`` of those before a number."""
        page = calls.parameters(before=before, limit=limit)
        return await self._send(Call("GET", f"/v1/operations{page}", list[OperationLogged]))

    async def undo(self, number: int, name: str | None = None) -> RankerInfo:
        """Undo an operation on a ranker."""
        path = f"{calls.ranker_path(self.name if name is None else name)}/operations/{number}/undo"
        return await self._ranker_info(Call("POST", path, RankerInfo, long=True))

    async def experiment(self, name: str | None = None) -> ExperimentState:
        """The arms of a ranker and their comparison; by default of this client's."""
        path = f"{calls.ranker_path(self.name if name is None else name)}/experiment"
        return await self._send(Call("GET", path, ExperimentState))

    async def shadow(self, name: str | None = None) -> ShadowState:
        """The value of what the policy of a ranker in mode shadow would have shown; by default of this client's."""
        path = f"{calls.ranker_path(self.name if name is None else name)}/shadow"
        return await self._send(Call("GET", path, ShadowState))

    async def overview(self) -> Overview:
        """The rankers that this key has access to at a glance, and the service with a key to all of them."""
        return await self._send(Call("GET", "/v1/overview", Overview))

    async def series(
        self, name: str | None = None, *, step: str = "minute", since: datetime | None = None
    ) -> SeriesState:
        """A ranker over time, by default this client's: by "minute" of a day or by "hour" of 92 days."""
        page = calls.parameters(step=step, since=None if since is None else since.isoformat())
        path = f"{calls.ranker_path(self.name if name is None else name)}/series{page}"
        return await self._send(Call("GET", path, SeriesState))

    async def delete_ranker(self, name: str) -> None:
        await self._send(Call("DELETE", calls.ranker_path(name), bytes))

    async def reset(self, query: str | None = None) -> None:
        """Forget everything learnt: by the ranker, or about one query."""
        where = "" if query is None else f"/queries/{segment(query)}"
        await self._send(Call("POST", f"{self._path}{where}/reset", bytes))

    # -- transfer --------------------------------------------------------------------------------------------------

    async def warmstart(self, rows: Iterable[WarmRow], *, batch: int = 1000, name: str | None = None) -> Counted:
        """Learn from the rows of an old click log, in their order. Under the same name the same rows count once."""
        check_integer("batch", batch, 1)
        path = f"{self._path}/warmstart?batch={segment(name or calls.new_event_id())}"
        parts = calls.batches((calls.encoded(row, WarmRow) for row in rows), batch)
        return await self._send_all(
            Call("POST", f"{path}-{n}", Counted, calls.array(part), long=True) for n, part in enumerate(parts)
        )

    async def export(self) -> bytes:
        """The state of the ranker, for ``import_``."""
        return await self._send(Call("GET", f"{self._path}/export", bytes, long=True))

    async def import_(self, state: bytes) -> Counted:
        """Restore the state that ``export`` returned."""
        parts = calls.batches(state.splitlines(keepends=True))
        path = f"{self._path}/import"
        return await self._send_all(Call("POST", path, Counted, b"".join(part), long=True) for part in parts)

    def _at_exit(self) -> None:
        """The event loop ended before the client was closed: send the rest without one."""
        if not self._closed and len(self._outbox):
            self._runtime = Threads(self._options)
            run(self._send_rest(5.0))
