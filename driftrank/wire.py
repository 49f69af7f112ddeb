"""What goes over the wire: the requests and answers of the ranking service, for server and client alike."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

#: an item's name; 7 and "7" are two items
ItemId = str | int

#: why an item stands where it stands: best by what was learnt; tried to learn more; put there by the caller; the
#: baseline's choice
Why = Literal["learnt", "explore", "pinned", "baseline"]

#: what became of feedback
#: counted: learnt from. collected: kept until the wait is over, then counted. duplicate: was there already.
#: refused: other clicks were counted before. late: the wait was over. orphan: no such list. inactive: deferred and not
#: activated. holdout: kept for comparison, not learnt from. forgotten: its ranker or query was started anew since.
Outcome = Literal["counted", "collected", "duplicate", "refused", "late", "orphan", "inactive", "holdout", "forgotten"]


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """A candidate, with the numbers that describe it where the policy looks at them."""

    id: ItemId
    features: list[float] | None = None


class RankRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which of these items to show for a query, in which order?"""

    query: str
    items: list[ItemId | Item]
    k: int | None = None  #: positions; the ranker's number by default
    event_id: str | None = None  #: makes a retried call answer the same list; the server makes one by default
    excluded: list[ItemId] = []
    pinned: dict[str, int] = {}  #: item to position, 1 is the top
    baseline: list[ItemId] | None = None  #: the list as it would be without us; the items as given by default
    defer: bool = False  #: the list may never be shown: nothing is learnt of it before it is activated


class RankedItem(Struct, frozen=True):
    """An item of the list."""

    id: ItemId
    position: int
    score: float | None
    why: Why
    propensity: float | UnsetType = UNSET  #: its probability given those above, where the policy knows it


class RankResponse(Struct, frozen=True):
    """The list to show."""

    event_id: str
    items: list[RankedItem]
    policy: str
    step: int  #: lists of this query that were learnt from, plus one


class Clicked(Struct, frozen=True, forbid_unknown_fields=True):
    """A clicked item, named beyond doubt: ids that are numbers could be positions."""

    id: ItemId


class Feedback(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What users did with a list. Clicks: a string is an item's id, an integer a position (1 is the top)."""

    event_id: str
    clicks: list[str | int | Clicked] | None = None  #: none or empty: the list was seen and nothing clicked
    shown: int | None = None  #: how many items, from the top, were shown; all by default
    time: float | str | None = None  #: the client's clock; kept in the log, never used


class FeedbackResult(Struct, frozen=True, omit_defaults=True):
    """What became of a feedback."""

    event_id: str
    outcome: Outcome
    clicks: int | None = None  #: how many clicks count for this list now
    detail: str | None = None


class Activation(Struct, frozen=True):
    """A deferred list was shown."""

    event_id: str
    outcome: Literal["activated", "duplicate"]


class RankerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a ranker ranks and learns. Durations: seconds, or texts such as "30m", "24h", "7d"."""

    policy: str | None = (
        None  #: as on the command line, such as "CascadeSWUCB:window=24h"; the default policy by default
    )
    k: int = 10  #: positions of a list
    mode: Literal["live", "shadow", "safe"] = "live"
    holdout: float = 0.0  #: share of the lists that are the baseline's, for comparison
    wait: str | float = "30m"  #: how long a list waits for clicks
    silence: Literal["no_click", "drop"] = "no_click"  #: what a list without feedback means when the wait is over
    #: refuse: the first feedback counts, at once; update: clicks are collected until the wait is over
    second_click: Literal["refuse", "update"] = "refuse"
    forget_items: str | float = "7d"  #: items that no call has offered for so long are forgotten
    seed: int = 0
    horizon: int | None = None  #: lists a policy may plan for, where known
    context: list[str] = []  #: of Personalizer's context features, those that tell queries apart
    keys: list[str] = []  #: hashes of the keys that open this ranker (``driftrank key`` makes them)


class RankerInfo(Struct, frozen=True):
    """A ranker as it is."""

    name: str
    settings: RankerSettings
    queries: int
    lists: int  #: ranked so far
    steps: int  #: learnt from so far
    clicks: int
    pending: int  #: lists that wait for clicks


class ItemState(Struct, frozen=True):
    """What is known of an item."""

    id: ItemId
    estimate: float | None  #: how attractive it is, as far as is known
    bonus: float | None  #: what the policy adds because it does not know better
    samples: float | None  #: how many looks the estimate rests on, after forgetting
    score: float | None
    last_offered: float  #: when a call last offered it, seconds since 1970
    last_change: int | None  #: the step at which a change was last detected on it


class QueryState(Struct, frozen=True):
    """What is known of a query."""

    ranker: str
    query: str
    policy: str
    steps: int  #: lists finalised so far
    lists: int  #: ranked so far
    clicks: int
    last_change: int | None  #: the step at which a change was last detected, on whatever item
    changes: int  #: changes detected so far
    items: list[ItemState]


class WarmRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A list of an old click log."""

    query: str
    ranking: list[ItemId | Item]
    clicks: list[int] = []  #: clicked positions, from 1
    time: float | None = None  #: seconds since 1970


class SavedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of an export."""

    query: str
    state: str  #: base64


class Counted(Struct, frozen=True):
    """How many rows or queries were taken in."""

    counted: int
    duplicates: int = 0


class Problem(Struct, frozen=True, omit_defaults=True):
    """What was wrong, as in RFC 9457."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


RANK = msgspec.json.Decoder(RankRequest | list[RankRequest])
FEEDBACK = msgspec.json.Decoder(Feedback | list[Feedback])
ENCODER = msgspec.json.Encoder()
