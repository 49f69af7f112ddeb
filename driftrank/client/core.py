"""The logic of both clients, written once: settings, retries, fallback, feedback in the background."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeVar

from ..validation import check_integer
from ..wire import (
    AFTER_HEADER,
    ROUTE_HEADER,
    SEQ_HEADER,
    Counted,
    Feedback,
    FeedbackResult,
    RankerInfo,
    RankRequest,
    RankResponse,
    route_in,
)
from . import calls
from .breaker import Breaker
from .calls import Call
from .connection import NO_ANSWER, http_options
from .errors import ServiceError
from .nodes import Nodes
from .outbox import Outbox
from .retrying import Attempts, Rules
from .tally import Tally

T = TypeVar("T")

#: status, headers and body
Answer = tuple[int, Mapping[str, str], bytes]


class Runtime(Protocol):
    """Everything that takes time: requests, sleeping, waiting for a change, the background sender.

    The methods of the clients are coroutines over a runtime. On threads (:class:`~.threads.Threads`) none of them ever
    suspends, so that a coroutine runs to its end in one step; on an event loop
    (:class:`~.event_loop.EventLoop`) some do.
    """

    def __init__(self, options: Mapping[str, Any]) -> None: ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while shared state changes, never across an await."""

    async def request(self, call: Call[Any], timeout: float, node: str, headers: Mapping[str, str]) -> Answer:
        """Make one attempt, at the address of a node."""

    async def sleep(self, seconds: float) -> None: ...

    async def until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Wait for a condition, at most ``timeout`` seconds; return whether it holds."""

    def notify(self) -> None:
        """Have all conditions evaluated again."""

    def start(self, sender: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run the sender in the background; return False if it already runs."""

    async def join(self, timeout: float) -> None:
        """Wait for the end of the sender."""

    async def close(self) -> None:
        """Close the connections."""


class Core:
    """A connection to a ranking service.

    Parameters
    ----------
    url, key
        The address of the service, and a key if it requires one. Of several nodes that share a store, a list of all
        addresses: a query goes to the same node as long as that answers, else to another; and what this client has
        sent is known to whichever node answers it next.
    ranker
        The ranker that ranks.
    k
        The ranker's ``k``: the length of a fallback before any answer has shown it. Without it, a fallback of a new
        process whose service is down has all the items, unless the call has a ``k``.
    timeout, retries, deadline
        Seconds for one attempt, attempts after the first, and seconds for a call with all its attempts. A call is
        repeated if it cannot be sent, is not answered in time, or is answered by 429, 502, 503 or 504. The wait before
        it doubles, or is as long as the service asks for. Repeating is safe: calls carry an event id.
    batch, flush_seconds, queue
        Feedback is sent in the background, ``batch`` at a time or after ``flush_seconds``. While the service is
        unreachable up to ``queue`` feedbacks are kept; then the oldest are dropped, counted (``dropped``) and logged.
        With several addresses, those of one batch go to the nodes of their queries. Closing the client sends the rest,
        and so does the end of the program.
    """

    _runtime_class: ClassVar[type[Runtime]]

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        ranker: str = "default",
        k: int | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        deadline: float = 10.0,
        batch: int = 100,
        flush_seconds: float = 1.0,
        queue: int = 10_000,
    ) -> None:
        self.name = ranker
        self._rules = Rules(timeout, retries, deadline)
        self._outbox = Outbox(batch, flush_seconds, queue)
        self._breaker = Breaker()
        if k is not None:
            check_integer("k", k, 1)
        self._k = k  # the ranker's, as far as it is known
        self._fallbacks = Tally("the baseline was shown instead of an answer")
        urls = [url] if isinstance(url, str) else calls.listed("url", url)
        if not urls:
            raise ValueError(f"url={url!r}: must be an address, or several")
        options = [http_options(one, key) for one in urls]
        if len({its["base_url"].scheme for its in options}) > 1:
            raise ValueError(f"url={url!r}: must be all http or all https")
        self._options = options[0]
        self._nodes = Nodes([one.rstrip("/") for one in urls])
        self._seq = 0  # the last record that an answer was made after, if several services share their store
        self._flushing = 0  # callers that wait until everything is sent
        self._flushes = 0  # such calls so far
        self._closed = False
        self._runtime = self._runtime_class(self._options)
        _clients.add(self)

    @property
    def dropped(self) -> int:
        """Feedbacks that were never counted: the queue was full, or the service refused them."""
        return self._outbox.dropped.count

    @property
    def waiting(self) -> int:
        """Feedbacks that are still to be sent."""
        return len(self._outbox)

    @property
    def outcomes(self) -> Counter[str]:
        """Outcomes of the feedback that was sent in the background."""
        return Counter(self._outbox.outcomes)

    @property
    def fallbacks(self) -> int:
        """Rankings that were the baseline because the service did not answer."""
        return self._fallbacks.count

    @property
    def _path(self) -> str:
        return calls.ranker_path(self.name)

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _send(self, call: Call[T], rules: Rules | None = None) -> T:
        attempts = Attempts(call, rules or self._rules)
        tried: set[str] = set()
        while True:
            node = self._nodes.choose(call.route, tried)
            try:
                sent = self._runtime.request(call, attempts.timeout(), node, self._headers(call))
                status, headers, body = await sent
            except NO_ANSWER as error:
                wait = attempts.failed(error)
            else:
                again = attempts.answered(status, headers, body)
                if again is None:
                    self._seq = max(self._seq, int(headers.get(SEQ_HEADER.lower(), 0)))
                    return call.read(status, body, attempts.repeated)
                wait = again
            self._nodes.failed(node)
            tried.add(node)
            if len(tried) == len(self._nodes):  # else another node may answer at once
                tried.clear()
                await self._runtime.sleep(wait)

    def _headers(self, call: Call[Any]) -> dict[str, str]:
        headers = {ROUTE_HEADER: call.route} if call.route else {}
        if self._seq:
            headers[AFTER_HEADER] = str(self._seq)
        return headers

    async def _send_all(self, parts: Iterable[Call[Counted]]) -> Counted:
        return calls.total([await self._send(call) for call in parts])

    async def _rank(self, call: Call[T], events: Sequence[str], fallback: Callable[[], T] | None) -> T:
        """Rank. Without an answer the rankings of these events, which nobody is shown, are taken back."""
        if fallback is not None and not self._breaker.allows():
            self._fallbacks.add(1, "the service did not answer a moment ago")
            return fallback()
        try:
            answer = await self._send(call, None if fallback is None else self._rules.prompt)
            self._breaker.succeeded()
            return answer
        except ServiceError as error:
            if error.blameless:
                self._breaker.failed()
            # the service may also have ranked if it then failed, or if its answer cannot be read
            if error.uncertain or error.status in (200, 500):
                self._take_back(events)
            if fallback is None or not error.blameless:
                raise
            self._fallbacks.add(1, error)
            return fallback()
        except BaseException:  # cancelled
            self._take_back(events)
            raise

    # -- feedback in the background --------------------------------------------------------------------------------

    async def _feedback(self, feedback: Feedback, wait: bool) -> FeedbackResult | None:
        if not feedback.event_id:  # of a fallback
            return calls.NEVER_SEEN if wait else None
        body = calls.feedback_body(feedback)
        if wait:
            (result,) = await self._send(calls.feedback(self.name, [body], route_in(feedback.event_id)))
            return result
        with self._runtime.lock:
            if self._closed:
                raise RuntimeError("feedback: this client is closed")
            self._put(body, feedback.event_id)
        return None

    def _put(self, body: bytes, event_id: str) -> None:
        self._outbox.put(body, route_in(event_id))
        self._start()
        if len(self._outbox) == 1 or self._outbox.full:
            self._runtime.notify()

    def _note_k(self, request: RankRequest, answer: RankResponse) -> RankResponse:
        """Learn the ranker's k from a ranking that is shorter than the candidates."""
        first = answer.event_id and not request.offset
        if request.k is None and first and len(answer.items) + len(request.excluded) < len(request.items):
            self._k = len(answer.items)
        return answer

    async def _ranker_info(self, call: Call[RankerInfo]) -> RankerInfo:
        """Send a call whose answer is a ranker, and note its k."""
        info = await self._send(call)
        if info.name == self.name:
            self._k = info.settings.k
        return info

    def _take_back(self, events: Iterable[str]) -> None:
        """Report in the background that rankings were not shown: silence must not count as no click."""
        with self._runtime.lock:
            for event_id in events if not self._closed else ():
                self._put(calls.feedback_body(Feedback(event_id, shown=0)), event_id)

    async def _flush(self, timeout: float | None) -> bool:
        with self._runtime.lock:
            self._outbox.impatient()
            self._flushing += 1
            self._flushes += 1
            if len(self._outbox):
                self._start()
            self._runtime.notify()
        try:
            return await self._runtime.until(lambda: not len(self._outbox), timeout) and not self._outbox.abandoned
        finally:
            with self._runtime.lock:
                self._flushing -= 1

    async def _close(self, timeout: float) -> None:
        if self._closed:
            return
        if len(self._outbox):
            await self._flush(timeout)
        with self._runtime.lock:
            self._closed = True
            self._runtime.notify()
        atexit.unregister(self._at_exit)
        try:
            await self._runtime.join(self._rules.timeout)
        finally:  # also if this call is cancelled
            await self._abandon()

    async def _abandon(self) -> None:
        with self._runtime.lock:
            self._outbox.abandon()
            self._runtime.notify()  # callers of flush() may be waiting
        await self._runtime.close()

    def _start(self) -> None:
        if self._runtime.start(self._work):
            atexit.register(self._at_exit)

    async def _work(self) -> None:
        """Send feedback until the client is closed."""
        box, until = self._outbox, self._runtime.until
        while True:
            await until(lambda: len(box) or self._closed)
            await until(lambda: box.full or self._flushing or self._closed, box.flush_seconds)
            if self._closed:
                return
            before = self._flushes
            wait = await self._send_batch()
            # a flush cuts the wait short, also one that began during the request
            await until(lambda: self._closed or self._flushes > before, wait)  # noqa: B023

    async def _send_batch(self) -> float:
        """Send one batch to the node of its queries; return the seconds to wait before the next."""
        with self._runtime.lock:
            taken = self._outbox.take(lambda route: self._nodes.choose(route, set()) if route else "")
        bodies, route = [one.body for one in taken], taken[0].route if taken and len(self._nodes) > 1 else ""
        wait = 0.0
        try:
            results = await self._send(calls.feedback(self.name, bodies, route), self._rules.once)
        except ServiceError as error:
            with self._runtime.lock:
                wait = self._outbox.failed(error)
        else:
            with self._runtime.lock:
                self._outbox.sent(results)
        self._runtime.notify()
        return wait

    async def _send_rest(self, seconds: float) -> None:
        """Send what is left without the background sender, for at most so many seconds."""
        end = time.monotonic() + seconds
        while len(self._outbox) and (left := end - time.monotonic()) > 0:
            await self._runtime.sleep(min(await self._send_batch(), left))
        await self._abandon()

    def _at_exit(self) -> None:
        """Send the rest at the end of the program."""
        raise NotImplementedError

    def _forked(self) -> None:
        """A forked process has no threads; connections and queued feedback belong to its parent."""
        if not self._closed:
            self._outbox = Outbox(self._outbox.batch, self._outbox.flush_seconds, self._outbox.capacity)
            self._flushing = 0
            self._runtime = self._runtime_class(self._options)


_clients: weakref.WeakSet[Core] = weakref.WeakSet()


def _renew() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
