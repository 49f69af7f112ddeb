"""The state of queries, of their items and of their rankings."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .common import ItemId, Moment, Why
from .ranking import RankedItem


class ItemState(Struct, frozen=True, omit_defaults=True):
    """The state of an item."""

    id: ItemId  #: the caller's
    estimate: float | None  #: estimated attraction probability
    bonus: float | None  #: what the policy adds for exploration
    samples: float | None  #: observations behind the estimate, after forgetting
    score: float | None  #: the value by which the policy would order the items
    last_offered: Moment  #: when a call offered it last
    last_change: int | None  #: step of the last change detected on it
    #: the estimate that it would have without the observations of this query; this and the following only if the policy
    #: has a shared model, and the item was observed
    prior: float | None = None
    strength: float | None = None  #: the number of observations that the prior is worth
    place: int | None = None  #: where the caller had it when it was last shown
    #: what place, score, query, item, features, crosses (with the context) add to the logit of the prior
    because: dict[str, float] | None = None
    last_change_time: Moment | None = None  #: when that change was detected, if it is known
    #: the lower end of the interval of 95% of the estimate, by its samples and the prior; null if there are none, or
    #: the estimate is not a share of clicks
    low: float | None = None
    high: float | None = None  #: the upper end
    why: str | None = None  #: why it stands where it does among the items, in one sentence


class QueryState(Struct, frozen=True):
    """The state of a query."""

    ranker: str  #: its name
    query: str  #: as in a request
    policy: str  #: of the ranker
    steps: int  #: rankings learnt from so far
    lists: int  #: rankings so far
    clicks: int  #: clicks that were counted
    last_change: int | None  #: step of the last change detected, on any item
    changes: int  #: changes detected so far
    items: list[ItemState]  #: those of a page; by default best estimate first
    items_total: int = 0  #: of all pages
    last_change_time: Moment | UnsetType = UNSET  #: when the last change was detected, if there was one
    value: float | UnsetType = UNSET  #: the sum of the values of these clicks, if it is another number


class EventFeedback(Struct, frozen=True, omit_defaults=True):
    """The end of a ranking."""

    how: Literal["feedback", "silence", "dropped", "withdrawn"]  #: dropped: silence, which the ranker ignores
    time: Moment  #: when
    clicks: list[int]  #: clicked positions, from 1
    shown: int | None = None  #: items that were shown, from the top; all by default
    client_time: float | str | None = None  #: as sent with the feedback
    #: by position, what events are worth, if not all are clicks; those drawn to be learnt from are in clicks
    values: dict[int, float] = {}


class GivenItem(Struct, frozen=True, omit_defaults=True):
    """An item that was shown, as the request described it to the policy."""

    place: int | None = None  #: in the caller's order, from 1
    score: float | None = None  #: the caller's, less the mean of the request and over its deviation
    vector: list[float] = []  #: its features, if they are a vector
    named: int = 0  #: the number of its named features; the log has only hashes of them


class EventState(Struct, frozen=True, omit_defaults=True):
    """All that is known of a ranking."""

    event_id: str  #: its id
    ranker: str  #: its name
    query: str  #: as in the request
    number: int  #: of its record in the log
    time: Moment  #: when it was ranked
    arm: str  #: live, shadow, safe or holdout
    #: open: the feedback window is open. inactive: deferred, not activated. collected: there are clicks, the window is
    #: open. counted: learnt from. holdout: not learnt from. forgotten: its ranker or query was reset since.
    #: withdrawn: taken back. dropped: no feedback, which the ranker ignores.
    outcome: Literal["open", "inactive", "collected", "counted", "holdout", "forgotten", "withdrawn", "dropped"]
    learnt: bool  #: it is in the state of its query
    step: int  #: rankings of the query that were learnt from, plus one
    items: list[RankedItem]  #: those to show, best first
    candidates: list[ItemId] | None  #: in the order of the baseline; null: no longer in the log, or not recorded
    draw: str  #: the key of its randomness, hexadecimal; the same key and state give the same ranking
    policy: str | None = None  #: that made it; left out if the ranker has begun again since
    deferred: bool = False  #: nothing is learnt before it is activated
    window_opened: Moment | None = None  #: when its feedback window began
    window_closes: Moment | None = None  #: when its feedback window ends, if it is open
    collected: list[int] = []  #: positions of the clicks so far, if the window is open
    feedback: EventFeedback | None = None  #: its end; left out if the window is open
    reasons: list[str] = []  #: why each item is where it is, in a sentence with the numbers at that time
    given: list[GivenItem] = []  #: what the request said of each item; empty if the policy does not use it
    context: int = 0  #: the number of features of the request; the log has only hashes of them
    subject: str | None = None  #: a hash of the subject, hexadecimal, if one was given
    offset: int = 0  #: positions above this page
    repeats: int = 0  #: the record of the list of the same subject that was shown again; 0: none


class ChangeLogged(Struct, frozen=True, omit_defaults=True):
    """A change of users that a policy has detected."""

    number: int  #: ascending with time, not consecutive; changes of a query that is reset are removed
    time: Moment  #: of the ranking with which it was detected
    query: str  #: as in a request
    step: int  #: of the query
    item: ItemId | None = None  #: the item that changed; left out: no particular one
    everything: bool = False  #: all items of the query begin again, not only this one
    #: the estimate of the item before: smoothed over some hundred rankings, of the query's own observations. Left out
    #: if the item was not shown often enough.
    before: float | None = None
    after: float | None = None  #: its estimate then; left out if the policy has no observation of the new time yet


class EndedLists(Struct, frozen=True):
    """Rankings of a query that have ended, and their clicks."""

    lists: int  #: rankings
    clicks: int  #: clicks on them


class QuerySummary(Struct, frozen=True, omit_defaults=True):
    """The traffic of a query."""

    query: str  #: as in a request
    since: Moment  #: from when on it is counted
    lists: int  #: rankings since then
    recent: int  #: rankings of the last day with traffic, plus half of those before for each day: for the sorting
    live: EndedLists  #: of the policy, in the modes live and safe
    holdout: EndedLists  #: of the baseline
    loss: float | None = None  #: clicks per ranking of the holdout minus those of the policy, if both have any
    loss_error: float | None = None  #: the standard error of the loss
    changes: int = 0  #: of the latest changes of the ranker, those of this query
    last_change_time: Moment | None = None  #: of the latest of them


class ListSummary(Struct, frozen=True, omit_defaults=True):
    """A list of a query."""

    event_id: str  #: its id
    time: Moment  #: when it was made
    arm: str  #: its arm
    items: list[ItemId]  #: that were shown, from the top
    why: list[Why]  #: the reason for each
    clicks: list[int] | None = None  #: clicked positions, from 1; null: it has not ended
    how: Literal["feedback", "silence", "dropped", "withdrawn"] | None = None  #: how it ended


class ItemLists(Struct, frozen=True):
    """An item in the latest lists of a query: a number for each of the parts."""

    id: ItemId  #: the caller's
    shown: list[int]  #: lists that showed it
    clicked: list[int]  #: those of them in which it was clicked


class QueryLists(Struct, frozen=True):
    """The latest lists of a query, at most 64, of the busiest queries."""

    ranker: str  #: its name
    query: str  #: as in a request
    lists: list[ListSummary]  #: latest first
    times: list[Moment]  #: the first list of each part: the lists of the query in order, in parts of equal number
    items: list[ItemLists]  #: those shown most often, at most 100
