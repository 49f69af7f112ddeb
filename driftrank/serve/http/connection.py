"""Connections with limits, so that no client can keep others waiting: bytes and time of a request, their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.problems import Refused, document, refused
from driftrank.serve.settings.server import ServerSettings

#: seconds between two searches for connections whose time is over
_SWEEP = 0.5
#: seconds without reading after which a connection gives way before idle ones do
_STALLED = 0.2
#: requests that may wait for the answers to earlier ones of their connection. A request of 20 bytes takes 3 kB then
_PIPELINED = 100
#: bytes parsed before these are counted
_PIECE = 4096


class Connections:
    """All connections of a server. ``settings`` returns the current settings, which may be loaded again.

    At the limit of their number, the one that has owed a request for longest gives way to a new one, then the one whose
    client has not read for longest, then the one that is idle for longest, then one whose client has just stopped to
    read: clients that open many and send or read nothing do not lock others out. A connection is in one of ``owing``,
    ``unread`` and ``idle``, or works on a request.
    """

    def __init__(self, settings: Callable[[], ServerSettings], metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.open: set[Connection] = set()
        self.owing: dict[Connection, float] = {}  #: those that owe the rest of a request, and until when
        self.idle: dict[Connection, None] = {}
        #: those whose client does not take its answers: since when, and the bytes that were unsent then
        self.unread: dict[Connection, tuple[float, int]] = {}
        metrics.gauge("connections", lambda: len(self.open))

    @property
    def overloaded(self) -> bool:
        """True if too many requests are in progress; those that are still being sent do not count, nor do those whose
        answers are not read.
        """
        waiting = len(self.owing) + len(self.idle) + len(self.unread)
        return len(self.open) - waiting >= self.settings().max_requests

    def admit(self, new: Connection) -> bool:
        """Add a connection; False if there are too many, all with a request in progress."""
        if len(self.open) >= self.settings().max_connections:
            stalled = self._stalled(new.loop.time())
            oldest = next((c for some in (self.owing, stalled, self.idle, self.unread) for c in some), None)
            if oldest is None:
                return False
            oldest.end("too_many")
        self.open.add(new)
        return True

    def _stalled(self, now: float) -> list[Connection]:
        """The connection whose client has not read for longest, if that is long."""
        oldest = next(iter(self.unread), None)
        return [] if oldest is None or self.unread[oldest][0] + _STALLED > now else [oldest]

    def discard(self, gone: Connection) -> None:
        self.open.discard(gone)
        for place in (self.owing, self.idle, self.unread):
            place.pop(gone, None)

    async def sweep(self) -> None:
        """Close connections whose requests take too long to arrive, or their answers to be read, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            now = loop.time()
            for connection in [c for c, until in self.owing.items() if until <= now]:
                connection.end("slow", 408 if connection.begun else 0, "the request was not sent in time "
                               "(header_time, body_time)")  # fmt: skip
            for connection, (since, size) in list(self.unread.items()):
                left = connection.unsent
                if left < size:
                    del self.unread[connection]  # it goes to the end
                    self.unread[connection] = now, left
                elif since + self.settings().send_seconds <= now:
                    connection.end("unread")


class _Stage(Enum):
    """The part of a request that comes next."""

    BETWEEN = 0  #: the first byte
    HEAD = 1
    BODY = 2


_BETWEEN, _HEAD, _BODY = _Stage


class Connection(HttpToolsProtocol):
    """A connection of uvicorn, which has no limits of its own.

    Bytes of headers are counted before they are parsed: the parser copies a header again with every piece of it, so
    that the time for a long one grows with the square of its length.
    """

    def __init__(self, *, connections: Connections, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._all = connections
        self._stage = _BETWEEN
        self._max_header = self._head_left = connections.settings().max_header_bytes
        self._uncounted = False  # the data being parsed contain more than one head
        self._answering: RequestResponseCycle | None = None  # the earliest of the requests in progress

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._all.admit(self):
            self._owe(self._all.settings().idle_seconds)  # proxies open connections in advance
        else:
            self.end("too_many", 503, "too many connections (max_connections)")

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        self._disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._stage
        while data and not self.transport.is_closing():
            self._uncounted = self._stage is _BODY
            piece = data if self._uncounted else data[: min(self._head_left, _PIECE)]
            data = data[len(piece) :]
            super().data_received(piece)
            if self._stage is _HEAD and not self._uncounted:
                self._head_left -= len(piece)
                if self._head_left <= 0:
                    self.end("headers", 431, f"headers: must be no longer than {self._max_header} bytes (max_header)")
            if len(self.pipeline) > _PIPELINED:
                self.end("pipelined")
        if self._all.idle.pop(self, self) is None:  # nothing but line ends, or the rest of what was answered already
            self._owe(self._all.settings().idle_seconds)
        elif self.begun and not (self._stage is before and self in self._all.owing):
            self._owe_rest()

    def on_message_begin(self) -> None:
        self._stage = _HEAD
        self._all.idle.pop(self, None)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stage = _BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stage = _BETWEEN
        self._head_left = self._max_header
        self._uncounted = True
        self._all.owing.pop(self, None)
        if self.cycle.response_complete:  # it was answered before its body had come
            self._rest()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.timeout_keep_alive = self._all.settings().idle_seconds  # type: ignore[assignment]
        super().on_response_complete()
        self._leave()
        if self._stage is _BETWEEN and not self.pipeline:
            self._rest()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._all.unread.pop(self, None) is None:
            return
        if self.begun:
            self._owe_rest()
        elif not self.pipeline and (self.cycle is None or self.cycle.response_complete):
            self._rest()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._leave()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._leave()

    @property
    def begun(self) -> bool:
        """True if a request has begun and is not complete."""
        return self._stage is not _BETWEEN

    @property
    def unsent(self) -> int:
        """The bytes of answers that the system does not take, as the client does not read."""
        return self.transport.get_write_buffer_size()

    def end(self, why: str, status: int = 0, detail: str = "") -> None:
        """Close the connection, with an answer if there is a ``status`` and nothing was answered yet."""
        self._all.metrics.add("connections_closed", (why,))
        cycle = self.cycle
        if self.unsent:
            self._disconnect()
            self.transport.abort()
            self._all.discard(self)
            return
        if status and (
            cycle is None or cycle.response_complete or (self._stage is _BODY and not cycle.response_started)
        ):
            self.transport.write(_answer(status, detail))
        self.transport.close()
        self._all.discard(self)
        self._leave()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _disconnect(self) -> None:
        """Answer no more; uvicorn itself sees to the latest request only."""
        if self._answering is not None:
            self._answering.disconnected = True

    def _owe(self, seconds: float) -> None:
        if not self.transport.is_closing() and self not in self._all.unread:
            self._all.owing.pop(self, None)  # it goes to the end
            self._all.owing[self] = self.loop.time() + seconds

    def _owe_rest(self) -> None:
        """Owe the rest of a request that has begun."""
        settings = self._all.settings()
        self._owe(settings.header_seconds if self._stage is _HEAD else settings.body_seconds)

    def _rest(self) -> None:
        """Be idle until the next request."""
        if not self.transport.is_closing() and self not in self._all.unread:
            self._all.idle[self] = None

    def _stall(self) -> None:
        """Wait for the client to read."""
        self._all.owing.pop(self, None)
        self._all.idle.pop(self, None)
        self._all.unread.setdefault(self, (self.loop.time(), self.unsent))

    def _leave(self) -> None:
        """Wait for the client if the connection is closing: it stays until all is sent, which a client may prevent."""
        if self.transport.is_closing() and self.unsent:
            self._stall()


def _answer(status: int, detail: str) -> bytes:
    """A whole answer of HTTP, for requests that never reach the application."""
    more = {"Connection": "close"}
    overloaded = Refused(503, "Overloaded", detail, {"Retry-After": "1", **more})
    _, headers, body = document(overloaded if status == 503 else refused(status, detail, more), "")
    lines = [
        b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode()),
        *(b"%b: %b" % header for header in headers),
        b"",
        body,
    ]
    return b"\r\n".join(lines)
