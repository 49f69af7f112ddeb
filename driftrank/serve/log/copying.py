"""Copy a store into one that several services can use: entries keep their numbers, which ids contain."""

from __future__ import annotations

from typing import NamedTuple

from driftrank.progress import Progress, chosen_progress
from driftrank.serve.log.entries import entry_of
from driftrank.serve.log.records import Activated, Clicked, Final, Ranked, decode
from driftrank.serve.log.store.base import LogEntry, Store, open_reader, open_store, store_at
from driftrank.serve.log.store.shared import NewEntry, SharedStore

_CHUNK = 2_000
_LABEL = "log"


class Copied(NamedTuple):
    """The result of a copy."""

    entries: int
    snapshots: int


def copy_store(source: str, target: str, progress: bool | Progress | None = False) -> Copied:
    """Copy the log and the snapshots of a store that no service uses. A copy that was interrupted goes on.

    Raises ``ValueError`` if the source does not exist, if a service uses one of the stores, or if an entry of the
    target is another one than that of the source with the same number. ``progress``: None shows it on a terminal.
    """
    if not issubclass(store_at(target), SharedStore):
        raise ValueError(f"target={target!r}: must be a store of several services, such as postgresql://host/db")
    open_reader(source).close()  # it must exist; a store that is opened would be created
    with open_store(source) as old, open_store(target) as new:
        assert isinstance(new, SharedStore)
        for store in (old, new):
            if isinstance(store, SharedStore):
                store.check_unused()
        entries, place = 0, _Places()
        after = min((entry.seq for entry in old.read(0, 1)), default=1) - 1
        with chosen_progress(progress, {_LABEL: old.last - after}, "entries") as bar:
            while chunk := old.read(after, _CHUNK):
                new.restore([(entry.seq, place(entry)) for entry in chunk], after)
                bar.advance(_LABEL, chunk[-1].seq - after, len(chunk))
                entries, after = entries + len(chunk), chunk[-1].seq
        new.skip(old.last)
        return Copied(entries, _copy_snapshots(old, new))


def _copy_snapshots(old: Store, new: Store) -> int:
    copied, last = 0, ""
    while names := old.snapshot_names("", last, 100):
        last = names[-1]
        found = [old.get_snapshot(name) for name in names]
        intact = [snapshot for snapshot in found if snapshot is not None]
        new.put_snapshots(intact)
        copied += len(intact)
    return copied


class _Places:
    """Finds for every entry of a log the query and the impression that it is about."""

    def __init__(self) -> None:
        self._open: dict[int, Ranked] = {}  # impressions without an end, by number; only what is needed of them

    def __call__(self, entry: LogEntry) -> NewEntry:
        record = decode(entry.body)
        if isinstance(record, Ranked):
            slim = Ranked(record.ranker, record.query, record.event_id, record.time, 0, [], "", 0, arm=record.arm)
            self._open[entry.seq] = slim
        elif isinstance(record, Final | Clicked | Activated):
            impression = int(entry.id.split("/")[2])
            about = self._open.pop(impression, None) if isinstance(record, Final) else self._open.get(impression)
            return entry_of(entry.id, entry.body, record, about, impression)
        return entry_of(entry.id, entry.body, record)
