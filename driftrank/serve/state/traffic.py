"""The traffic of a ranker by query: a table of the busiest, part of the state, so that operators can find them.

It is folded from the records of impressions and their ends alone, in whole numbers, and does not depend on the states
of the queries.
"""

from __future__ import annotations

from msgspec import Struct, field

#: queries that stay in the table when it has twice as many, and impressions of each that are remembered
KEPT, LATEST = 1_000, 64
_DAY = 86_400


class ArmTraffic(Struct, array_like=True):
    """The impressions of an arm that have ended."""

    lists: int = 0
    clicks: int = 0
    squares: int = 0  #: of the clicks of each impression, for the error of their mean

    def count(self, clicks: int) -> None:
        self.lists += 1
        self.clicks += clicks
        self.squares += clicks * clicks


class QueryTraffic(Struct, array_like=True):
    """The traffic of a query. The order of the fields is a promise."""

    since: int  #: the record from which on it is counted
    begun: float  #: the time of that record
    day: int  #: of the last impression, since 1970
    recent: int  #: impressions of that day, plus half of those before for each day
    impressions: int
    ranked: ArmTraffic  #: those of the policy
    holdout: ArmTraffic
    #: the records of its latest impressions, ascending, 8 bytes each
    latest: bytearray = field(default_factory=bytearray)

    def remember(self, seq: int) -> None:
        self.latest += seq.to_bytes(8, "little")
        if len(self.latest) > 8 * LATEST:
            del self.latest[:8]

    def records(self) -> list[int]:
        """The records of its latest impressions, ascending."""
        return [int.from_bytes(self.latest[at : at + 8], "little") for at in range(0, len(self.latest), 8)]

    def recent_at(self, day: int) -> int:
        return self.recent >> min(63, max(0, day - self.day))


class Traffic:
    """The traffic of the queries of a ranker. Changed only by folding records."""

    def __init__(self, queries: dict[str, QueryTraffic] | None = None) -> None:
        self.queries: dict[str, QueryTraffic] = {} if queries is None else queries

    def ranked(self, seq: int, query: str, time: float) -> None:
        """Count an impression."""
        day = int(time // _DAY)
        found = self.queries.get(query)
        if found is None:
            found = self.queries[query] = QueryTraffic(seq, time, day, 1, 1, ArmTraffic(), ArmTraffic())
            found.remember(seq)
            if len(self.queries) > 2 * KEPT:
                self._drop_quiet(day)
            return
        if day > found.day:
            found.recent, found.day = found.recent_at(day), day
        found.recent += 1
        found.remember(seq)
        found.impressions += 1

    def ended(self, impression: int, query: str, arm: str, clicks: int) -> None:
        """Count the clicks of an impression, by its record; in shadow mode there is nothing to compare."""
        found = self.queries.get(query)
        if found is not None and impression >= found.since and arm != "shadow":
            (found.holdout if arm == "holdout" else found.ranked).count(clicks)

    def forget(self, query: str) -> None:
        """Begin again with a query that was reset or deleted."""
        self.queries.pop(query, None)

    def _drop_quiet(self, day: int) -> None:
        """Keep the busiest; of equal ones those that came last."""
        names = sorted(self.queries, key=lambda name: self.queries[name].recent_at(day))
        for name in names[:-KEPT]:
            del self.queries[name]
