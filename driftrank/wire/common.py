"""The types that requests and answers of all kinds share, and the form of errors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

#: a time: ISO 8601, UTC
Moment = Annotated[datetime, Meta(tz=True)]

#: the id of an item; 7 and "7" are two items
ItemId = str | int

#: the reason for an item's position: learnt (best estimate), prior (best estimate, not yet observed in this query: by
#: the caller's order and what other queries have learnt), explore (shown to learn more), pinned (by the caller),
#: baseline (the baseline's choice)
Why = Literal["learnt", "prior", "explore", "pinned", "baseline"]

#: features by name: numbers, strings, booleans, lists of strings, and objects of these
Named = dict[str, Any]


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error, as in RFC 9457."""

    title: str  #: the kind of problem, for people
    status: int  #: of the answer
    detail: str  #: the reason, for this request
    type: str = "about:blank"  #: the kind of problem, for programs; operate.md lists them


ENCODER = msgspec.json.Encoder()
