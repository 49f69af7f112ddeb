"""The endpoints of the routes, as ASGI applications."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from driftrank.serve.access.keys import Access, Keys, hashed
from driftrank.serve.access.rate import Rates
from driftrank.serve.http.bodies import WholeBody
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.origin import check_origin
from driftrank.serve.http.parameters import check_names
from driftrank.serve.problems import PERSONALIZER, Refused, nothing_at, refused
from driftrank.serve.service import Service

#: keys of a request's scope: its headers as a dictionary; the label of its metrics; the rankers that its key has
#: access to (None: all), if the operation needs any key; its operation; its key and the limits of keys
HEADERS = "driftrank.headers"
LABEL = "driftrank.label"
VISIBLE = "driftrank.visible"
OPERATION = "driftrank.operation"
_RATED = "driftrank.rated"

_GRANTED = Access.GRANTED


class Endpoint:
    """An operation of the route table: checks origin, key, rate and the form of the body, then calls the handler."""

    def __init__(self, operation: Operation, service: Service, keys: Keys, rates: Rates) -> None:
        self.operation = operation
        self._handler = operation.handler
        self._need = operation.need
        self._label = operation.label
        self._service = service
        self._keys = keys
        self._rates = rates
        #: None: any. Probes may have parameters against caches, and clients of Personalizer those of its own
        self._parameters = (
            None
            if self._need is Need.NOTHING or operation.path.startswith(PERSONALIZER)
            else operation.parameters or {}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[LABEL] = self._label
        scope[OPERATION] = self.operation
        settings = self._service.settings
        headers: dict[bytes, bytes] = scope[HEADERS]
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Refused(415, "Unsupported encoding", "content-encoding: bodies must not be compressed")
        length = headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" in headers:
                receive = self._counted(receive)
        elif not length.isdigit():
            raise refused(400, "content-length: must be an integer of at least 0")
        elif int(length) > settings.max_body_bytes:
            raise self._too_long()
        need = self._need
        if need is not Need.NOTHING:
            key = None
            if self._keys.open:
                check_origin(headers, settings)
                scope[VISIBLE] = None
            else:
                ranker = scope["path_params"].get("ranker", settings.personalizer) if need is Need.RANKER else None
                key = check_key(self._keys, need, ranker, scope)
            if settings.rate is not None:
                self._limit(key, scope)
        if scope["query_string"] and self._parameters is not None:
            check_names(scope, self._parameters)
        # of other types, forms for one, a page of any origin could send bodies without being asked first
        if self.operation.body is not None and (length or b"0") + headers.get(b"transfer-encoding", b"") != b"0":
            check_json(headers)
        response = await self._handler(self._service, WholeBody(scope, receive))
        await response(scope, receive, send)

    def _counted(self, receive: Receive) -> Receive:
        """Count the bytes of a body that came without its length."""
        so_far = 0

        async def counted() -> Message:
            nonlocal so_far
            message = await receive()
            so_far += len(message.get("body", b""))
            if so_far > self._service.settings.max_body_bytes:
                raise self._too_long()
            return message

        return counted

    def _too_long(self) -> Refused:
        limit = self._service.settings.max_body_bytes
        return Refused(413, "Body too long", f"body: must be no longer than {limit} bytes (max_body)")

    def _limit(self, key: str | None, scope: Scope) -> None:
        """Raise if the key has sent too many requests."""
        scope[_RATED] = self._rates, key
        if wait := self._rates.take(key):
            detail = f"rate: at most {self._service.settings.rate:g} requests per second of a key"
            self._service.metrics.add("requests_refused", ("rate",))
            raise Refused(429, "Too many requests", detail, {"Retry-After": str(math.ceil(wait))})


class Unmatched:
    """Requests that match no route. Only the admin key learns that a path or a method does not exist."""

    def __init__(self, routes: Sequence[Route], keys: Keys) -> None:
        self._routes = routes
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_key(self._keys, Need.ADMIN, None, scope)
        path = scope["path"]
        if allowed := self._methods(scope, path):
            raise refused(405, f"{scope['method']} is not allowed at {path}", {"Allow": ", ".join(sorted(allowed))})
        if path.endswith("/") and self._methods(scope, path.rstrip("/")):
            await RedirectResponse(URL(scope={**scope, "path": path.rstrip("/")}))(scope, receive, send)
            return
        raise nothing_at(path)

    def _methods(self, scope: Scope, path: str) -> set[str]:
        """The methods of a path."""
        matching = [r for r in self._routes if r.matches({**scope, "path": path})[0] is not Match.NONE]
        return set().union(*(route.methods or () for route in matching))


def caller(request: Request) -> str:
    """The sender of a request, for the log of operations."""
    key = _presented(request.scope[HEADERS], page=False)
    return "no key" if key is None else f"key {hashed(key)[7:15]}"


#: the parameter of routes that are about one arm of a ranker
ARM: dict[str, dict[str, Any]] = {
    "arm": {"schema": {"type": "string"}, "description": "An arm of the ranker's settings; by default its own."}
}


def arm_of(request: Request) -> str:
    return request.query_params.get("arm", "")


def count_array(request: Request, n: int) -> None:
    """Count the requests of an array for the rate of its key."""
    if _RATED in request.scope:
        rates, key = request.scope[_RATED]
        rates.owe(key, n - 1)


def check_json(headers: dict[bytes, bytes]) -> None:
    """Raise unless a body is said to be JSON."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if not (media.startswith(b"application/") and b"json" in media):
        detail = f"content-type={media.decode('latin-1')!r}: must be 'application/json' (curl: --json instead of -d)"
        raise Refused(415, "Unsupported media type", detail)


def check_key(keys: Keys, need: Need, ranker: str | None, scope: Scope) -> str | None:
    """Return the request's key; raise unless it gives access."""
    key = _presented(scope[HEADERS], need is Need.PAGE)
    access = keys.allows(key, ranker=ranker, admin=need is Need.ADMIN, reads=scope["method"] in ("GET", "HEAD"))
    if access is _GRANTED:
        if need is Need.ANY:
            scope[VISIBLE] = keys.visible(key)
        return key
    if access is Access.MISSING:
        scheme = 'Basic realm="driftrank: the key is the password"' if need is Need.PAGE else "Bearer"
        detail = "a key is required: Authorization: Bearer KEY or X-API-Key: KEY"
        raise Refused(401, "Key missing", detail, {"www-authenticate": scheme})
    # the same message whether or not the ranker exists
    raise Refused(403, "Key refused", "this key has no access to this resource")


def _presented(headers: dict[bytes, bytes], page: bool) -> str | None:
    """The key of a request, or None."""
    given = headers.get(b"authorization")
    if given is not None:
        scheme, _, value = given.partition(b" ")
        if scheme.lower() == b"bearer":
            return value.strip().decode("latin-1")
        # pages only: browsers send it with every request, so elsewhere any other site could act in the user's name
        if page and scheme.lower() == b"basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2].decode("latin-1")
            except binascii.Error:
                return ""
    # the second one is Azure Personalizer's
    given = headers.get(b"x-api-key") or headers.get(b"ocp-apim-subscription-key")
    return None if given is None else given.decode("latin-1")
