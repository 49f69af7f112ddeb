"""The entries of the route table: one HTTP operation each, with everything that is known about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from driftrank import wire
from driftrank.serve.problems import MEDIA_TYPE
from driftrank.serve.service import Service

Handler = Callable[[Service, Request], Awaitable[Response]]

JSON = "application/json"
#: the ``route`` label of metrics; within a group of routes they stand in this order
LABELS = ("rank", "feedback", "other")
#: the statuses of problems that any operation may return: bad requests, keys, limits, a failing store
PROBLEMS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 503)


class Need(Enum):
    """The key that an operation needs. The admin key has access to every operation."""

    NOTHING = "nothing"
    ANY = "any"  #: any valid key; what it has access to is in the request's scope
    PAGE = "page"  #: any valid key; a browser may send it as a password
    RANKER = "ranker"  #: a key of the ranker in the path, or of Personalizer's if the path names none
    ADMIN = "admin"


@dataclass(frozen=True)
class Operation:
    """A method of a path. The handler's docstring is its summary and description in the OpenAPI document.

    Examples can be sent as they are, in the order of the document.
    """

    method: str
    path: str
    handler: Handler
    need: Need = Need.ADMIN
    label: str = "other"
    status: int = 200  #: of a successful answer
    body: Any = None  #: the type of the request's body; None: no body
    body_required: bool = True
    example: Any = None  #: of the body
    answer: Any = None  #: the type of the answer; None: no content
    media: str = JSON
    also: Mapping[int, Any] | None = None  #: answers other than problem documents, by the status of a problem
    parameters: Mapping[str, Mapping[str, Any]] | None = None  #: of the query string
    path_examples: Mapping[str, str] | None = None  #: values of path parameters other than the usual examples
    problems: Sequence[int] = PROBLEMS
    problem: Any = wire.Problem
    problem_media: str = MEDIA_TYPE
    documented: bool = True
    tag: str = ""  #: the ``TAG`` of its file
