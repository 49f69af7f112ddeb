"""Connections with limits, so that no client can keep others waiting: bytes and time of a request, their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.problems import Refused, document, refused
from driftrank.serve.settings.server import ServerSettings

#: seconds between two searches for connections whose time is over
_SWEEP = 0.5


class Connections:
    """All connections of a server. ``settings`` returns the current settings, which may be loaded again.

    At the limit of their number, the one that has owed a request for longest gives way to a new one, then the one that
    is idle for longest: clients that open many and send nothing do not lock others out.
    """

    def __init__(self, settings: Callable[[], ServerSettings], metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.open: set[Connection] = set()
        self.owing: dict[Connection, float] = {}  #: those that owe the rest of a request, and until when
        self.idle: dict[Connection, None] = {}
        metrics.gauge("connections", lambda: len(self.open))

    @property
    def overloaded(self) -> bool:
        """True if too many requests are in progress; those that are still being sent do not count."""
        return len(self.open) - len(self.owing) - len(self.idle) >= self.settings().max_requests

    def admit(self, new: Connection) -> bool:
        """Add a connection; False if there are too many, all with a request in progress."""
        if len(self.open) >= self.settings().max_connections:
            oldest = next(iter(self.owing), None) or next(iter(self.idle), None)
            if oldest is None:
                return False
            oldest.end("too_many")
        self.open.add(new)
        return True

    def discard(self, gone: Connection) -> None:
        self.open.discard(gone)
        self.owing.pop(gone, None)
        self.idle.pop(gone, None)

    async def sweep(self) -> None:
        """Close connections whose requests take too long to arrive, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            now = loop.time()
            for connection in [c for c, until in self.owing.items() if until <= now]:
                connection.end("slow", 408 if connection.begun else 0, "the request was not sent in time "
                               "(header_time, body_time)")  # fmt: skip


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._all.admit(self):
            self._owe(self._all.settings().idle_seconds)  # proxies open connections in advance
        else:
            self.end("too_many", 503, "too many connections (max_connections)")

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._stage
        while data and not self.transport.is_closing():
            self._uncounted = self._stage is _BODY
            piece = data if self._uncounted else data[: self._head_left]
            data = data[len(piece) :]
            super().data_received(piece)
            if self._stage is _HEAD and not self._uncounted:
                self._head_left -= len(piece)
                if self._head_left <= 0:
                    self.end("headers", 431, f"headers: must be no longer than {self._max_header} bytes (max_header)")
        settings = self._all.settings()
        if self._all.idle.pop(self, self) is None:  # nothing but line ends, or the rest of what was answered already
            self._owe(settings.idle_seconds)
        elif self.begun and not (self._stage is before and self in self._all.owing):
            self._owe(settings.header_seconds if self._stage is _HEAD else settings.body_seconds)

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
            self._all.idle[self] = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.timeout_keep_alive = self._all.settings().idle_seconds  # type: ignore[assignment]
        super().on_response_complete()
        if self._stage is _BETWEEN and not self.pipeline and not self.transport.is_closing():
            self._all.idle[self] = None

    @property
    def begun(self) -> bool:
        """True if a request has begun and is not complete."""
        return self._stage is not _BETWEEN

    def end(self, why: str, status: int = 0, detail: str = "") -> None:
        """Close the connection, with an answer if there is a ``status`` and nothing was answered yet."""
        self._all.metrics.add("connections_closed", (why,))
        cycle = self.cycle
        if status and (
            cycle is None or cycle.response_complete or (self._stage is _BODY and not cycle.response_started)
        ):
            self.transport.write(_answer(status, detail))
        self.transport.close()
        self._all.discard(self)

    def _owe(self, seconds: float) -> None:
        if not self.transport.is_closing():
            self._all.owing.pop(self, None)  # it goes to the end
            self._all.owing[self] = self.loop.time() + seconds


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
