"""Errors as problem documents (RFC 9457), and in the form of Azure Personalizer under its paths."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from driftrank import wire

MEDIA_TYPE = "application/problem+json"
#: under this path errors have the form of Azure Personalizer's
PERSONALIZER = "/personalizer/"

#: what the type of a problem begins with; the rest is its title
TYPE = "urn:driftrank:problem:"
#: the titles of problems, with their statuses. Types are a promise: a title is not changed, and not used for another
#: kind of problem.
TITLES = {
    "Bad request": 400,
    "Not JSON": 400,
    "Key missing": 401,
    "Host refused": 403,
    "Key refused": 403,
    "Origin refused": 403,
    "No such arm": 404,
    "No such event": 404,
    "No such operation": 404,
    "No such query": 404,
    "No such ranker": 404,
    "Not found": 404,
    "Method not allowed": 405,
    "Request timeout": 408,
    "Ambiguous event id": 409,
    "Cannot be undone": 409,
    "Changed meanwhile": 409,
    "Event id taken": 409,
    "Ranking taken back": 409,
    "Would discard what was learnt": 409,
    "Body too long": 413,
    "Path too long": 414,
    "Unsupported encoding": 415,
    "Unsupported media type": 415,
    "Bad settings": 422,
    "Bad state": 422,
    "Bad value": 422,
    "Too many requests": 429,
    "Request header fields too large": 431,
    "Internal error": 500,
    "Not ready": 503,
    "Outcome unknown": 503,
    "Overloaded": 503,
    "Store not readable": 503,
    "Store not writable": 503,
}

#: Personalizer's error codes: for bad requests by the last part of the path, otherwise by status
_BAD_REQUEST = {
    "rank": "InvalidRankRequest", "reward": "InvalidRewardRequest", "activate": "InvalidEventIdToActivate",
}  # fmt: skip
_CODES = {404: "ResourceNotFound", 500: "InternalServerError"}


class Refused(Exception):
    """A request that fails: ``title`` is the kind of problem, ``detail`` the reason."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}

    @property
    def type(self) -> str:
        """The kind of problem as a URI, for programs.

        >>> Refused(404, "No such ranker", "ranker 'shop': no such ranker").type
        'urn:driftrank:problem:no-such-ranker'
        """
        return TYPE + self.title.lower().replace(" ", "-")


def refused(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Refused:
    """A failure whose title is the phrase of its status, in the style of the others.

    >>> refused(404, "no ranker 'shop'").title
    'Not found'
    """
    return Refused(status, _phrase(status), detail, headers)


def nothing_at(path: str) -> Refused:
    """The failure of a path without a route."""
    return refused(404, f"no such path: {path}; see /docs")


def document(problem: Refused, path: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of the answer."""
    status, media = problem.status, MEDIA_TYPE
    detail = problem.detail.encode("utf-8", "backslashreplace").decode()  # it may quote what JSON cannot represent
    if path.startswith(PERSONALIZER):
        body = wire.ENCODER.encode({"error": {"code": _code(problem.status, path), "message": detail}})
        media = "application/json"
        status = 400 if status == 422 else status  # its clients expect 400
    else:
        body = wire.ENCODER.encode(wire.Problem(problem.title, status, detail, problem.type))
    headers = {"content-type": media, "content-length": str(len(body)), **problem.headers}
    return status, [(k.lower().encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()], body


def _code(status: int, path: str) -> str:
    if status in (400, 409, 422):
        return _BAD_REQUEST.get(path.rpartition("/")[2], "BadRequest")
    return _CODES.get(status, str(status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.capitalize()
    except ValueError:
        return "Error"
