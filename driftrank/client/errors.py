"""Errors of calls."""

from __future__ import annotations

from typing import Any

import msgspec

from ..wire import Problem


class ServiceError(OSError):
    """The service did not do what it was asked for. ``status`` is 0 if there was no answer at all.

    ``type`` is the kind of problem, to switch on: ``"urn:driftrank:problem:event-id-taken"``. It is "about:blank" if
    the answer is not one of the service.
    """

    def __init__(self, status: int, title: str, detail: str = "", type: str = "about:blank") -> None:
        self.status, self.title, self.detail, self.type = status, title, detail, type
        about = f"{title}: {detail}" if detail else title
        super().__init__(f"{about} (status {status})" if status else about)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which would call the class with the message alone."""
        return self.__class__, (self.status, self.title, self.detail, self.type), self.__dict__

    #: True if there was no answer, but the service may have received the call
    uncertain = False

    @property
    def blameless(self) -> bool:
        """True if nothing was wrong with the call itself."""
        return not 400 <= self.status < 500


class ServiceUnreachable(ServiceError):
    """No connection, no answer in time, or an answer that asks to try again later: the call may succeed later."""

    #: seconds after which the service asks for another attempt
    retry_after: float | None = None

    @property
    def blameless(self) -> bool:
        return True


class Unauthorized(ServiceError):
    """No key, or one without access to this ranker."""


class NotFound(ServiceError):
    """No such ranker, query or ranking."""


class InvalidRequest(ServiceError, ValueError):
    """The service cannot read the call, or rejects its values."""


#: status codes that ask to try again later
LATER = frozenset({429, 502, 503, 504})

_KINDS: dict[int, type[ServiceError]] = {
    **dict.fromkeys(LATER, ServiceUnreachable), **dict.fromkeys((401, 403), Unauthorized), 404: NotFound,
    **dict.fromkeys((400, 409, 413, 422), InvalidRequest),
}  # fmt: skip

#: errors of decoding JSON from outside: bytes that are not text do not raise a DecodeError
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_PROBLEM = msgspec.json.Decoder(Problem)


def error_of(status: int, body: bytes) -> ServiceError:
    """The error that an answer stands for."""
    try:
        problem = _PROBLEM.decode(body)
    except UNREADABLE:  # from a proxy, or from another program
        problem = Problem(f"the service answered {status}", status, body[:200].decode("utf-8", "replace"))
    return _KINDS.get(status, ServiceError)(status, problem.title, problem.detail, problem.type)
