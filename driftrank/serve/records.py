"""What the log is made of. A record says all that a fold needs; nothing of it depends on when or where it is read."""

from __future__ import annotations

from msgspec import Struct, json

from driftrank.wire import ItemId, RankerSettings

#: the letters that stand for :data:`driftrank.wire.Why` in a record
WHY = {"l": "learnt", "e": "explore", "p": "pinned", "b": "baseline"}


class Ranked(Struct, frozen=True, tag="ranked", tag_field="kind", omit_defaults=True):
    """A list was made."""

    ranker: str
    query: str
    event: str
    time: float  #: the server's, like all times of records
    step: int
    shown: list[ItemId]
    why: str  #: a letter for each item shown
    key: int  #: of the randomness
    score: list[float | None] = []
    arm: str = "live"  #: live, shadow, safe or holdout
    items: list[ItemId] | None = None  #: the candidates; None: all that the query knows
    features: list[list[float]] | None = None  #: of the candidates
    propensity: list[float] | None = None  #: of the items shown, given those above; where the policy knows it
    memo: bytes | None = None  #: what the policy must be told again when it learns; doubles, little-endian
    defer: bool = False
    #: what made it: the records that began the ranker's and the query's lives (0: it was not known, or a new query). It
    #: may be in the log after another life began, and a policy must not be told again what another one noted.
    ranker_since: int = 0
    query_since: int = 0


class Activated(Struct, frozen=True, tag="activated", tag_field="kind"):
    """A deferred list was shown after all."""

    ranker: str
    event: str
    time: float


class Clicked(Struct, frozen=True, tag="clicked", tag_field="kind", omit_defaults=True):
    """Clicks were collected; they count when the wait is over."""

    ranker: str
    event: str
    time: float
    clicks: list[int]  #: positions, from 1, ascending
    shown: int | None = None
    said: float | str | None = None  #: the client's time


class Final(Struct, frozen=True, tag="final", tag_field="kind", omit_defaults=True):
    """A list is done: by feedback, by silence, or dropped."""

    ranker: str
    event: str
    time: float
    how: str  #: feedback, silence or dropped
    clicks: list[int] = []
    shown: int | None = None
    said: float | str | None = None


class Lost(Struct, frozen=True, tag="lost", tag_field="kind"):
    """A list that waited cannot be read any more: nothing is learnt of it."""

    ranker: str
    time: float
    start: int  #: the record that began the wait


class Warm(Struct, frozen=True, tag="warm", tag_field="kind", omit_defaults=True):
    """A list of an old log."""

    ranker: str
    query: str
    time: float
    ranking: list[ItemId]
    clicks: list[int]
    when: float  #: it was shown
    features: list[list[float]] | None = None
    ranker_since: int = 0  #: the record that began the life of the ranker that it was sent to (0: it was not noted)


class RankerSet(Struct, frozen=True, tag="ranker", tag_field="kind"):
    """A ranker was made, or its settings changed."""

    ranker: str
    time: float
    settings: RankerSettings
    chosen: bool = True  #: the policy was; otherwise it is the default of the version that wrote this


class RankerDeleted(Struct, frozen=True, tag="ranker-deleted", tag_field="kind"):
    """A ranker is no more."""

    ranker: str
    time: float


class Reset(Struct, frozen=True, tag="reset", tag_field="kind", omit_defaults=True):
    """What a query, or a whole ranker, has learnt is forgotten."""

    ranker: str
    time: float
    query: str | None = None
    gone: bool = False  #: the query itself too


class Imported(Struct, frozen=True, tag="imported", tag_field="kind"):
    """The state of a query came from elsewhere."""

    ranker: str
    query: str
    time: float
    state: bytes


Record = Ranked | Activated | Clicked | Final | Lost | Warm | RankerSet | RankerDeleted | Reset | Imported

_encoder = json.Encoder()
_decoder = json.Decoder(Record)
encode = _encoder.encode
decode = _decoder.decode


# -- ids: what may be in the log only once -----------------------------------------------------------------------------
# names of rankers have no slash in them, so no two of these are ever the same


def ranked_id(ranker: str, born: int, event: str) -> str:
    """``born``: the record that made the ranker. One of the same name that was deleted is another."""
    return f"r/{ranker}/{born}/{event}"


# what comes of a list is named by the number of its record, too: once the log has forgotten a list, its event id may be
# used for another one, while what came of the first is still there


def activated_id(ranker: str, event: str, list_: int) -> str:
    return f"a/{ranker}/{list_}/{event}"


def final_id(ranker: str, event: str, list_: int) -> str:
    """Feedback and silence share it: whichever comes first is the end of the list."""
    return f"f/{ranker}/{list_}/{event}"


def clicked_id(ranker: str, event: str, list_: int, clicks: list[int], shown: int | None) -> str:
    """The same clicks sent again are the same record."""
    return f"c/{ranker}/{list_}/{','.join(map(str, clicks))};{shown or ''}/{event}"
