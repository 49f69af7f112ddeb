"""Load a query of a shared log: its snapshot, and the records after it, folded as they were where it was held."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from driftrank.policies.base import EarlierState
from driftrank.serve.log.records import Activated, Clicked, Final, Record, decode
from driftrank.serve.log.store.base import LogEntry, Snapshot
from driftrank.serve.log.store.shared import Loaded
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import Change
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.query import Query
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import UNCOUNTED, State

_log = logging.getLogger("driftrank.serve")


class EmptyStore:
    """A store with nothing in it: all that the records are about is among them."""

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        return []

    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]:
        return {}

    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]:
        return []

    def get_snapshot(self, name: str) -> Snapshot | None:
        return None


def load_query(ranker: Ranker, arm: Arm, name: str, loaded: Loaded) -> tuple[Query | None, list[Change]]:
    """The query of an arm as it is after the last of its entries, None if it does not exist; and the changes of users
    that these entries show.

    Each record is folded by :class:`State` itself, with the settings that the ranker had then. Entries up to the
    snapshot are there for their impressions only.
    """
    state = State(EmptyStore(), UNCOUNTED, HeldQueries)
    state.replaying = True
    assert isinstance(state.queries, HeldQueries)
    state.rankers[ranker.name] = then = ranker.for_query()
    key, after = (arm.owner, name), loaded.snapshot.seq if loaded.snapshot else arm.since
    for entry in loaded.entries:
        record = decode(entry.body)
        if not _is_about(state, record, name):  # another query whose key is the same by chance
            continue
        if entry.seq > after and not state.queries.holds(key):
            state.queries.install(key, _saved(key, loaded.snapshot))
        then.go_back(entry.seq, ranker)
        state.apply(entry.seq, record)
    if not state.queries.holds(key):
        return _saved(key, loaded.snapshot), []
    return state.queries.get(key, 0), [change for _, change in state.found]


def _is_about(state: State, record: Record, name: str) -> bool:
    if isinstance(record, Activated | Clicked | Final):
        ranker = state.rankers.get(record.ranker)
        impression = None if ranker is None else state.cached_impression(ranker, record.event_id)
        return impression is not None
    return getattr(record, "query", None) == name and record.ranker in state.rankers


def _saved(key: tuple[str, str], snapshot: Snapshot | None) -> Query | None:
    """Raises ``ValueError`` if it cannot be used: it may be that of a later version, which others can."""
    if snapshot is None or not snapshot.body:
        return None
    try:
        return Query.from_bytes(snapshot.body, only_known=True)
    except EarlierState as error:
        _log.error("query %r of ranker %s is reset: cannot use its snapshot: %s", key[1], key[0], error)
        return None
