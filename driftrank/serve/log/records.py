"""The records of the log. Each holds all that folding it needs, independent of when and where it is read.

Tags and the names in the stored JSON are a promise: a later version reads the stores of an earlier one. An earlier one
refuses what it does not know: a record without a field that it has would be folded to another state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType, field, json, structs

from driftrank.wire import ItemId, RankerSettings

#: the letters of a record for :data:`driftrank.wire.Why`
WHY = {"l": "learnt", "e": "explore", "p": "pinned", "b": "baseline", "o": "prior"}


class Ranked(Struct, frozen=True, forbid_unknown_fields=True, tag="ranked", tag_field="kind", omit_defaults=True):
    """An impression: a ranking was served."""

    ranker: str
    query: str
    event_id: str = field(name="event")
    time: float  #: the server's, as in all records
    step: int
    shown: list[ItemId]
    why: str  #: a letter for each item shown
    key: int  #: of the randomness
    score: list[float | None] = []
    arm: str = "live"  #: live, shadow, safe, holdout or the name of an arm
    #: the candidates; None: all items of the query. If the policy has a shared model, only those with a state.
    items: list[ItemId] | None = None
    features: list[list[float]] | None = None  #: of the candidates
    propensity: list[float] | None = None  #: of the items shown, given those above; if the policy defines it
    memo: bytes | None = None  #: the policy's notes for its update; doubles, little-endian
    defer: bool = False
    #: the generations that ranked it: the first records of the ranker's and of the query's (0: unknown, or a new
    #: query). Another generation may begin before this record is in the log, and must not be given the memo.
    ranker_since: int = 0
    query_since: int = 0
    #: of the items shown, in the caller's order, from 1, for the shared model; empty: there is no order, or no model
    places: list[int] = []
    #: scores, features and context of the items shown, for the shared model; packed, None: there are none
    described: bytes | None = None
    asked: int = 0  #: a digest of query, candidates and k as requested (0: unknown)
    #: all candidates, unless they are in ``items`` or in another record; never used for learning
    candidates: list[ItemId] | None = None
    offered_by: int = 0  #: the record of an impression of this query that has the same candidates (0: this one)
    share: float = 0.0  #: the probability of the arm when it was assigned (0: there was one arm only)
    subject: int = 0  #: a hash of the subject (0: none was given)
    same: int = 0  #: a digest of subject, query and candidates, if the list is to be the same for some time
    repeats: int = 0  #: the record of the list that is shown again
    offset: int = 0  #: positions above it, of earlier pages
    above: list[ItemId] = []  #: the items above it, if it is not the first page
    #: the list that the caller's order would have been, if it was not shown for that; empty: the same, None: unknown
    baseline: list[ItemId] | None = None
    #: of the holdout, and of a shadow that explores: the list that the ranker's own arm would have shown, live; empty:
    #: the same, None: unknown
    instead: list[ItemId] | None = None

    @property
    def baseline_list(self) -> list[ItemId] | None:
        """The list that the caller's order would have been; None if it is unknown."""
        if self.arm == "holdout" or self.baseline == []:
            return self.shown
        return self.baseline

    @property
    def policy_list(self) -> list[ItemId] | None:
        """The list that the ranker's own arm would have shown instead; None if it is unknown."""
        return self.shown if self.instead == [] else self.instead


class Activated(Struct, frozen=True, forbid_unknown_fields=True, tag="activated", tag_field="kind"):
    """A deferred impression was shown: its feedback window opens."""

    ranker: str
    event_id: str = field(name="event")
    time: float


class Clicked(Struct, frozen=True, forbid_unknown_fields=True, tag="clicked", tag_field="kind", omit_defaults=True):
    """Clicks were collected; they count at the end of the feedback window."""

    ranker: str
    event_id: str = field(name="event")
    time: float
    clicks: list[int]  #: positions, from 1, ascending
    shown: int | None = None
    client_time: float | str | None = field(name="said", default=None)
    values: list[tuple[int, float]] = []  #: positions and their values, ascending; empty: clicks, of value 1


class Final(Struct, frozen=True, forbid_unknown_fields=True, tag="final", tag_field="kind", omit_defaults=True):
    """The end of an impression: by feedback, by silence, dropped, or withdrawn."""

    ranker: str
    event_id: str = field(name="event")
    time: float
    how: str  #: feedback, silence, dropped or withdrawn
    clicks: list[int] = []
    shown: int | None = None
    client_time: float | str | None = field(name="said", default=None)
    values: list[tuple[int, float]] = []  #: as in Clicked; what was drawn to be a click is in clicks
    #: by the end of the feedback window: clicks collected up to this record count, also those that came after it was
    #: written and before it was in the log
    window_over: bool = field(name="over", default=False)

    @property
    def value(self) -> float:
        """The sum of the values of its clicks."""
        return math.fsum(value for _, value in self.values) if self.values else float(len(self.clicks))


class Withdrawn(Struct, frozen=True, forbid_unknown_fields=True, tag="withdrawn", tag_field="kind"):
    """An impression that is not known here was taken back: if it still comes, nothing is learnt from it."""

    ranker: str
    event_id: str = field(name="event")
    time: float


class Lost(Struct, frozen=True, forbid_unknown_fields=True, tag="lost", tag_field="kind"):
    """A waiting impression can no longer be read: nothing is learnt from it."""

    ranker: str
    time: float
    start: int  #: the record that opened its feedback window


class Warm(Struct, frozen=True, forbid_unknown_fields=True, tag="warm", tag_field="kind", omit_defaults=True):
    """A row of an old click log."""

    ranker: str
    query: str
    time: float
    ranking: list[ItemId]
    clicks: list[int]
    when: float  #: it was shown
    features: list[list[float]] | None = None
    ranker_since: int = 0  #: the ranker's generation when the row was sent (0: unknown)
    #: as in an impression, if the policy has a shared model; made when the row was sent. Its places are the positions.
    memo: bytes | None = None
    key: int = 0
    described: bytes | None = None  #: as in an impression
    arm: str = ""  #: that learns from it; empty: the ranker's own


class RankerSet(Struct, frozen=True, forbid_unknown_fields=True, tag="ranker", tag_field="kind"):
    """A ranker was created, or its settings changed."""

    ranker: str
    time: float
    settings: RankerSettings
    chosen: bool = True  #: the policy was named; otherwise it is the default of the version that wrote this
    #: a change of k alone keeps what was learnt, if it can be; earlier versions began again
    keep: bool | UnsetType = UNSET
    by: str | UnsetType = UNSET  #: whose request it was, as in other records
    steps: int | UnsetType = UNSET  #: the rankings that it had learnt from, as in other records
    undoes: int | UnsetType = UNSET  #: the record that is undone


class RankerDeleted(
    Struct, frozen=True, forbid_unknown_fields=True, tag="ranker-deleted", tag_field="kind", omit_defaults=True
):
    """A ranker was deleted."""

    ranker: str
    time: float
    by: str = ""
    steps: int = 0


class Reset(Struct, frozen=True, forbid_unknown_fields=True, tag="reset", tag_field="kind", omit_defaults=True):
    """A query, or a whole ranker, was reset."""

    ranker: str
    time: float
    query: str | None = None
    gone: bool = False  #: the query was deleted
    by: str = ""
    steps: int = 0
    undoes: int = 0


class Imported(Struct, frozen=True, forbid_unknown_fields=True, tag="imported", tag_field="kind", omit_defaults=True):
    """The state of a query was imported."""

    ranker: str
    query: str
    time: float
    state: bytes
    arm: str = ""  #: that it is a query of; empty: the ranker's own


class SharedImported(
    Struct, frozen=True, forbid_unknown_fields=True, tag="shared-imported", tag_field="kind", omit_defaults=True
):
    """The shared model of a ranker was restored."""

    ranker: str
    time: float
    state: bytes
    arm: str = ""  #: that it is the model of; empty: the ranker's own


class ChangeFound(Struct, frozen=True, forbid_unknown_fields=True, tag="change", tag_field="kind", omit_defaults=True):
    """A change of users was found in a query. Written if several services share the log: not all of them hold the
    query, and whoever does finds the same.
    """

    ranker: str
    query: str
    time: float
    number: int  #: of the change: of the record that showed it, and the place in that
    when: float  #: the time of that record
    step: int
    item: ItemId | None = None
    everything: bool = False
    before: float | None = None
    after: float | None = None


#: clicks on an impression so far, and the number of items shown; None: all
Collected = tuple[list[int], int | None]


def collected_with(before: Collected | None, record: Clicked) -> Collected:
    """Clicks collected so far, with those of a record: neither a click nor an observation can be taken back."""
    clicks, shown = before or ([], 0)
    shown = None if shown is None or record.shown is None else max(shown, record.shown)
    return sorted({*clicks, *record.clicks}), shown


def with_collected(final: Final, collected: Collected | None, values: Mapping[int, float] | None) -> Final:
    """The end of an impression with what was collected before it, if it is that of its feedback window."""
    if collected is None or not final.window_over:
        return final
    clicks, shown = collected
    return structs.replace(final, how="feedback", clicks=clicks, shown=shown, values=sorted((values or {}).items()))


Record = (
    Ranked | Activated | Clicked | Final | Withdrawn | Lost | Warm | RankerSet | RankerDeleted | Reset | Imported
    | SharedImported | ChangeFound
)  # fmt: skip

_encoder = json.Encoder()
_decoder = json.Decoder(Record)
encode = _encoder.encode
decode = _decoder.decode


# -- ids: the log accepts each only once -------------------------------------------------------------------------------
# names of rankers have no slash, so ids of different kinds, rankers and impressions never collide


def ranked_id(ranker: str, created: int, event_id: str) -> str:
    """``created``: the record that created the ranker, which tells it from a deleted one of the same name."""
    return f"r/{ranker}/{created}/{event_id}"


def withdrawn_id(ranker: str, created: int, event_id: str) -> str:
    return f"x/{ranker}/{created}/{event_id}"


# records about an impression are identified by its record's number, too: once the log has forgotten the impression, its
# event id may be used again, while those records are still there


def activated_id(ranker: str, event_id: str, impression: int) -> str:
    return f"a/{ranker}/{impression}/{event_id}"


def final_id(ranker: str, event_id: str, impression: int) -> str:
    """Shared by feedback and silence: the first of them ends the impression."""
    return f"f/{ranker}/{impression}/{event_id}"


def clicked_id(
    ranker: str, event_id: str, impression: int, clicks: list[int], shown: int | None,
    values: Sequence[tuple[int, float]] = (),
) -> str:  # fmt: skip
    """The same clicks sent again are the same record."""
    worth = "".join(f";{position}={value!r}" for position, value in values)
    return f"c/{ranker}/{impression}/{','.join(map(str, clicks))};{shown or ''}{worth}/{event_id}"


def change_id(ranker: str, created: int, number: int) -> str:
    return f"d/{ranker}/{created}/{number}"
