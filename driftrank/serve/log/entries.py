"""Entries of a log that several services share: the query, the arm and the impression that a record is about."""

from __future__ import annotations

from driftrank.serve.log.records import Imported, Ranked, Record, Reset, Warm
from driftrank.serve.log.store.shared import NewEntry, arm_key, query_key
from driftrank.serve.settings.ranker import OWN_ARMS


def owner_of(record: Ranked | Warm | Imported) -> str:
    """The name in tables and snapshots of the arm whose query a record changes."""
    return record.ranker if not record.arm or record.arm in OWN_ARMS else f"{record.ranker}@{record.arm}"


def entry_of(id: str, body: bytes, record: Record, about: Ranked | None = None, impression: int = 0) -> NewEntry:
    """The entry of a record; ``about``: of record ``impression``, if it is about another one."""
    if isinstance(record, Ranked | Warm | Imported):
        about = record  # type: ignore[assignment]
    if about is not None:
        name = f"q/{owner_of(about)}/{about.query}"
        return NewEntry(id, body, query_key(name), impression, record.time, arm_key(name))
    if isinstance(record, Reset) and record.query is not None:  # of all arms
        return NewEntry(id, body, query_key(f"q/{record.ranker}/{record.query}"), 0, record.time)
    return NewEntry(id, body, time=record.time)
