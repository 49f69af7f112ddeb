"""Requests to the service: their encoding, and the decoding of the answers. Nothing here does I/O."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from ..wire import (
    ENCODER,
    Clicked,
    Counted,
    Feedback,
    FeedbackResult,
    ItemId,
    RankedItem,
    RankRequest,
    RankResponse,
    in_order,
    route_of,
)
from .errors import UNREADABLE, ServiceError, error_of

T = TypeVar("T")

#: bytes of one request that carries many rows; services accept up to 1 MB by default
LONGEST = 500_000

#: a click: the id of an item, a position, or an unambiguous id
Click = str | int | Clicked

#: the result of feedback for a fallback
NEVER_SEEN = FeedbackResult("", "orphan", detail="the list was a fallback: the service never saw it")

#: the decoder of a type, made once
decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the type of its answer."""

    method: str
    path: str
    answer: type[T]  #: bytes: the body as it is
    body: bytes | None = None
    long: bool = False  #: may take long, such as the export of a large state
    route: str = ""  #: of the query concerned: calls with the same one should reach the same node

    def read(self, status: int, body: bytes, repeated: bool = False) -> T:
        """Decode an answer, or raise its error. ``repeated``: this was not the first attempt."""
        gone = repeated and self.method == "DELETE" and status == 404  # an earlier attempt has deleted it
        if not 200 <= status < 300 and not gone:
            raise error_of(status, body)
        if self.answer is bytes:
            return body  # type: ignore[return-value]
        try:
            answer: T = decoder(self.answer).decode(body)
            return answer
        except UNREADABLE as error:
            raise ServiceError(status, f"the answer to {self.method} {self.path} cannot be read", str(error)) from None


def ranker_path(name: str) -> str:
    return f"/v1/rankers/{segment(name)}"


def segment(name: str) -> str:
    """Quote a name as one segment of a path. Unquoted, "." and ".." would be resolved."""
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="")


def parameters(**values: str | int | None) -> str:
    """The query string of these parameters, without those that are None.

    >>> parameters(query="a b", before=None, limit=10)
    '?query=a%20b&limit=10'
    """
    given = [f"{name}={quote(str(value), safe='')}" for name, value in values.items() if value is not None]
    return "?" + "&".join(given) if given else ""


def new_event_id(route: str = "") -> str:
    """A new event id; with the route of its query, so that feedback takes the same way."""
    return f"{uuid.uuid4().hex}@{route}" if route else uuid.uuid4().hex


def with_event_id(ranker: str, request: RankRequest) -> RankRequest:
    """Add an event id if there is none: without it, a repeated call would rank a second time."""
    if request.event_id:
        return request
    return msgspec.structs.replace(request, event_id=new_event_id(route_of(ranker, request.query)))


def feedback(ranker: str, bodies: Iterable[bytes], route: str = "") -> Call[list[FeedbackResult]]:
    """A single feedback is sent as an array too: its outcome is then an answer, never an error."""
    return Call("POST", f"{ranker_path(ranker)}/feedback", list[FeedbackResult], array(bodies), route=route)


def fallback(request: RankRequest, k: int | None = None) -> RankResponse:
    """Rank without the service: the baseline, with pinned and excluded items respected. ``k``: the ranker's, if known.

    The event id is empty: nothing will be learnt from this ranking.
    """
    ids = in_order(request.items)
    known, pinned = set(ids), {}
    shown: list[ItemId] = []
    for item in dict.fromkeys([*(item for item in request.baseline or () if item in known), *ids]):
        if str(item) in request.pinned:
            pinned[request.pinned[str(item)]] = item
        elif item not in request.excluded:
            shown.append(item)
    for position in sorted(pinned):
        shown.insert(position - 1, pinned[position])
    above, most = request.offset, request.k or k
    page = shown[above : None if most is None else above + most]
    ranked = [RankedItem(item, n, None, "baseline") for n, item in enumerate(page, above + 1)]
    return RankResponse("", ranked, "fallback", 0)


def batches(rows: Iterable[bytes], most: int | None = None) -> Iterator[list[bytes]]:
    """Split encoded rows into requests of at most ``most`` rows and ``LONGEST`` bytes."""
    batch: list[bytes] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == most or size + len(row) > LONGEST):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row)
    if batch:
        yield batch


def total(parts: Iterable[Counted]) -> Counted:
    """Sum the counts of several calls."""
    counted = duplicates = 0
    for part in parts:
        counted, duplicates = counted + part.counted, duplicates + part.duplicates
    return Counted(counted, duplicates)


def listed(name: str, values: Iterable[Any]) -> list[Any]:
    """Copy to a list; reject a single value, such as a string."""
    if isinstance(values, (str, int, Clicked)):
        raise ValueError(f"{name}={values!r}: must be a list")
    return list(values)


def array(bodies: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(bodies) + b"]"


def feedback_body(feedback: Feedback) -> bytes:
    """Encode feedback at once, so that its errors reach the caller and not the background sender."""
    clicks = None if feedback.clicks is None else listed("clicks", feedback.clicks)
    return encoded(msgspec.structs.replace(feedback, clicks=clicks), Feedback)


def encoded(value: Any, kind: Any) -> bytes:
    """Encode as JSON; raise ValueError for a value that the service could not decode."""
    try:
        body = ENCODER.encode(value)
        decoder(kind).decode(body)
    except (TypeError, msgspec.MsgspecError) as error:
        one = value[0] if isinstance(value, list) and value else value
        raise ValueError(f"{type(one).__name__}: {error}") from None
    return body
