"""Errors as problem documents (RFC 9457), and in the form of Azure Personalizer under its paths."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from driftrank import wire

MEDIA_TYPE = "application/problem+json"
#: under this path errors have the form of Azure Personalizer's
PERSONALIZER = "/personalizer/"

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


def refused(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Refused:
    """A failure whose title is the phrase of its status.

    >>> refused(404, "no ranker 'shop'").title
    'Not Found'
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
        body = wire.ENCODER.encode(wire.Problem(title=problem.title, status=status, detail=detail))
    headers = {"content-type": media, "content-length": str(len(body)), **problem.headers}
    return status, [(k.lower().encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()], body


def _code(status: int, path: str) -> str:
    if status in (400, 409, 422):
        return _BAD_REQUEST.get(path.rpartition("/")[2], "BadRequest")
    return _CODES.get(status, str(status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
