"""Live updates: one task per process renders the pages that somebody looks at, and sends what has changed to all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic, thread_time
from typing import Any, NamedTuple

from driftrank import __version__
from driftrank.serve.problems import Refused
from driftrank.wire import ENCODER, RankerOverview

_log = logging.getLogger("driftrank.serve")
#: seconds between two renderings
INTERVAL = 1.0
#: the rest of the process gets at least so many times the CPU time that rendering takes
_SHARE = 50
#: seconds between two checks that a page may still be shown
CHECK = 5.0
#: seconds without an update after which a comment is sent, so that proxies do not close the connection
_SILENCE = 15.0
#: the part of all pages that those of one ranker's key may be
_OF_KEY = 4

#: the live parts of a page, by name
Regions = dict[str, str]


class Topic(NamedTuple):
    """A page and the access with which it is looked at: all who look at the same get the same bytes."""

    view: str
    params: tuple[tuple[str, str], ...]
    rankers: frozenset[str] | None


class Round:
    """Results that all pages rendered together share."""

    def __init__(self) -> None:
        self.glances: dict[str, RankerOverview] = {}  #: rankers, by name
        self.cards: dict[str, Any] = {}  #: their cards on the overview


class _Listener:
    """An open page: what it has not been sent yet. The latest version of a region replaces the one before."""

    def __init__(self, allowed: Callable[[], bool], key: str) -> None:
        self.allowed = allowed
        self.key = key
        self.checked = monotonic()
        self.waiting: Regions = {}
        self.fault: str | None = None  #: to be sent
        self.news = asyncio.Event()
        self.ended = ""  #: the last event that it gets

    def offer(self, regions: Regions) -> None:
        if regions:
            self.waiting |= regions
            self.news.set()

    def report(self, fault: str) -> None:
        self.fault = fault
        self.news.set()

    def end(self, event: str) -> None:
        self.ended = event
        self.news.set()


class Broadcaster:
    """Sends live regions to open pages. ``render`` returns those of a page, with what others of the same round have
    computed; ``most`` is the limit of open pages.

    A page is rendered at most once a second, only while somebody looks, and rendering takes at most 2% of the time, in
    even distances: the more different pages are open, the less often they change.
    """

    def __init__(
        self, render: Callable[[Topic, Round], Awaitable[Regions]], most: Callable[[], int],
        stopping: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._render = render
        self._most = most
        self._stopping = stopping
        self._listeners: dict[Topic, set[_Listener]] = {}
        self._sent: dict[Topic, Regions] = {}
        self._faults: dict[Topic, str] = {}  # the reasons why pages are not updated
        self._task: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        """The number of open pages."""
        return sum(map(len, self._listeners.values()))

    def listen(self, topic: Topic, allowed: Callable[[], bool], key: str = "") -> AsyncIterator[bytes]:
        """Server-sent events until the client goes, the service stops, or ``allowed`` returns False."""
        if self._stopping():
            raise Refused(503, "Not ready", "the service is stopping", {"Retry-After": "1"})
        most = self._most()
        if self.open >= most:
            raise _too_many("too many pages are open (max_pages)")
        if topic.rankers is not None:  # a key of some rankers leaves others their share
            its = sum(listener.key == key for listener in self._all())
            if its >= max(1, most // _OF_KEY):
                raise _too_many(f"too many pages of this key are open (max_pages / {_OF_KEY})")
        return self._events(topic, _Listener(allowed, key))

    def _all(self) -> list[_Listener]:
        return [listener for of_topic in self._listeners.values() for listener in of_topic]

    async def _events(self, topic: Topic, listener: _Listener) -> AsyncIterator[bytes]:
        # from the first event on: a client may have gone before it
        self._listeners.setdefault(topic, set()).add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._broadcast())
        try:
            yield b"retry: 2000\nevent: version\ndata: " + __version__.encode() + b"\n\n"
            listener.offer(self._sent.get(topic, {}))  # it may have changed since the page was made
            if topic in self._faults:
                listener.report(self._faults[topic])
            while True:
                try:
                    await asyncio.wait_for(listener.news.wait(), _SILENCE)
                except TimeoutError:
                    yield b":\n\n"
                    continue
                listener.news.clear()
                regions, listener.waiting = listener.waiting, {}
                fault, listener.fault = listener.fault, None
                if regions:
                    yield b"data: " + ENCODER.encode(regions) + b"\n\n"
                if fault is not None:
                    yield b"event: fault\ndata: " + ENCODER.encode(fault) + b"\n\n"
                if listener.ended:
                    yield f"event: {listener.ended}\ndata:\n\n".encode()
                    return
        finally:
            self._leave(topic, listener)

    def _leave(self, topic: Topic, listener: _Listener) -> None:
        of_topic = self._listeners.get(topic, set())
        of_topic.discard(listener)
        if not of_topic:
            self._listeners.pop(topic, None)
            self._sent.pop(topic, None)
            self._faults.pop(topic, None)

    async def _broadcast(self) -> None:
        """Render all topics, again and again, until nobody listens."""
        while self._listeners:
            next_at, round_ = monotonic() + INTERVAL, Round()
            for topic in list(self._listeners):
                began = thread_time()  # not that of other processes, if the machine is busy
                await self._update(topic, round_)
                await self._rest(_SHARE * (thread_time() - began))
            await self._rest(next_at - monotonic())

    async def _rest(self, seconds: float) -> None:
        """Wait, and end those that must not go on."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and self._listeners:
            await asyncio.sleep(min(left, 0.25))
            for listener in self._all():
                if self._stopping():
                    listener.end("stopping")
                elif monotonic() - listener.checked > CHECK:
                    listener.checked = monotonic()
                    if not listener.allowed():
                        listener.end("ended")

    async def _update(self, topic: Topic, round_: Round) -> None:
        try:
            regions = await self._render(topic, round_)
        except Refused as problem:  # what it shows was deleted, or the store cannot be read
            self._report(topic, problem.detail)
            return
        except Exception:
            if topic not in self._faults:  # once, not every second
                _log.exception("cannot update the page %s", topic.view)
            self._report(topic, "a fault of the service; its log has more")
            return
        before = self._sent.get(topic, {})
        changed = {name: html for name, html in regions.items() if before.get(name) != html}
        if topic in self._listeners:
            self._sent[topic] = regions
            for listener in list(self._listeners[topic]):
                listener.offer(changed)
                await asyncio.sleep(0)  # it is sent now: requests do not wait until all have it
        self._report(topic, "")

    def _report(self, topic: Topic, fault: str) -> None:
        """Say why a page stays as it is; "": it does not."""
        if topic in self._listeners and self._faults.get(topic, "") != fault:
            if fault:
                self._faults[topic] = fault
            else:
                del self._faults[topic]
            for listener in self._listeners[topic]:
                listener.report(fault)


def _too_many(detail: str) -> Refused:
    return Refused(503, "Overloaded", detail, {"Retry-After": "10"})
