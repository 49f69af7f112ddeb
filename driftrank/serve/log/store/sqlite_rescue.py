"""Rebuild a damaged SQLite file from all that can be read, and keep the old one aside."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from driftrank.serve.log.store.base import Damage, StoreDamaged, StoreLocked
from driftrank.serve.log.store.sqlite_file import connect, create, intact, value

#: returns the fault of a row (seq, id, crc, body) of the log, if it has one
Fault = Callable[[Any, Any, Any, Any], str | None]

_CHUNK = 1000


def rebuild(path: Path, timeout: float, reason: str, fault: Fault) -> Damage:
    """Rebuild the file from the readable entries, in order up to the first damaged one, and all readable snapshots.

    The old one stays in place until the new one is complete, so that a kill loses nothing.
    """
    fresh = Path(f"{path}.rebuilding")
    for leftover in (fresh, Path(f"{fresh}-journal")):
        leftover.unlink(missing_ok=True)
    with contextlib.closing(connect(path, timeout)) as old:
        _empty_wal(old, path)
        with contextlib.closing(connect(fresh, timeout)) as new:
            create(new)
            highest = _copy(old, new, fault)
            good = value(new, "SELECT coalesce(max(seq), 0) FROM log")
            nothing = good == 0 and value(new, "SELECT count(*) FROM snapshots") == 0
        lost = _lost(old, good, highest)
    if nothing and highest != 0:
        fresh.unlink()
        raise StoreDamaged(f"{path}: is damaged ({reason}), and nothing in it can be read; it is left unchanged")
    aside = _aside(path)
    wal = Path(f"{path}-wal")
    if wal.exists():  # another program has the old file open; the new one must not share this with it
        wal.rename(f"{aside}-wal")
    _swap(path, aside, fresh)
    return Damage(good + 1, lost, reason, kept=str(aside))


def _empty_wal(old: sqlite3.Connection, path: Path) -> None:
    """Move the last commits from the write-ahead log into the file."""
    try:
        busy = old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.DatabaseError:
        return
    if busy:
        raise StoreLocked(f"{path}: is damaged and must be rebuilt, but is locked by another program")


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, fault: Fault) -> int | None:
    """Copy all that can be read; return the highest number in the old log, if it can be read."""
    new.execute("BEGIN")
    for chunk in _chunks(_entries(old, fault)):
        new.executemany("INSERT INTO log VALUES (?, CAST(? AS TEXT), ?, CAST(? AS TEXT))", chunk)
    for order in ("ASC", "DESC"):  # snapshots are independent: read from both ends
        rows = _readable(old, f"SELECT name, seq, crc, body FROM snapshots ORDER BY rowid {order}")
        for chunk in _chunks(row for row in rows if intact(row[1], row[0], row[2], row[3])):
            new.executemany("INSERT OR IGNORE INTO snapshots VALUES (CAST(? AS TEXT), ?, ?, ?)", chunk)
    highest = _perhaps(old, "SELECT coalesce(max(seq), 0) FROM log")
    given = _perhaps(old, "SELECT value FROM meta WHERE name = 'last'") or 0
    covered = value(new, "SELECT coalesce(max(seq), 0) FROM snapshots")  # these numbers must not be assigned again
    copied = value(new, "SELECT coalesce(max(seq), 0) FROM log")
    new.execute("UPDATE meta SET value = ? WHERE name = 'last'", (max(highest or 0, given, covered, copied),))
    new.execute("COMMIT")
    return highest


def _entries(old: sqlite3.Connection, fault: Fault) -> Iterator[tuple[Any, ...]]:
    for row in _readable(old, "SELECT seq, id, crc, body FROM log ORDER BY seq"):
        if fault(*row):
            return
        yield row


def _readable(old: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, until SQLite cannot read any further."""
    with contextlib.suppress(sqlite3.DatabaseError):
        yield from old.execute(query)


def _chunks(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    rows = iter(rows)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk


def _perhaps(old: sqlite3.Connection, query: str) -> int | None:
    try:
        row = old.execute(query).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row[0] if row and isinstance(row[0], int) else None


def _lost(old: sqlite3.Connection, good: int, highest: int | None) -> int | None:
    """The number of entries after the last good one, or an upper bound if they cannot be counted."""
    if highest is None:
        return None
    counted = _perhaps(old, f"SELECT count(*) FROM log NOT INDEXED WHERE seq > {good}")
    return max(0, highest - good) if counted is None else counted


def _aside(path: Path) -> Path:
    """An unused name."""
    stem = f"{path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (Path(stem if n == 0 else f"{stem}-{n}") for n in range(1000))
    return next(name for name in names if not name.exists())


def _swap(path: Path, aside: Path, fresh: Path) -> None:
    """Replace the old file by the new one; there is a file at every moment."""
    try:
        os.link(path, aside)
    except OSError:  # a file system without links
        os.rename(path, aside)
    shutil.copymode(aside, fresh)
    os.replace(fresh, path)
    Path(f"{path}-shm").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # Windows cannot open folders
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
