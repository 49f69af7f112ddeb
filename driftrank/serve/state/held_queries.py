"""Queries of a service that shares its log: those that it holds, in memory. All others are folded when asked for."""

from __future__ import annotations

from collections import OrderedDict

from driftrank.serve.log.store.base import Snapshot
from driftrank.serve.state.queries import QueryKey, QueryTable
from driftrank.serve.state.query import Query

#: queries that are known not to exist, at most
_MOST_ABSENT = 100_000


class HeldQueries(QueryTable):
    """Queries in memory, and those known not to exist. Never reads the store by itself.

    A snapshot is valid up to the record that was folded last, whichever query that was about: the service has folded
    every record of the queries that it holds.
    """

    _absent: OrderedDict[QueryKey, None]
    broken: dict[QueryKey, str]  #: could not be folded; why

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._absent = OrderedDict()
        self.broken = {}

    def holds(self, key: QueryKey) -> bool:
        return key in self or key in self._absent

    def get(self, key: QueryKey, since: int) -> Query | None:
        return self._used(key)

    def stored(self, key: QueryKey, since: int) -> Snapshot | None:
        snapshot = super().stored(key, since)
        return snapshot if snapshot is not None and snapshot.body else None

    def install(self, key: QueryKey, query: Query | None) -> None:
        """Hold a query that was loaded; None: it does not exist."""
        if query is None:
            self._miss(key)
        else:
            self._loaded()
            self.put(key, query)

    def put(self, key: QueryKey, query: Query) -> None:
        self._absent.pop(key, None)
        super().put(key, query)

    def delete(self, key: QueryKey) -> None:
        self.drop(key)
        self._miss(key)

    def fail(self, key: QueryKey, reason: str) -> None:
        """Hold a query no more: one of its records cannot be folded."""
        self.drop(key)
        self._absent.pop(key, None)
        self.broken[key] = reason

    def clear(self) -> None:
        """Hold nothing."""
        for arm in list(self._arms):
            self.drop_ranker(arm)
        self._absent.clear()
        self.broken.clear()

    def _miss(self, key: QueryKey) -> None:
        self._absent[key] = None
        if len(self._absent) > _MOST_ABSENT:
            self._absent.popitem(last=False)

    def _valid_until(self, query: Query, seq: int) -> int:
        return seq
