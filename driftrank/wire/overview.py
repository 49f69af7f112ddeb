"""All rankers and the service at a glance."""

from __future__ import annotations

from msgspec import Struct

from .common import Moment
from .experiment import Comparison


class Clickedness(Struct, frozen=True, omit_defaults=True):
    """Lists that have ended, and their clicks."""

    lists: int  #: with feedback, or silence that counts as no click
    clicked: int  #: those of them with a click
    clicks: int  #: on these
    share: float | None = None  #: of lists with a click


class ArmOverview(Struct, frozen=True):
    """An arm of late."""

    arm: str  #: its name
    hour: Clickedness  #: the last 60 minutes
    day: Clickedness  #: the last 24 hours


class RankerOverview(Struct, frozen=True, omit_defaults=True):
    """A ranker of late."""

    ranker: str  #: its name
    policy: str  #: its description
    lists_hour: int  #: made in the last 60 minutes
    lists_day: int  #: made in the last 24 hours
    arms: list[ArmOverview]  #: with lists in the last 24 hours
    comparisons: list[Comparison]  #: of the experiment, that are running
    changes_day: int  #: changes of users that were detected in the last 24 hours
    pending: int  #: rankings whose feedback window is open
    explored: float | None = None  #: the share of the lists of the last 24 hours with an item that was explored


class NodeOverview(Struct, frozen=True):
    """A service that uses the same store."""

    node: str  #: its name
    url: str  #: at which it listens
    record: int  #: the last record of the log that it has taken in
    seconds: float  #: since it said so
    keeper: bool  #: it ends feedback windows, takes checkpoints and forgets old records


class RecentRequests(Struct, frozen=True, omit_defaults=True):
    """The requests of the last minutes, without updates of live pages."""

    seconds: float  #: the length of the time: five minutes, or less after a start
    requests: int  #: answered
    errors: int  #: those of them with a status of 500 or above
    rank_p50: float | None = None  #: seconds within which half of the rank requests were answered
    rank_p99: float | None = None  #: seconds within which 99% of them were


class ServiceOverview(Struct, frozen=True, omit_defaults=True):
    """The service that answers, since it was started."""

    version: str  #: of driftrank
    requests: int  #: answered
    errors: int  #: those of them with a status of 500 or above
    store_bytes: int | None  #: the size of the store; null if it cannot be read
    state_bytes: int  #: memory of learners
    memory_bytes: int | None = None  #: memory of the process, where it can be read
    rank_p50: float | None = None  #: seconds within which half of the rank requests were answered
    rank_p99: float | None = None  #: seconds within which 99% of them were
    problem: str | None = None  #: the reason why nothing can be written at the moment
    nodes: list[NodeOverview] = []  #: all services on the same store, if several can use it
    recent: RecentRequests | None = None  #: the last five minutes


class Overview(Struct, frozen=True, omit_defaults=True):
    """The rankers that a key has access to, at a glance."""

    time: Moment  #: of the server
    rankers: list[RankerOverview]  #: by name
    service: ServiceOverview | None = None  #: only with a key that has access to all rankers
