"""Live updates: one task per process renders the pages that somebody looks at, and sends what has changed to all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic, perf_counter
from typing import NamedTuple

from driftrank import __version__
from driftrank.serve.problems import Refused
from driftrank.wire import ENCODER

_log = logging.getLogger("driftrank.serve")
#: seconds between two renderings
INTERVAL = 1.0
#: the rest of the process gets at least so many times the time that rendering takes
_SHARE = 50
#: seconds between two checks that a page may still be shown
CHECK = 5.0
#: seconds without an update after which a comment is sent, so that proxies do not close the connection
_SILENCE = 15.0

#: the live parts of a page, by name
Regions = dict[str, str]


class Topic(NamedTuple):
    """A page and the access with which it is looked at: all who look at the same get the same bytes."""

    view: str
    params: tuple[tuple[str, str], ...]
    rankers: frozenset[str] | None


class _Listener:
    """An open page: what it has not been sent yet. The latest version of a region replaces the one before."""

    def __init__(self, allowed: Callable[[], bool]) -> None:
        self.allowed = allowed
        self.checked = monotonic()
        self.waiting: Regions = {}
        self.news = asyncio.Event()
        self.ended = ""  #: the last event that it gets

    def offer(self, regions: Regions) -> None:
        if regions:
            self.waiting |= regions
            self.news.set()

    def end(self, event: str) -> None:
        self.ended = event
        self.news.set()


class Broadcaster:
    """Sends live regions to open pages. ``render`` returns those of a page; ``most`` is the limit of open pages.

    Rendering takes place at most once a second, only while somebody looks, and takes at most 2% of the time: the more
    different pages are open, the less often they change.
    """

    def __init__(
        self, render: Callable[[Topic], Awaitable[Regions]], most: Callable[[], int], stopping: Callable[[], bool]
    ) -> None:
        self._render = render
        self._most = most
        self._stopping = stopping
        self._listeners: dict[Topic, set[_Listener]] = {}
        self._sent: dict[Topic, Regions] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        """The number of open pages."""
        return sum(map(len, self._listeners.values()))

    def listen(self, topic: Topic, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Server-sent events until the client goes, the service stops, or ``allowed`` returns False."""
        if self._stopping():
            raise Refused(503, "Not ready", "the service is stopping", {"Retry-After": "1"})
        if self.open >= self._most():
            raise Refused(503, "Overloaded", "too many open pages (max_pages)", {"Retry-After": "10"})
        return self._events(topic, _Listener(allowed))

    async def _events(self, topic: Topic, listener: _Listener) -> AsyncIterator[bytes]:
        # from the first event on: a client may have gone before it
        self._listeners.setdefault(topic, set()).add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._broadcast())
        try:
            yield b"retry: 2000\nevent: version\ndata: " + __version__.encode() + b"\n\n"
            listener.offer(self._sent.get(topic, {}))  # it may have changed since the page was made
            while True:
                try:
                    await asyncio.wait_for(listener.news.wait(), _SILENCE)
                except TimeoutError:
                    yield b":\n\n"
                    continue
                listener.news.clear()
                regions, listener.waiting = listener.waiting, {}
                if regions:
                    yield b"data: " + ENCODER.encode(regions) + b"\n\n"
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

    async def _broadcast(self) -> None:
        """Render all topics, again and again, until nobody listens."""
        while self._listeners:
            busy = 0.0
            for topic in list(self._listeners):
                began = perf_counter()
                await self._update(topic)
                busy += perf_counter() - began
                await asyncio.sleep(0)  # requests come first
            await self._rest(max(INTERVAL, _SHARE * busy))

    async def _rest(self, seconds: float) -> None:
        """Wait, and end those that must not go on."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and self._listeners:
            await asyncio.sleep(min(left, 0.25))
            for listener in [it for of_topic in self._listeners.values() for it in of_topic]:
                if self._stopping():
                    listener.end("stopping")
                elif monotonic() - listener.checked > CHECK:
                    listener.checked = monotonic()
                    if not listener.allowed():
                        listener.end("ended")

    async def _update(self, topic: Topic) -> None:
        try:
            regions = await self._render(topic)
        except Refused:  # what it shows was deleted, or the store cannot be read: the page stays as it is
            return
        except Exception:
            _log.exception("cannot update the page %s", topic.view)
            return
        before = self._sent.get(topic, {})
        changed = {name: html for name, html in regions.items() if before.get(name) != html}
        if topic in self._listeners:
            self._sent[topic] = regions
            for listener in self._listeners[topic]:
                listener.offer(changed)
