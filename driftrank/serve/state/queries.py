"""Queries: those in use in memory, all others in their snapshots only."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from driftrank.serve.log.store.base import Readable, Snapshot
from driftrank.serve.state.query import Query

_log = logging.getLogger("driftrank.serve")

#: a ranker and the name of a query
QueryKey = tuple[str, str]


class QueryTable:
    """The queries of all rankers. Those in memory are iterated least recently used first."""

    def __init__(self, store: Readable, loaded: Callable[[], None]) -> None:
        self._store = store
        self._loaded = loaded  # called when a query was read from its snapshot
        self._in_memory: OrderedDict[QueryKey, Query] = OrderedDict()
        self.nbytes = 0  #: of those in memory
        self.dirty: set[QueryKey] = set()  #: in memory, and newer than their snapshots
        self.deleted: set[QueryKey] = set()  #: their snapshots may still be stored

    def __len__(self) -> int:
        return len(self._in_memory)

    def __iter__(self) -> Iterator[QueryKey]:
        return iter(self._in_memory)

    def __contains__(self, key: object) -> bool:
        return key in self._in_memory

    def __getitem__(self, key: QueryKey) -> Query:
        return self._in_memory[key]

    def values(self) -> Iterable[Query]:
        return self._in_memory.values()

    def holds(self, key: QueryKey) -> bool:
        """True if the state of a query is known here: it is folded here, and not only where it is asked for."""
        return True

    def get(self, key: QueryKey, since: int) -> Query | None:
        """A query, from memory or from its snapshot. ``since``: the first record of the ranker's generation."""
        found = self._in_memory.get(key)
        if found is not None:
            self._in_memory.move_to_end(key)
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
        before = self._in_memory.pop(key, None)
        self.nbytes += query.nbytes - (before.nbytes if before else 0)
        self._in_memory[key] = query

    def replace(self, key: QueryKey, query: Query) -> None:
        """Put a query that differs from its snapshot."""
        self.put(key, query)
        self.dirty.add(key)

    def changed(self, key: QueryKey, query: Query, seq: int, nbytes: int) -> None:
        """Record that record ``seq`` changed a query, whose size was ``nbytes`` before."""
        query.seq = seq
        query.version += 1
        self.nbytes += query.nbytes - nbytes
        self.dirty.add(key)

    def drop(self, key: QueryKey) -> None:
        """Remove a query from memory."""
        query = self._in_memory.pop(key, None)
        if query is not None:
            self.nbytes -= query.nbytes
        self.dirty.discard(key)

    def delete(self, key: QueryKey) -> None:
        self.drop(key)
        self.deleted.add(key)

    def drop_ranker(self, ranker: str) -> None:
        for key in [key for key in self._in_memory if key[0] == ranker]:
            self.drop(key)

    def snapshots(self, keys: Iterable[QueryKey], seq: int) -> list[Snapshot]:
        """Those of the dirty ones among ``keys``, after record ``seq``; they are clean afterwards."""
        out = []
        for key in keys:
            query = self._in_memory.get(key)
            if query is not None and key in self.dirty:
                out.append(Snapshot(snapshot_name(*key), self._valid_until(query, seq), query.to_bytes()))
                self.dirty.discard(key)
                self.deleted.discard(key)
        return out

    def _valid_until(self, query: Query, seq: int) -> int:
        return query.seq


def snapshot_name(ranker: str, query: str) -> str:
    return f"q/{ranker}/{query}"
