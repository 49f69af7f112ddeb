"""The client for programs that run on asyncio."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self, TypeVar, overload

import httpx

from driftrank.client import calls
from driftrank.client.blocking import Client
from driftrank.client.calls import Call, Click
from driftrank.client.common import Common
from driftrank.client.connection import request_of
from driftrank.client.errors import ServiceError
from driftrank.client.lanes import Lanes
from driftrank.client.retrying import Attempts, Rules
from driftrank.wire import (
    Activation,
    Counted,
    Feedback,
    FeedbackResult,
    Item,
    ItemId,
    QueryState,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
    WarmRow,
)

T = TypeVar("T")


class AsyncClient(Common):
    """A connection to a ranking service. Tasks of one event loop may share it.

    The parameters are those of :class:`~driftrank.client.common.Common`.

    Examples
    --------
    With a service that listens there::

        async with AsyncClient("http://127.0.0.1:8080") as client:
            ranking = await client.rank("shoes", ["red", "blue", "green"])
            await client.feedback(ranking.event_id, clicks=["blue"])
    """

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
        fallback: bool = False,
    ) -> RankResponse:
        """The list to show.

        With ``fallback`` the answer comes within ``timeout``: where the service does not give one, it is the baseline
        (by default the items as given), with an empty event id. Feedback for such a list is not sent.
        """
        request = calls.rank_request(query, items, k, event_id, excluded, pinned, baseline, defer)
        return await self._ranked(calls.rank(self.name, request), lambda: calls.fallback(request), fallback)

    async def rank_many(self, requests: Iterable[RankRequest], *, fallback: bool = False) -> list[RankResponse]:
        """Several lists, in one call."""
        named = calls.named(requests)
        return await self._ranked(calls.rank_many(self.name, named), lambda: [*map(calls.fallback, named)], fallback)

    @overload
    async def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, wait: Literal[False] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    async def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, wait: Literal[True],
    ) -> FeedbackResult: ...  # fmt: skip
    async def feedback(
        self,
        event_id: str,
        clicks: Iterable[Click] | None = None,
        shown: int | None = None,
        time: float | str | None = None,
        *,
        wait: bool = False,
    ) -> FeedbackResult | None:
        """What users did with a list: the clicked items or positions; none, if they clicked nothing.

        It is sent in the background; with ``wait`` at once, and the answer says what became of it.
        """
        if not event_id:  # of a fallback
            return calls.NEVER_SEEN if wait else None
        body = calls.feedback_body(event_id, clicks, shown, time)
        if wait:
            (result,) = await self._send(calls.feedback(self.name, [body]))
            return result
        async with self._changed:
            if self._closed:
                raise RuntimeError("feedback: this client is closed")
            self._outbox.put(body)
            self._start()
            if len(self._outbox) == 1 or self._outbox.full:
                self._changed.notify_all()
        return None

    async def feedback_many(self, feedbacks: Iterable[Feedback]) -> list[FeedbackResult]:
        """Several feedbacks, sent at once in one call."""
        given = list(feedbacks)
        bodies = calls.feedback_bodies(given)
        return calls.aligned(given, await self._send(calls.feedback(self.name, bodies)) if bodies else [])

    async def activate(self, event_id: str) -> Activation:
        """A deferred list was shown."""
        return await self._send(calls.activate(self.name, event_id))

    # -- feedback in the background --------------------------------------------------------------------------------

    async def flush(self, timeout: float | None = None) -> bool:
        """Wait until all feedback is sent, at most so many seconds; whether it is."""
        async with self._changed:
            self._outbox.impatient()
            self._flushing += 1
            self._flushes += 1
            if len(self._outbox):
                self._start()
            self._changed.notify_all()
        try:
            return await self._until(lambda: not len(self._outbox), timeout) and not self._outbox.abandoned
        finally:
            self._flushing -= 1

    async def close(self, timeout: float = 5.0) -> None:
        """Send what is left, for at most so many seconds, and close the connections."""
        if self._closed:
            return
        if len(self._outbox):
            await self.flush(timeout)
        async with self._changed:
            self._closed = True
            self._changed.notify_all()
        try:
            if self._sender is not None:
                atexit.unregister(self._at_exit)
                await asyncio.wait([self._sender], timeout=self._rules.timeout)
        finally:  # also when nobody waits for us any more
            async with self._changed:
                self._outbox.abandon()
                self._changed.notify_all()  # others may wait until all is sent
            await self._lanes.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- rankers ---------------------------------------------------------------------------------------------------

    async def query(self, query: str) -> QueryState:
        """What is known of a query."""
        return await self._send(calls.query(self.name, query))

    async def queries(self, after: str = "", limit: int = 100) -> list[str]:
        """Names of queries, sorted: so many after one of them."""
        return await self._send(calls.queries(self.name, after, limit))

    async def delete_query(self, query: str) -> None:
        await self._send(calls.delete_query(self.name, query))

    async def rankers(self) -> list[RankerInfo]:
        """The rankers that this key opens."""
        return await self._send(calls.rankers())

    async def ranker(self, name: str | None = None) -> RankerInfo:
        """A ranker as it is; by default the one that this client uses."""
        return await self._send(calls.ranker(self.name if name is None else name))

    async def put_ranker(self, name: str, settings: RankerSettings) -> RankerInfo:
        """Make a ranker, or change its settings."""
        return await self._send(calls.put_ranker(name, settings))

    async def delete_ranker(self, name: str) -> None:
        await self._send(calls.delete_ranker(name))

    async def reset(self, query: str | None = None) -> None:
        """Start anew: the whole ranker, or one query."""
        await self._send(calls.reset(self.name, query))

    async def warmstart(self, rows: Iterable[WarmRow], *, batch: int = 1000, name: str | None = None) -> Counted:
        """Learn from the lists of an old click log, in their order. Under the same name the same rows count once."""
        return calls.together([await self._send(call) for call in calls.warmstart(self.name, rows, batch, name)])

    async def export(self) -> bytes:
        """The state of the ranker, for ``import_``."""
        return await self._send(calls.export(self.name))

    async def import_(self, state: bytes) -> Counted:
        """Put in what ``export`` gave."""
        return calls.together([await self._send(call) for call in calls.import_(self.name, state)])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._lanes = Lanes(self._options)
        self._changed = asyncio.Condition()
        self._sender: asyncio.Task[None] | None = None

    def _start(self) -> None:
        if self._sender is not None and not self._sender.done():
            return
        self._sender = asyncio.get_running_loop().create_task(self._work(), name="driftrank feedback")
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        """The event loop ended before the client was closed: what is left is sent without one."""
        if self._closed or not len(self._outbox):
            return
        rules = self._rules
        client = Client(self._url, key=self._key, ranker=self.name, timeout=rules.timeout, retries=rules.retries)
        client._outbox = self._outbox
        client._send_rest(5.0)

    async def _until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait for something, at most so many seconds; whether it came."""
        async with self._changed:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait_for(condition)
            except TimeoutError:
                return bool(condition())
        return True

    async def _work(self) -> None:
        """Send feedback until the client is closed."""
        box = self._outbox
        while True:
            await self._until(lambda: len(box) or self._closed)
            await self._until(lambda: box.full or self._flushing or self._closed, box.flush_seconds)
            if self._closed:
                return
            before = self._flushes
            wait = await self._send_batch()
            # somebody who cannot wait cuts it short, also who came while it was sent
            await self._until(lambda: self._closed or self._flushes > before, wait)  # noqa: B023

    async def _send_batch(self) -> float:
        """Send what is there, as much as goes in one call; seconds to wait before the next."""
        wait = 0.0
        try:
            results = await self._send(calls.feedback(self.name, self._outbox.take()), self._rules.once)
        except ServiceError as error:
            wait = self._outbox.failed(error)
        else:
            self._outbox.sent(results)
        async with self._changed:
            self._changed.notify_all()
        return wait

    async def _ranked(self, call: Call[T], instead: Callable[[], T], fallback: bool) -> T:
        if not fallback:
            return await self._send(call)
        try:
            return await self._send(call, self._rules.prompt)
        except ServiceError as error:
            if not error.blameless:
                raise
            self._fallbacks.add(1, error)
            return instead()

    async def _send(self, call: Call[T], rules: Rules | None = None) -> T:
        attempts = Attempts(call, rules or self._rules)
        while True:
            try:
                async with asyncio.timeout(timeout := attempts.timeout()):
                    response = await self._attempt(call, timeout)
            except (httpx.RequestError, UnicodeError, TimeoutError) as error:  # as in the other client
                wait = attempts.failed(error)
            else:
                again = attempts.answered(response.status_code, response.headers, response.content)
                if again is None:
                    return call.read(response.status_code, response.content, attempts.repeated)
                wait = again
            await asyncio.sleep(wait)

    async def _attempt(self, call: Call[Any], timeout: float) -> httpx.Response:
        lane = await self._lanes.take()
        whole = False
        try:
            response = await lane.send(request_of(lane, call, timeout))
            whole = True
            return response
        finally:
            await self._lanes.give_back(lane, whole)
