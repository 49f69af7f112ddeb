"""The calls of the service, and how their answers are read. Nothing here sends anything."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from driftrank.client.errors import UNREADABLE, ServiceError, error_of
from driftrank.validation import check_integer
from driftrank.wire import (
    ENCODER,
    FEEDBACK,
    RANK,
    Activation,
    Clicked,
    Counted,
    Feedback,
    FeedbackResult,
    Item,
    ItemId,
    QueryState,
    RankedItem,
    RankerInfo,
    RankerSettings,
    RankRequest,
    RankResponse,
    WarmRow,
)

T = TypeVar("T")

#: bytes of a call that many lines go into; services take up to 1 MB by default
LONGEST = 500_000

#: what may be said of a click: an item's id, a position, or beyond doubt an id
Click = str | int | Clicked


@dataclass(frozen=True)
class Call(Generic[T]):
    """What to send, and what comes back."""

    method: str
    path: str
    answer: msgspec.json.Decoder[T] | None  #: None: the bytes as they are
    body: bytes | None = None
    long: bool = False  #: may take long, such as the export of a large state

    def read(self, status: int, body: bytes, repeated: bool = False) -> T:
        """What the answer says; raises what it complains of. ``repeated``: there were attempts before."""
        gone = repeated and self.method == "DELETE" and status == 404  # an earlier attempt has deleted it
        if not 200 <= status < 300 and not gone:
            raise error_of(status, body)
        if self.answer is None:
            return body  # type: ignore[return-value]
        try:
            return self.answer.decode(body)
        except UNREADABLE as error:
            raise ServiceError(status, f"the answer to {self.method} {self.path} cannot be read", str(error)) from None


_RANKED = msgspec.json.Decoder(RankResponse)
_RANKED_MANY = msgspec.json.Decoder(list[RankResponse])
_RESULTS = msgspec.json.Decoder(list[FeedbackResult])
_ACTIVATION = msgspec.json.Decoder(Activation)
_RANKER = msgspec.json.Decoder(RankerInfo)
_RANKERS = msgspec.json.Decoder(list[RankerInfo])
_QUERY = msgspec.json.Decoder(QueryState)
_NAMES = msgspec.json.Decoder(list[str])
_COUNTED = msgspec.json.Decoder(Counted)
_ROW = msgspec.json.Decoder(WarmRow)


def rank_request(
    query: str,
    items: Iterable[ItemId | Item],
    k: int | None,
    event_id: str | None,
    excluded: Iterable[ItemId],
    pinned: Mapping[str, int] | None,
    baseline: Iterable[ItemId] | None,
    defer: bool,
) -> RankRequest:
    """A request with an event id: without one, a repeated call would make a second list."""
    return RankRequest(
        query, _listed("items", items), k, event_id or new_event_id(), _listed("excluded", excluded),
        dict(pinned or {}), None if baseline is None else _listed("baseline", baseline), defer,
    )  # fmt: skip


def new_event_id() -> str:
    return uuid.uuid4().hex


def rank(ranker: str, request: RankRequest) -> Call[RankResponse]:
    return Call("POST", f"{_ranker(ranker)}/rank", _RANKED, _encoded(request, RANK))


def named(requests: Iterable[RankRequest]) -> list[RankRequest]:
    """Requests that all have an event id."""
    return [
        request if request.event_id else msgspec.structs.replace(request, event_id=new_event_id())
        for request in requests
    ]


def rank_many(ranker: str, requests: list[RankRequest]) -> Call[list[RankResponse]]:
    return Call("POST", f"{_ranker(ranker)}/rank", _RANKED_MANY, _encoded(requests, RANK))


def fallback(request: RankRequest) -> RankResponse:
    """What is shown where the service cannot be asked: the list as it would be without it.

    The empty event id says that nothing will be learnt of it.
    """
    ids: list[ItemId] = [item.id if isinstance(item, Item) else item for item in request.items]
    known, pinned = set(ids), {}
    shown: list[ItemId] = []
    for item in dict.fromkeys([*(item for item in request.baseline or () if item in known), *ids]):
        if str(item) in request.pinned:
            pinned[request.pinned[str(item)]] = item
        elif item not in request.excluded:
            shown.append(item)
    for position in sorted(pinned):
        shown.insert(position - 1, pinned[position])
    ranked = [RankedItem(item, n, None, "baseline") for n, item in enumerate(shown[: request.k], 1)]
    return RankResponse("", ranked, "fallback", 0)


def feedback_body(event_id: str, clicks: Iterable[Click] | None, shown: int | None, time: float | str | None) -> bytes:
    """A feedback as it is sent. Encoded at once: what is wrong with it is said to whoever made it."""
    listed = None if clicks is None else _listed("clicks", clicks)
    return _encoded(Feedback(event_id, listed, shown, time), FEEDBACK)


def feedback(ranker: str, bodies: Iterable[bytes]) -> Call[list[FeedbackResult]]:
    """Also a single one goes as an array: whatever became of it is then an answer, not an error."""
    return Call("POST", f"{_ranker(ranker)}/feedback", _RESULTS, b"[" + b",".join(bodies) + b"]")


def feedback_bodies(feedbacks: Iterable[Feedback]) -> list[bytes]:
    """Those that are about lists of the service."""
    return [feedback_body(f.event_id, f.clicks, f.shown, f.time) for f in feedbacks if f.event_id]


def aligned(feedbacks: Iterable[Feedback], results: list[FeedbackResult]) -> list[FeedbackResult]:
    """A result for every feedback, also for those that were not sent."""
    left = iter(results)
    return [next(left) if feedback.event_id else NEVER_SEEN for feedback in feedbacks]


#: the answer to feedback about a list that the service did not make
NEVER_SEEN = FeedbackResult("", "orphan", detail="the list was a fallback: the service never saw it")


def activate(ranker: str, event_id: str) -> Call[Activation]:
    return Call("POST", f"{_ranker(ranker)}/events/{_part(event_id)}/activate", _ACTIVATION)


def query(ranker: str, name: str) -> Call[QueryState]:
    return Call("GET", f"{_ranker(ranker)}/queries/{_part(name)}", _QUERY)


def queries(ranker: str, after: str, limit: int) -> Call[list[str]]:
    check_integer("limit", limit, 1)
    begin = f"after={_part(after)}&" if after else ""  # the query "" comes after nothing, not after itself
    return Call("GET", f"{_ranker(ranker)}/queries?{begin}limit={limit}", _NAMES)


def delete_query(ranker: str, name: str) -> Call[bytes]:
    return Call("DELETE", f"{_ranker(ranker)}/queries/{_part(name)}", None)


def rankers() -> Call[list[RankerInfo]]:
    return Call("GET", "/v1/rankers", _RANKERS)


def ranker(name: str) -> Call[RankerInfo]:
    return Call("GET", _ranker(name), _RANKER)


def put_ranker(name: str, settings: RankerSettings) -> Call[RankerInfo]:
    return Call("PUT", _ranker(name), _RANKER, _encoded(settings, msgspec.json.Decoder(RankerSettings)))


def delete_ranker(name: str) -> Call[bytes]:
    return Call("DELETE", _ranker(name), None)


def reset(ranker: str, query: str | None) -> Call[bytes]:
    where = "" if query is None else f"/queries/{_part(query)}"
    return Call("POST", f"{_ranker(ranker)}{where}/reset", None)


def warmstart(ranker: str, rows: Iterable[WarmRow], batch: int, name: str | None) -> Iterator[Call[Counted]]:
    """The rows of a log, in calls of at most ``batch`` rows, each with a name: repeated, it counts once."""
    check_integer("batch", batch, 1)
    name = _part(name or new_event_id())
    for n, part in enumerate(_parts((_encoded(row, _ROW) for row in rows), batch)):
        path = f"{_ranker(ranker)}/warmstart?batch={name}-{n}"
        yield Call("POST", path, _COUNTED, b"[" + b",".join(part) + b"]", long=True)


def export(ranker: str) -> Call[bytes]:
    return Call("GET", f"{_ranker(ranker)}/export", None, long=True)


def import_(ranker: str, state: bytes) -> Iterator[Call[Counted]]:
    """The lines of an export, in several calls."""
    for part in _parts(state.splitlines(keepends=True)):
        yield Call("POST", f"{_ranker(ranker)}/import", _COUNTED, b"".join(part), long=True)


def _parts(lines: Iterable[bytes], most: int | None = None) -> Iterator[list[bytes]]:
    """Lines that go into one call: no more than ``most``, and no longer than the service takes."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (len(part) == most or size + len(line) > LONGEST):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def together(parts: Iterable[Counted]) -> Counted:
    """What several calls counted."""
    counted = duplicates = 0
    for part in parts:
        counted, duplicates = counted + part.counted, duplicates + part.duplicates
    return Counted(counted, duplicates)


def _ranker(name: str) -> str:
    return f"/v1/rankers/{_part(name)}"


def _part(name: str) -> str:
    """A name as one part of a path. As they are, "." and ".." would be the parts before it."""
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe="")


def _listed(name: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, int, Clicked)):
        raise ValueError(f"{name}={values!r}: must be a list")
    return list(values)


def _encoded(value: Any, decoder: msgspec.json.Decoder[Any]) -> bytes:
    """As JSON; what the service would not even read is a ValueError here."""
    try:
        body = ENCODER.encode(value)
        decoder.decode(body)
    except (TypeError, msgspec.MsgspecError) as error:
        one = value[0] if isinstance(value, list) and value else value
        raise ValueError(f"{type(one).__name__}: {error}") from None
    return body
