"""The middleware around every request: its id, its path, its time, and the answer if it fails.

Plain ASGI: a middleware made with Starlette's ``BaseHTTPMiddleware`` costs more than ranking does.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Callable
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from driftrank.serve.http.endpoint import HEADERS, LABEL, OPERATION
from driftrank.serve.log.store.base import StoreError
from driftrank.serve.monitoring.logging import REQUEST_ID, TRACE
from driftrank.serve.problems import Refused, document
from driftrank.serve.service import Service
from driftrank.wire import AFTER_HEADER, SEQ_HEADER

_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,200})?")
_MAX_PATH = 8192  # characters
_ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})  # also under overload
_GONE = 499  # the status that is counted if the client has gone
_PERSONALIZER = ("/personalizer/", "//personalizer/")
#: Versions of Personalizer with the rank, reward and activate of 1.0; the last one is not named in the path. SDKs
#: write two slashes if the endpoint ends in one, as Azure's do.
_SAME = re.compile(r"/{1,2}personalizer/(?:v1\.0/|v1\.1-preview(?:\.\d)?/)?((?:rank|events/.*)\Z)", re.DOTALL)
_SEQ, _AFTER = SEQ_HEADER.lower().encode(), AFTER_HEADER.lower().encode()
_log = logging.getLogger("driftrank.serve")


class Gate:
    """The middleware of the service."""

    def __init__(self, app: ASGIApp, *, service: Service, overloaded: Callable[[], bool]) -> None:
        self._app = app
        self._service = service
        self._metrics = service.metrics
        self._overloaded = overloaded
        # request ids: process, then number
        self._process = secrets.token_hex(4)
        self._number = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        headers = scope[HEADERS] = dict(scope["headers"])
        id_ = headers.get(b"x-request-id")
        if id_ is None or not _SANE_ID.fullmatch(id_):
            id_ = f"{self._process}-{next(self._number):x}".encode()
        token = REQUEST_ID.set(id_.decode())
        more = [(b"x-request-id", id_)]
        trace = headers.get(b"traceparent")
        if trace is not None and _TRACE.fullmatch(trace):
            TRACE.set(trace.decode())
            more.append((b"traceparent", trace))
        path: str = scope["path"]
        if path.startswith(_PERSONALIZER):
            same = _SAME.match(path)
            path = scope["path"] = f"/personalizer/v1.0/{same[1]}" if same else f"/{path.lstrip('/')}"
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # a new list: a route may use the same one again
                message["headers"] = [*message.get("headers", ()), *more]
                if self._service.position is not None:
                    message["headers"].append((_SEQ, b"%d" % self._service.position))
                if self._service.draining:  # the client comes back to another process
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            if len(path) > _MAX_PATH:
                raise Refused(414, "Path too long", f"path: must be no longer than {_MAX_PATH} characters")
            if path not in _ALWAYS and self._overloaded():
                self._metrics.add("requests_refused", ("overload",))
                detail = "too many requests in progress (max_requests)"
                raise Refused(503, "Overloaded", detail, {"Retry-After": "1"})
            after = headers.get(_AFTER, b"")
            if after.isdigit() and len(after) < 20:
                await self._service.reach(int(after))
            await self._app(scope, receive, answer)
        except Refused as problem:
            await _refuse(problem, path, answer, status)
        except ClientDisconnect:
            status = status or _GONE
        except asyncio.CancelledError:  # the server stops and no longer waits for requests
            _log.warning("%s was aborted: the service has stopped", path)
        except StoreError as error:
            _log.error("%s %s failed: %s", scope["method"], path, error)
            unread = Refused(503, "Store not readable", str(error), {"Retry-After": "5"})
            await _refuse(unread, path, answer, status)
        except Exception as error:
            _log.exception("%s %s failed: %s", scope["method"], path, type(error).__name__)
            if status:  # the answer has begun: break the connection
                raise
            await _refuse(_bug(id_), path, answer, status)
        finally:
            took = perf_counter() - began
            status = status or _GONE
            label = scope.get(LABEL, "other")
            self._metrics.add("http_requests", (label, status))
            self._metrics.observe("http_request_duration_seconds", (label,), took)
            # 503: not ready, or the store's error is logged already; there may be thousands of them
            if self._service.settings.access_log or (status >= 500 and status != 503):
                self._line(scope, status, took)
            REQUEST_ID.reset(token)
            TRACE.set(None)

    def _line(self, scope: Scope, status: int, took: float) -> None:
        client, operation = scope.get("client"), scope.get(OPERATION)
        fields = {
            "method": scope["method"], "path": scope["path"], "route": operation.path if operation else None,
            "ranker": scope.get("path_params", {}).get("ranker"), "status": status, "ms": round(took * 1000, 3),
            "client": client[0] if client else None,
        }  # fmt: skip
        level = logging.ERROR if status >= 500 and status != 503 else logging.INFO
        _log.log(level, "%s %s: %d", scope["method"], scope["path"], status, extra=fields)


def _bug(id_: bytes) -> Refused:
    detail = f"a fault of the server; its log has more under the request id {id_.decode()}"
    return Refused(500, "Internal error", detail)


async def _refuse(problem: Refused, path: str, answer: Send, begun: int) -> None:
    if begun:  # too late to answer: an answer without its end is incomplete, and the connection breaks
        _log.warning("%s was aborted: %s", path, problem.detail)
        return
    status, headers, body = document(problem, path)
    await answer({"type": "http.response.start", "status": status, "headers": headers})
    await answer({"type": "http.response.body", "body": body})
