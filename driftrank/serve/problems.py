"""What the service says when it cannot do what it was asked: problem documents (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from driftrank import wire

MEDIA_TYPE = "application/problem+json"
#: under this path errors look as those of Azure Personalizer
PERSONALIZER = "/personalizer/"

#: what Personalizer calls errors, by the end of the path where a request is wrong, else by status
_WRONG_REQUEST = {
    "rank": "InvalidRankRequest", "reward": "InvalidRewardRequest", "activate": "InvalidEventIdToActivate",
}  # fmt: skip
_CODES = {404: "ResourceNotFound", 500: "InternalServerError"}


class Refused(Exception):
    """A request that is not done, and why: ``title`` says what kind of problem it is, ``detail`` what is the matter."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}


def refused(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Refused:
    """A refusal that says no more than its status.

    >>> refused(404, "no ranker 'shop'").title
    'Not Found'
    """
    return Refused(status, _phrase(status), detail, headers)


def document(problem: Refused, path: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of the answer."""
    status, media = problem.status, MEDIA_TYPE
    detail = problem.detail.encode("utf-8", "backslashreplace").decode()  # it may quote what no JSON can hold
    if path.startswith(PERSONALIZER):
        body = wire.ENCODER.encode({"error": {"code": _code(problem.status, path), "message": detail}})
        media = "application/json"
        status = 400 if status == 422 else status  # which is what its clients know
    else:
        body = wire.ENCODER.encode(wire.Problem(title=problem.title, status=status, detail=detail))
    headers = {"content-type": media, "content-length": str(len(body)), **problem.headers}
    return status, [(k.lower().encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()], body


def answer(problem: Refused, path: str) -> Response:
    """The same as a response."""
    status, headers, body = document(problem, path)
    response = Response(body, status)
    response.raw_headers = headers
    return response


def wrong_body(error: msgspec.DecodeError) -> Refused:
    """The problem of a body that could not be read: 400 where it is no JSON, 422 where it says the wrong things."""
    if isinstance(error, msgspec.ValidationError):
        return Refused(422, "Bad value", str(error))
    return Refused(400, "Not JSON", str(error))


def install(app: FastAPI) -> None:
    """Have FastAPI's own errors (no such path, wrong method, wrong parameter) look like ours."""

    async def of_http(request: Request, error: Any) -> Response:
        detail, headers = str(error.detail), error.headers
        if error.status_code == 404 and detail == _phrase(404):
            detail = f"there is nothing at {request.url.path}; /docs shows what there is"
        elif error.status_code == 405:
            detail = f"{request.method} is not possible at {request.url.path}"
            headers = {"Allow": ", ".join(_possible(app, request))}
        return answer(refused(error.status_code, detail, headers), request.url.path)

    async def of_parameters(request: Request, error: Any) -> Response:
        parts = [f"{'.'.join(map(str, e['loc'][1:]))}={e.get('input')!r}: {e['msg']}" for e in error.errors()]
        return answer(Refused(422, "Bad value", "; ".join(parts)), request.url.path)

    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)


def _possible(app: FastAPI, request: Request) -> list[str]:
    """The methods of a path. Each is a route of its own here, of which Starlette would name the first."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"]):
            found |= route.methods or set()
    return sorted(found)


def _code(status: int, path: str) -> str:
    if status in (400, 409, 422):
        return _WRONG_REQUEST.get(path.rpartition("/")[2], "BadRequest")
    return _CODES.get(status, str(status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
