"""The client for ordinary programs."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self, TypeVar, overload

import httpx

from driftrank.client import calls
from driftrank.client.calls import Call, Click
from driftrank.client.common import Common
from driftrank.client.connection import request_of
from driftrank.client.errors import ServiceError
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


class Client(Common):
    """A connection to a ranking service. Threads may share it.

    The parameters are those of :class:`~driftrank.client.common.Common`.

    Examples
    --------
    With a service that listens there::

        with Client("http://127.0.0.1:8080") as client:
            ranking = client.rank("shoes", ["red", "blue", "green"])
            client.feedback(ranking.event_id, clicks=["blue"])
    """

    # -- ranking ---------------------------------------------------------------------------------------------------

    def rank(
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
        return self._ranked(calls.rank(self.name, request), lambda: calls.fallback(request), fallback)

    def rank_many(self, requests: Iterable[RankRequest], *, fallback: bool = False) -> list[RankResponse]:
        """Several lists, in one call."""
        named = calls.named(requests)
        return self._ranked(calls.rank_many(self.name, named), lambda: [*map(calls.fallback, named)], fallback)

    @overload
    def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, wait: Literal[False] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, wait: Literal[True],
    ) -> FeedbackResult: ...  # fmt: skip
    def feedback(
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
            (result,) = self._send(calls.feedback(self.name, [body]))
            return result
        with self._changed:
            if self._closed:
                raise RuntimeError("feedback: this client is closed")
            self._outbox.put(body)
            self._start()
            if len(self._outbox) == 1 or self._outbox.full:
                self._changed.notify_all()
        return None

    def feedback_many(self, feedbacks: Iterable[Feedback]) -> list[FeedbackResult]:
        """Several feedbacks, sent at once in one call."""
        given = list(feedbacks)
        bodies = calls.feedback_bodies(given)
        return calls.aligned(given, self._send(calls.feedback(self.name, bodies)) if bodies else [])

    def activate(self, event_id: str) -> Activation:
        """A deferred list was shown."""
        return self._send(calls.activate(self.name, event_id))

    # -- feedback in the background --------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all feedback is sent, at most so many seconds; whether it is."""
        with self._changed:
            self._outbox.impatient()
            self._flushing += 1
            self._flushes += 1
            if len(self._outbox):
                self._start()
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not len(self._outbox), timeout) and not self._outbox.abandoned
            finally:
                self._flushing -= 1

    def close(self, timeout: float = 5.0) -> None:
        """Send what is left, for at most so many seconds, and close the connections."""
        if self._closed:
            return
        if len(self._outbox):
            self.flush(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._sender is not None:
            atexit.unregister(self.close)
            self._sender.join(self._rules.timeout)
        with self._changed:
            self._outbox.abandon()
            self._changed.notify_all()  # others may wait until all is sent
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- rankers ---------------------------------------------------------------------------------------------------

    def query(self, query: str) -> QueryState:
        """What is known of a query."""
        return self._send(calls.query(self.name, query))

    def queries(self, after: str = "", limit: int = 100) -> list[str]:
        """Names of queries, sorted: so many after one of them."""
        return self._send(calls.queries(self.name, after, limit))

    def delete_query(self, query: str) -> None:
        self._send(calls.delete_query(self.name, query))

    def rankers(self) -> list[RankerInfo]:
        """The rankers that this key opens."""
        return self._send(calls.rankers())

    def ranker(self, name: str | None = None) -> RankerInfo:
        """A ranker as it is; by default the one that this client uses."""
        return self._send(calls.ranker(self.name if name is None else name))

    def put_ranker(self, name: str, settings: RankerSettings) -> RankerInfo:
        """Make a ranker, or change its settings."""
        return self._send(calls.put_ranker(name, settings))

    def delete_ranker(self, name: str) -> None:
        self._send(calls.delete_ranker(name))

    def reset(self, query: str | None = None) -> None:
        """Start anew: the whole ranker, or one query."""
        self._send(calls.reset(self.name, query))

    def warmstart(self, rows: Iterable[WarmRow], *, batch: int = 1000, name: str | None = None) -> Counted:
        """Learn from the lists of an old click log, in their order. Under the same name the same rows count once."""
        return calls.together(map(self._send, calls.warmstart(self.name, rows, batch, name)))

    def export(self) -> bytes:
        """The state of the ranker, for ``import_``."""
        return self._send(calls.export(self.name))

    def import_(self, state: bytes) -> Counted:
        """Put in what ``export`` gave."""
        return calls.together(map(self._send, calls.import_(self.name, state)))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._http = httpx.Client(**self._options)
        self._changed = threading.Condition()
        self._sender: threading.Thread | None = None

    def _start(self) -> None:
        if self._sender is not None and self._sender.is_alive():
            return
        self._sender = threading.Thread(target=self._work, name="driftrank feedback", daemon=True)
        self._sender.start()
        atexit.register(self.close)

    def _work(self) -> None:
        """Send feedback until the client is closed."""
        box = self._outbox
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(box) or self._closed)
                self._changed.wait_for(lambda: box.full or self._flushing or self._closed, box.flush_seconds)
                if self._closed:
                    return
                before = self._flushes
            wait = self._send_batch()
            with self._changed:  # somebody who cannot wait cuts it short, also who came while it was sent
                self._changed.wait_for(lambda: self._closed or self._flushes > before, wait)  # noqa: B023

    def _send_batch(self) -> float:
        """Send what is there, as much as goes in one call; seconds to wait before the next."""
        with self._changed:
            bodies = self._outbox.take()
        try:
            results = self._send(calls.feedback(self.name, bodies), self._rules.once)
        except ServiceError as error:
            with self._changed:
                wait = self._outbox.failed(error)
                self._changed.notify_all()
                return wait
        with self._changed:
            self._outbox.sent(results)
            self._changed.notify_all()
        return 0.0

    def _send_rest(self, seconds: float) -> None:
        """Send what is left from this thread, for at most so many seconds: at the end of a program none can start."""
        end = time.monotonic() + seconds
        while len(self._outbox) and (left := end - time.monotonic()) > 0:
            time.sleep(min(self._send_batch(), left))
        self._outbox.abandon()
        self._http.close()

    def _ranked(self, call: Call[T], instead: Callable[[], T], fallback: bool) -> T:
        if not fallback:
            return self._send(call)
        try:
            return self._send(call, self._rules.prompt)
        except ServiceError as error:
            if not error.blameless:
                raise
            self._fallbacks.add(1, error)
            return instead()

    def _send(self, call: Call[T], rules: Rules | None = None) -> T:
        attempts = Attempts(call, rules or self._rules)
        while True:
            try:
                status, headers, body = self._attempt(call, attempts.timeout())
            except (httpx.RequestError, UnicodeError) as error:  # that of a redirect to a host that cannot be
                wait = attempts.failed(error)
            else:
                again = attempts.answered(status, headers, body)
                if again is None:
                    return call.read(status, body, attempts.repeated)
                wait = again
            time.sleep(wait)

    def _attempt(self, call: Call[Any], timeout: float) -> tuple[int, Mapping[str, str], bytes]:
        end = time.monotonic() + timeout
        response = self._http.send(request_of(self._http, call, timeout), stream=True)
        try:
            parts = []
            for part in response.iter_bytes():  # httpx counts its seconds anew for every part
                parts.append(part)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the answer comes too slowly")
        finally:
            response.close()
        return response.status_code, response.headers, b"".join(parts)
