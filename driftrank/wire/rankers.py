"""Rankers: their settings, operations on them, and their counts."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .common import Moment


class ArmSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An arm of an experiment: what differs from the settings of its ranker. It learns from its own lists only."""

    share: float  #: of rankings; 0: none, but what it has learnt is kept
    policy: str | None = None  #: None: the ranker's
    mode: Literal["live", "shadow", "safe"] | None = None  #: None: the ranker's
    seed: int | None = None  #: None: the ranker's
    horizon: int | None = None  #: None: the ranker's


class RankerSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a ranker. Durations: seconds, or strings such as "30m", "24h", "7d"."""

    policy: str | None = None  #: as on the command line, such as "CascadeSWUCB:window=24h"; None: the default policy
    k: int = 10  #: positions of a ranking
    #: shadow: serve the baseline, and learn; safe: swap neighbours of the baseline
    mode: Literal["live", "shadow", "safe"] = "live"
    holdout: float = 0.0  #: share of rankings that are the baseline's, for comparison
    wait: str | float = "30m"  #: the feedback window: how long clicks of a ranking are accepted
    silence: Literal["no_click", "drop"] = "no_click"  #: the meaning of no feedback within the window
    #: refuse: the first feedback counts, at once; update: clicks are collected until the end of the window
    second_click: Literal["refuse", "update"] = "refuse"
    forget_items: str | float = "7d"  #: items that were not offered for this long are forgotten
    seed: int = 0  #: of the randomness
    horizon: int | None = None  #: rankings that a policy may plan for, if known
    context: list[str] = []  #: Personalizer's context features that identify a query
    keys: list[str] = []  #: hashes of keys with access to this ranker (from ``driftrank key``)
    #: by name: policies or settings to be compared with the ranker's own; none by default
    arms: dict[str, ArmSettings] | UnsetType = UNSET
    values: dict[str, float] | UnsetType = UNSET  #: what a kind of event is worth, from 0 to 1: purchase, dwell
    #: how long a subject gets the same list again for a query and candidates; 0, the default: not at all
    stable: str | float | UnsetType = UNSET
    #: rankings of an experiment after which its intervals are narrowest, to be set beforehand; 20,000 by default
    planned: int | UnsetType = UNSET
    #: temperature of a softmax by rank through which lists are shown, so that their probabilities are known; 0, the
    #: default: lists are shown as they are ranked
    explore: float | UnsetType = UNSET


OperationKind = Literal["created", "changed", "reset", "deleted"]


class OperationLogged(Struct, frozen=True, omit_defaults=True):
    """An operation on a ranker: a change of its settings, or of what it has learnt."""

    number: int  #: of its record in the log; undo takes it
    time: Moment  #: UTC, as all times in answers
    ranker: str  #: its name
    kind: OperationKind  #: what was done
    by: str  #: "settings" at a start, "key " and the first digits of its hash, or "no key"
    query: str | None = None  #: if it was about one query
    before: RankerSettings | None = None  #: the settings before it
    after: RankerSettings | None = None  #: the settings after it
    discarded: int | None = None  #: rankings learnt from that it discarded
    undoes: int | None = None  #: the number of the operation that it has undone
    created: int = 0  #: the number of the operation that created the ranker


class SharedState(Struct, frozen=True):
    """The shared model of a ranker: what all its queries have learnt together."""

    #: of the model in use: place, score, query, item, features, crosses; the simplest model that explains clicks
    columns: list[str]
    strength: float  #: the number of observations that the prior of an item is worth
    going_on: float  #: the probability that a user goes on after an item without a click
    after_click: float  #: the probability that a user goes on after a click
    places: dict[int, float]  #: attraction by place in the caller's order, without other columns
    bytes: int  #: of memory


class Explored(Struct, frozen=True):
    """The price of the setting explore, for lists with many candidates: how often they are shown as ranked."""

    first: float  #: the probability that the first place is as ranked
    whole: float  #: that all k places are


class RankerInfo(Struct, frozen=True, omit_defaults=True):
    """A ranker: its settings and counts."""

    name: str  #: of the ranker
    settings: RankerSettings  #: in use, with the policy's name
    queries: int  #: with a state
    lists: int  #: rankings so far
    steps: int  #: rankings learnt from so far
    clicks: int  #: clicks that were counted
    pending: int  #: rankings whose feedback window is open
    shared: SharedState | None = None  #: if the policy has a shared model
    value: float | None = None  #: the sum of the values of these clicks, if it is another number
    explored: Explored | None = None  #: if the setting explore is not 0
    notes: list[str] = []  #: consequences of the settings that are easily overlooked
