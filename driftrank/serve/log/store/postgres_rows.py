"""Rows of the PostgreSQL store: their ids, and whether they are as they were written."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from driftrank.serve.log.store.base import LogEntry, StoreDamaged

#: bytes of an id; the index takes 2,704, and the id of a thousand clicks has 3,942
_LONGEST_ID = 1024


def stored_id(id: str) -> bytes:
    """An id as the index takes it."""
    raw = id.encode()
    if len(raw) <= _LONGEST_ID:
        return raw
    digest = blake2b(raw, digest_size=16).hexdigest()
    return raw[: _LONGEST_ID - len(digest) - 2].decode(errors="ignore").encode() + f"~#{digest}".encode()


def checksum(name: bytes, body: bytes) -> int:
    """The CRC-32 of an entry or a snapshot, signed."""
    return zlib.crc32(body, zlib.crc32(name + b"\n")) - 2**31


def intact_entries(rows: Sequence[Any], address: object) -> list[LogEntry]:
    """The entries up to the first damaged one; raises :class:`StoreDamaged` if that is the first."""
    entries: list[LogEntry] = []
    for seq, id, crc, body in rows:
        if crc != checksum(id, body):
            if entries:
                break
            raise StoreDamaged(f"{address}: entry {seq} of the log is damaged")
        entries.append(LogEntry(seq, id.decode(), body))
    return entries


def end_of_prefix(prefix: bytes) -> bytes | None:
    """The first bytes after all that begin with ``prefix``; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def stored_names(rows: Callable[..., list[Any]], prefix: str, after: str, limit: int) -> list[str]:
    """The first names of snapshots that begin with ``prefix`` and come after ``after``; ``rows`` runs a query."""
    # bytes of UTF-8 sort as code points do
    first, end = prefix.encode(), end_of_prefix(prefix.encode())
    query = (
        "SELECT name FROM {schema}.snapshots WHERE name >= %(first)b AND name > %(after)b"
        " AND (%(end)b::bytea IS NULL OR name < %(end)b) ORDER BY name LIMIT %(limit)s"
    )
    return [name.decode() for (name,) in rows(query, first=first, after=after.encode(), end=end, limit=limit)]
