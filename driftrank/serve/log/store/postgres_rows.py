"""Rows of the PostgreSQL store: their ids, and whether they are as they were written."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
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
