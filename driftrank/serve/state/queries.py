"""Queries: those in use in memory, all others in their snapshots only."""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

from driftrank.serve.log.store.base import Readable, Snapshot
from driftrank.serve.state.query import Query

_log = logging.getLogger("driftrank.serve")

#: a ranker and the name of a query
QueryKey = tuple[str, str]


#: dropped queries that are freed with every query that comes into memory: to free thousands at once takes too long
_FREED = 4


class _OfArm:
    """The queries of one arm in memory, least recently used first."""

    __slots__ = ("nbytes", "queries")

    def __init__(self) -> None:
        self.queries: OrderedDict[str, Query] = OrderedDict()
        self.nbytes = 0


class QueryTable:
    """The queries of all rankers. Those in memory are iterated least recently used first."""

    def __init__(self, store: Readable, loaded: Callable[[], None]) -> None:
        self._store = store
        self._loaded = loaded  # called when a query was read from its snapshot
        self._arms: defaultdict[str, _OfArm] = defaultdict(_OfArm)  # in memory, by the first part of their keys
        self._dropped: deque[OrderedDict[str, Query]] = deque()  # of arms that began again, to be freed
        self._uses = 0
        self.dirty: set[QueryKey] = set()  #: in memory, and newer than their snapshots
        self.deleted: set[QueryKey] = set()  #: their snapshots may still be stored

    @property
    def nbytes(self) -> int:
        """The size of those in memory."""
        return sum(its.nbytes for its in self._arms.values())

    def __len__(self) -> int:
        return sum(len(its.queries) for its in self._arms.values())

    def __iter__(self) -> Iterator[QueryKey]:
        arms = [self._in_order(arm) for arm in self._arms]
        return (key for _, key in (arms[0] if len(arms) == 1 else heapq.merge(*arms)))

    def _in_order(self, arm: str) -> Iterator[tuple[int, QueryKey]]:
        """The queries of an arm, with numbers of their last use."""
        return ((query.used, (arm, name)) for name, query in self._arms[arm].queries.items())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[0] in self._arms and key[1] in self._arms[key[0]].queries

    def __getitem__(self, key: QueryKey) -> Query:
        return self._arms[key[0]].queries[key[1]]

    def values(self) -> Iterable[Query]:
        return [self[key] for key in self]

    def _used(self, key: QueryKey) -> Query | None:
        """A query that is in memory, which is used now."""
        its = self._arms.get(key[0])
        found = None if its is None else its.queries.get(key[1])
        if its is not None and found is not None:
            its.queries.move_to_end(key[1])
            self._uses += 1
            found.used = self._uses
        return found

    def holds(self, key: QueryKey) -> bool:
        """True if the state of a query is known here: it is folded here, and not only where it is asked for."""
        return True

    def get(self, key: QueryKey, since: int) -> Query | None:
        """A query, from memory or from its snapshot. ``since``: the first record of the ranker's generation."""
        found = self._used(key)
        if found is not None:
            return found
        snapshot = self.stored(key, since)
        if snapshot is None:
            return None
        try:
            found = Query.from_bytes(snapshot.body)
        except ValueError as error:  # a version of the policy that is unknown here
            _log.error("query %r of ranker %s is reset: cannot use its snapshot: %s", key[1], key[0], error)
            return None
        self._loaded()
        self.put(key, found)
        return found

    def stored(self, key: QueryKey, since: int) -> Snapshot | None:
        """The snapshot of a query, if it has a valid one."""
        snapshot = None if key in self.deleted else self._store.get_snapshot(snapshot_name(*key))
        return None if snapshot is None or snapshot.seq < since else snapshot

    def put(self, key: QueryKey, query: Query) -> None:
        """Hold a query in memory, instead of the one before it."""
        its = self._arms[key[0]]
        before = its.queries.pop(key[1], None)
        its.nbytes += query.nbytes - (before.nbytes if before else 0)
        its.queries[key[1]] = query
        self._uses += 1
        query.used = self._uses
        self.free(_FREED)

    def replace(self, key: QueryKey, query: Query) -> None:
        """Put a query that differs from its snapshot."""
        self.put(key, query)
        self.dirty.add(key)

    def changed(self, key: QueryKey, query: Query, seq: int, nbytes: int) -> None:
        """Record that record ``seq`` changed a query, whose size was ``nbytes`` before."""
        query.seq = seq
        query.version += 1
        self.resized(key, query.nbytes - nbytes)
        self.dirty.add(key)

    def resized(self, key: QueryKey, more: int) -> None:
        """Count bytes by which a query in memory has grown."""
        self._arms[key[0]].nbytes += more

    def drop(self, key: QueryKey) -> None:
        """Remove a query from memory."""
        its = self._arms.get(key[0])
        query = None if its is None else its.queries.pop(key[1], None)
        if its is not None and query is not None:
            its.nbytes -= query.nbytes
        self.dirty.discard(key)

    def delete(self, key: QueryKey) -> None:
        self.drop(key)
        self.deleted.add(key)

    def drop_ranker(self, ranker: str) -> None:
        """Remove all queries of an arm from memory, which is freed little by little."""
        its = self._arms.pop(ranker, None)
        if its is not None and its.queries:
            self._dropped.append(its.queries)
            self.dirty = {key for key in self.dirty if key[0] != ranker}

    def free(self, most: int) -> bool:
        """Free some queries that were dropped; True if there are more."""
        for _ in range(most if self._dropped else 0):
            self._dropped[0].popitem()
            if not self._dropped[0]:
                self._dropped.popleft()
                if not self._dropped:
                    break
        return bool(self._dropped)

    def snapshots(self, keys: Iterable[QueryKey], seq: int) -> list[Snapshot]:
        """Those of the dirty ones among ``keys``, after record ``seq``; they are clean afterwards."""
        out = []
        for key in keys:
            if key in self and key in self.dirty:
                query = self[key]
                out.append(Snapshot(snapshot_name(*key), self._valid_until(query, seq), query.to_bytes()))
                self.dirty.discard(key)
                self.deleted.discard(key)
        return out

    def _valid_until(self, query: Query, seq: int) -> int:
        return query.seq


def snapshot_name(ranker: str, query: str) -> str:
    return f"q/{ranker}/{query}"
