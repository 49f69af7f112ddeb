"""What every request passes: its id, its size, its key, its time, and what is said when it fails.

One layer of plain ASGI: a layer made with Starlette's ``BaseHTTPMiddleware`` costs more than ranking does.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import itertools
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import perf_counter
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from driftrank.serve.keys import Access, Keys
from driftrank.serve.logging import REQUEST_ID
from driftrank.serve.metrics import Metrics
from driftrank.serve.problems import Refused, document, refused
from driftrank.serve.store.base import StoreError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]

#: in a request's scope: the rankers that its key opens (None: all), where the path names no ranker
VISIBLE = "driftrank.visible"

_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_GONE = 499  # what is counted where nobody waits for the answer any more
_RANKERS = "/v1/rankers/"
_PERSONALIZER = ("/personalizer/", "//personalizer/")
#: Versions of Personalizer whose rank, reward and activate are those of 1.0; the last one names none in the path. SDKs
#: write two slashes where the endpoint ends in one, as Azure's do.
_SAME = re.compile(r"/{1,2}personalizer/(?:v1\.0/|v1\.1-preview(?:\.\d)?/)?((?:rank|events/.*)\Z)", re.DOTALL)
_LABELS = {"rank": ("rank",), "feedback": ("feedback",), "other": ("other",)}
_GRANTED = Access.GRANTED
_log = logging.getLogger("driftrank.serve")


class Need(NamedTuple):
    """What a request must have a key for."""

    route: str = "other"  #: rank, feedback, other: what its time is counted under
    ranker: str | None = None
    admin: bool = True
    free: bool = False  #: needs no key
    browser: bool = False  #: a page: the browser asks for a name and a password, which is the key
    direct: bool = False  #: one of the two calls that nearly all requests are


_FREE = Need(free=True)
_ADMIN = Need()
_ANY = Need(admin=False)
_PAGE = Need(admin=False, browser=True)


@functools.lru_cache(maxsize=256)
def need_of(method: str, path: str, personalizer: str) -> Need:
    """What a request needs. Whatever is not known here is for the admin key only.

    >>> need_of("POST", "/v1/rankers/shop/rank", "default")
    Need(route='rank', ranker='shop', admin=False, free=False, browser=False, direct=True)
    """
    if path.startswith(_RANKERS):
        ranker, _, rest = path[len(_RANKERS) :].partition("/")
        if method == "POST":
            if rest in ("rank", "feedback"):
                return Need(rest, ranker, False, direct=True)
            if rest.startswith("events/") and rest.endswith("/activate"):
                return Need("other", ranker, False)
        elif method in ("GET", "HEAD") and (rest in ("", "queries") or rest.startswith("queries/")):
            return Need("other", ranker, False)
        return _ADMIN
    if path in ("/healthz", "/readyz"):
        return _FREE
    if path.startswith("/personalizer/v1.0/") and method == "POST":
        rest = path[len("/personalizer/v1.0/") :]
        route = "rank" if rest == "rank" else "feedback" if rest.endswith("/reward") else "other"
        return Need(route, personalizer, False)
    if path == "/v1/rankers" and method in ("GET", "HEAD"):
        return _ANY
    if path.startswith("/v1/events/") and path.endswith("/activate") and method == "POST":
        return _ANY
    if method in ("GET", "HEAD") and (path in ("/docs", "/openapi.json") or path.startswith("/docs/")):
        return _PAGE
    return _ADMIN


class Gate:
    """The layer around the application.

    Put it in with ``app.add_middleware(Gate, ...)``: then what goes wrong in a route comes here before FastAPI makes a
    plain 500 of it.
    """

    def __init__(
        self,
        app: App,
        *,
        keys: Keys,
        metrics: Metrics,
        max_body: int,
        direct: Mapping[str, Handler] | None = None,
        max_path: int = 8192,
        personalizer: str = "default",
        access_log: bool = False,
    ) -> None:
        self._app = app
        self._direct = direct or {}
        self._keys = keys
        self._metrics = metrics
        self._max_body = max_body
        self._max_path = max_path
        self._personalizer = personalizer
        self._access_log = access_log
        # an id of our own: which process, which request
        self._process = secrets.token_hex(4)
        self._number = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        headers = dict(scope["headers"])
        id_ = headers.get(b"x-request-id")
        if id_ is None or not _SANE_ID.fullmatch(id_):
            id_ = f"{self._process}-{next(self._number):x}".encode()
        told = REQUEST_ID.set(id_.decode())
        path: str = scope["path"]
        if path.startswith(_PERSONALIZER):
            same = _SAME.match(path)
            path = scope["path"] = f"/personalizer/v1.0/{same[1]}" if same else f"/{path.lstrip('/')}"
        # paths are remembered for a while: not those that are longer than any of ours
        need = _ADMIN if len(path) > self._max_path else need_of(scope["method"], path, self._personalizer)
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # a new list: a route may use the same one again
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id_)]
            await send(message)

        try:
            if len(path) > self._max_path:
                raise Refused(414, "Path too long", f"path: must be no longer than {self._max_path} characters")
            if headers.get(b"content-encoding", b"identity") != b"identity":
                raise Refused(415, "Encoding not known", "content-encoding: bodies must not be compressed")
            length = headers.get(b"content-length")
            if length is None:
                if b"transfer-encoding" in headers:
                    receive = self._counted(receive)
            elif not length.isdigit():
                raise refused(400, "content-length: must be an integer of at least 0")
            elif int(length) > self._max_body:
                raise self._too_long()
            if not need.free:
                self._check(need, headers, scope)
            handler = self._direct.get(need.route) if need.direct else None
            if handler is None:
                await self._app(scope, receive, answer)
            else:  # FastAPI's way to it, through nine functions, would take 35 microseconds
                scope["path_params"] = {"ranker": need.ranker}
                response = await handler(Request(scope, receive))
                await response(scope, receive, answer)
        except Refused as problem:
            await _refuse(problem, path, answer, status)
        except ClientDisconnect:
            status = status or _GONE
        except asyncio.CancelledError:  # the server ends, and waits no longer
            _log.warning("%s was broken off: the service has stopped", path)
        except StoreError as error:  # what was asked for could not be read
            _log.error("%s %s failed: %s", scope["method"], path, error)
            unread = Refused(503, "the store cannot be read", str(error), {"Retry-After": "5"})
            await _refuse(unread, path, answer, status)
        except Exception as error:
            # before the answer is on its way it can be said; after that, the connection breaks
            _log.exception("%s %s failed: %s", scope["method"], path, type(error).__name__)
            if status:
                raise
            await _refuse(_bug(id_), path, answer, status)
        finally:
            took = perf_counter() - began
            status = status or _GONE
            self._metrics.add("http_requests", (need.route, status))
            self._metrics.observe("http_request_duration_seconds", _LABELS[need.route], took)
            # 503: it is not ready, or has said once why the store cannot be written; thousands may ask meanwhile
            if self._access_log or (status >= 500 and status != 503):
                self._line(scope, status, took)
            REQUEST_ID.reset(told)

    def _check(self, need: Need, headers: dict[bytes, bytes], scope: Scope) -> None:
        """Let through who has the key, and note what else it opens where the path does not say which ranker."""
        key = _presented(headers, need.browser)
        access = self._keys.allows(key, ranker=need.ranker, admin=need.admin)
        if access is _GRANTED:
            if need is _ANY:
                scope[VISIBLE] = self._keys.visible(key)
            return
        if access is Access.MISSING:
            scheme = 'Basic realm="driftrank: the key is the password"' if need.browser else "Bearer"
            detail = "a key is needed, as Authorization: Bearer KEY or X-API-Key: KEY"
            raise Refused(401, "Key missing", detail, {"www-authenticate": scheme})
        # the same words whether there is such a ranker or not
        raise Refused(403, "Key refused", "this key does not open this")

    def _counted(self, receive: Receive) -> Receive:
        """For bodies that do not say how long they are."""
        so_far = 0

        async def counted() -> Message:
            nonlocal so_far
            message = await receive()
            so_far += len(message.get("body", b""))
            if so_far > self._max_body:
                raise self._too_long()
            return message

        return counted

    def _too_long(self) -> Refused:
        return Refused(413, "Body too long", f"body: must be no longer than {self._max_body} bytes (max_body)")

    def _line(self, scope: Scope, status: int, took: float) -> None:
        client = scope.get("client")
        _log.log(
            logging.ERROR if status >= 500 else logging.INFO,
            "%s %s: %d",
            scope["method"],
            scope["path"],
            status,
            extra={"status": status, "ms": round(took * 1000, 3), "client": client[0] if client else None},
        )


def _presented(headers: dict[bytes, bytes], browser: bool) -> str | None:
    """The key of a request, where it has one."""
    given = headers.get(b"authorization")
    if given is not None:
        scheme, _, value = given.partition(b" ")
        if scheme.lower() == b"bearer":
            return value.strip().decode("latin-1")
        # only for pages: browsers send it by themselves, so that elsewhere any other site could act in the user's name
        if browser and scheme.lower() == b"basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2].decode("latin-1")
            except binascii.Error:
                return ""
    # the second one is Azure Personalizer's
    given = headers.get(b"x-api-key") or headers.get(b"ocp-apim-subscription-key")
    return None if given is None else given.decode("latin-1")


def _bug(id_: bytes) -> Refused:
    detail = f"this is a fault of the server; its log says more under the request id {id_.decode()}"
    return Refused(500, "Internal error", detail)


async def _refuse(problem: Refused, path: str, answer: Send, begun: int) -> None:
    if begun:  # too late to answer: what has no end is incomplete, and the connection breaks
        _log.warning("%s was broken off: %s", path, problem.detail)
        return
    status, headers, body = document(problem, path)
    await answer({"type": "http.response.start", "status": status, "headers": headers})
    await answer({"type": "http.response.body", "body": body})
