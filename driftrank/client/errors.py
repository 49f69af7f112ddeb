"""What can go wrong with a call."""

from __future__ import annotations

from typing import Any

import msgspec

from driftrank.wire import Problem


class ServiceError(OSError):
    """The service did not do what it was asked for. ``status`` is 0 where there was no answer at all."""

    def __init__(self, status: int, title: str, detail: str = "") -> None:
        self.status, self.title, self.detail = status, title, detail
        about = f"{title}: {detail}" if detail else title
        super().__init__(f"{about} (status {status})" if status else about)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: a process that meets it in another would fail of it."""
        return type(self), (self.status, self.title, self.detail), self.__dict__

    @property
    def blameless(self) -> bool:
        """Whether nothing was wrong with the call itself."""
        return not 400 <= self.status < 500


class ServiceUnreachable(ServiceError):
    """No connection, no answer in time, or one that says to come again later: the same call may succeed later."""

    #: seconds after which the service wants to be asked again, where it said so
    retry_after: float | None = None

    @property
    def blameless(self) -> bool:
        return True


class Unauthorized(ServiceError):
    """No key, or one that does not open this ranker."""


class NotFound(ServiceError):
    """No such ranker, query or list."""


class InvalidRequest(ServiceError, ValueError):
    """The service cannot make sense of the call, or its values are not allowed."""


#: the answers that say to come again later
LATER = frozenset({429, 502, 503, 504})

_KINDS: dict[int, type[ServiceError]] = {
    **dict.fromkeys(LATER, ServiceUnreachable), **dict.fromkeys((401, 403), Unauthorized), 404: NotFound,
    **dict.fromkeys((400, 409, 413, 422), InvalidRequest),
}  # fmt: skip

#: what reading JSON of others may end with: bytes that are no text are no DecodeError
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_PROBLEM = msgspec.json.Decoder(Problem)


def error_of(status: int, body: bytes) -> ServiceError:
    """The error that an answer stands for."""
    try:
        problem = _PROBLEM.decode(body)
        title, detail = problem.title, problem.detail
    except UNREADABLE:  # not of our making: from a proxy, or not our service at all
        title, detail = f"the service answered {status}", body[:200].decode("utf-8", "replace")
    return _KINDS.get(status, ServiceError)(status, title, detail)
