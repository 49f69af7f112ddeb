"""One exchange with a shared store, in the writer thread: append, read what others wrote, and what was asked for."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from msgspec import DecodeError

from driftrank.serve.log.records import Activated, Clicked, Final, Ranked, Record, decode
from driftrank.serve.log.store.base import LogEntry, StoreError, StoreUnknown
from driftrank.serve.log.store.shared import Appended, Loaded, NewEntry, SharedStore, Wanted
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.state import State

#: seconds between looks whether the log was cut
_CHECK = 1.0
#: a ranker, the record that created it, and an event id
Event = tuple[str, int, str]


class UnknownRecord(StoreError):
    """The log has a record of a newer version."""


class Taken(NamedTuple):
    """The result of one exchange with the store."""

    appended: Appended | None
    others: list[tuple[int, Record]]  #: up to the base of the own entries; these too, if their outcome was in doubt
    impressions: list[Impression]  #: that the records of others are about
    found: list[Impression | None]
    loaded: list[Loaded]
    flushed: bool  #: all of it is durable


class LogExchange:
    """Reads and appends for a :class:`~driftrank.serve.sharing.follower.Follower`; the state is only read."""

    def __init__(self, store: SharedStore, state: State) -> None:
        self._store, self._state = store, state
        self._check_at = 0.0
        self.closing = False  #: what cannot be read is not tried again

    def exchange(self, entries: list[NewEntry], events: list[Event], wanted: list[Wanted], flush: bool) -> Taken:
        """Append entries, then read up to them; ``flush``: wait until all that was read is durable."""
        store, at = self._store, self._state.seq
        if monotonic() >= self._check_at:  # it may be cut without the loss of a connection
            self._check_at = monotonic() + _CHECK
            store.check_uncut()
        appended = store.append_entries(entries) if entries else None
        while True:
            try:
                others = self._of_others(at, appended)
                until = max([at, *(entry.seq for entry in others[-1:])])
                if appended is not None:
                    until = max([until, appended.base, *(seq for seq, new in appended.settled if new)])
                records = [(entry.seq, _decoded(entry)) for entry in others]
                impressions = self._impressions_of([record for _, record in records])
                found = self._state.impressions.fetch(events) if events else []
                loaded = store.load(wanted, until) if wanted else []
                if flush and appended is None:  # an append has waited for all before it
                    store.flush()
                return Taken(appended, records, impressions, found, loaded, flush or appended is not None)
            except StoreUnknown:
                if appended is None or self.closing:
                    raise
                # ours are in the log: they can be folded only after those before them

    def _of_others(self, at: int, appended: Appended | None) -> list[LogEntry]:
        if appended is None:
            return self._store.follow(at)
        out: list[LogEntry] = []
        while at < appended.base and (entries := self._store.follow(at, appended.base)):
            out += entries
            at = entries[-1].seq
        return out

    def _impressions_of(self, records: list[Record]) -> list[Impression]:
        """Those that records are about, and that are neither among them nor in memory."""
        rankers, impressions = self._state.rankers, self._state.impressions
        inside: set[tuple[str, str]] = set()
        missing: dict[Event, None] = {}
        for record in records:
            if isinstance(record, Ranked):
                inside.add((record.ranker, record.event_id))
            elif isinstance(record, Activated | Clicked | Final) and (record.ranker, record.event_id) not in inside:
                ranker = rankers.get(record.ranker)
                if ranker and impressions.cached(record.ranker, ranker.created, record.event_id) is None:
                    missing[record.ranker, ranker.created, record.event_id] = None
        return [found for found in impressions.fetch(list(missing)) if found is not None] if missing else []


def _decoded(entry: LogEntry) -> Record:
    try:
        record: Record = decode(entry.body)
        return record
    except DecodeError as error:
        raise UnknownRecord(f"record {entry.seq} is unknown to this version ({error}); update driftrank") from None
