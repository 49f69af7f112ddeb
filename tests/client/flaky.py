"""A small HTTP server that records requests and fails on demand."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: a failure instead of an answer: a status with headers or with a body, or one of
#: "hang" (no answer), "cut" (half an answer), "close" (the connection, at once), "drip" (an answer that never ends),
#: "lost" (processed, but the answer is lost), "nonsense" (200, but not JSON)
Trouble = tuple[int, dict[str, str] | bytes] | str


class Flaky(ThreadingHTTPServer):
    """Requests meet the ``troubles`` in turn; later requests are answered."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.troubles: list[Trouble] = []
        self.requests: list[tuple[str, str, Any]] = []  #: method, path, body
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.feedback: dict[str, Any] = {}  #: counted clicks by event id
        self.refused: set[str] = set()  #: event ids that make their call invalid
        self.shown: int | None = None  #: the k of the ranker
        self.released = threading.Event()
        self.sockets: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.sockets.append(connection)
        return connection, address

    def hang_up(self) -> None:
        """Close open connections, as the end of a process does."""
        for connection in self.sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/rank"):
            many = body if isinstance(body, list) else [body]
            answers = [
                {"event_id": r["event_id"], "policy": "Flaky", "step": 1,
                 "items": [{"id": a, "position": n, "score": None, "why": "learnt"}
                           for n, a in enumerate(r["items"][: r.get("k", self.shown)][::-1], 1)]}
                for r in many
            ]  # fmt: skip
            return 200, answers if isinstance(body, list) else answers[0]
        if path.endswith("/feedback"):
            many = body if isinstance(body, list) else [body]
            if any(f["event_id"] in self.refused for f in many):
                return 422, {"title": "invalid", "status": 422, "detail": "shown=0: must be at least 1"}
            answers = []
            for f in many:
                new = f["event_id"] not in self.feedback
                self.feedback.setdefault(f["event_id"], f.get("clicks"))
                answers.append({"event_id": f["event_id"], "outcome": "counted" if new else "duplicate"})
            return 200, answers if isinstance(body, list) else answers[0]
        return 404, {"title": "not found", "status": 404, "detail": f"no {path}"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Flaky

    def do_POST(self) -> None:
        server = self.server
        server.times.append(time.monotonic())
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
        server.requests.append((self.command, self.path, body))
        server.headers.append(dict(self.headers))
        trouble = server.troubles.pop(0) if server.troubles else None
        if trouble is None or trouble in ("cut", "lost"):
            status, value = server.answer(self.path, body)
            text = json.dumps(value).encode()
            if trouble is None:
                self._send(status, text)
                return
            if trouble == "cut":
                self._send(status, text, cut=len(text) // 2)
        elif trouble == "hang":
            server.released.wait(10)
        elif trouble == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(b" ")
                if server.released.wait(0.02):
                    break
        elif trouble == "nonsense":
            self._send(200, b"<html>")
            return
        elif trouble != "close":
            status, more = trouble
            problem = {"title": "later", "status": status, "detail": "not now"}
            if isinstance(more, bytes):
                self._send(status, more)
            else:
                self._send(status, json.dumps(problem).encode(), more)
            return
        self.close_connection = True

    do_GET = do_PUT = do_DELETE = do_POST

    def _send(self, status: int, text: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[:cut])

    def handle(self) -> None:
        with suppress(OSError):  # the client has disconnected
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def flaky(port: int = 0) -> Iterator[Flaky]:
    with Flaky(port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            server.hang_up()
            thread.join()
