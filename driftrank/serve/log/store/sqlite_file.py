"""The SQLite file: its layout, how it is opened, and the meaning of SQLite's errors."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Any

from driftrank.serve.log.store.base import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
)

#: the version of the layout, to be incremented when an older driftrank could not use it
FORMAT = 1

_APPLICATION = 0x6472_6B31  # identifies our files in the SQLite header

_SCHEMA = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "CREATE TABLE log(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL, body TEXT NOT NULL)",
    "CREATE TABLE snapshots(name TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " body BLOB NOT NULL)",
    "CREATE TABLE damaged(time TEXT NOT NULL, reason TEXT NOT NULL, seq INTEGER, id TEXT, crc INTEGER, body TEXT)",
    f"INSERT INTO meta VALUES ('format', {FORMAT}), ('last', 0)",
)

_PIECE = 4096


def checksum(seq: int, name: bytes, body: bytes) -> int:
    """The CRC-32 of an entry or a snapshot."""
    crc = zlib.crc32(b"%d %b\n" % (seq, name))
    if len(body) <= _PIECE:
        return zlib.crc32(body, crc)
    # in pieces, for which zlib keeps the interpreter lock: a busy event loop returns it only after milliseconds
    view = memoryview(body)
    for start in range(0, len(body), _PIECE):
        crc = zlib.crc32(view[start : start + _PIECE], crc)
    return crc


def intact(seq: Any, name: Any, crc: Any, body: Any) -> bool:
    """True if a row is as it was written."""
    return isinstance(name, bytes) and isinstance(body, bytes) and crc == checksum(seq, name, body)


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection in autocommit mode that returns texts as bytes.

    A new file is for its owner only, since it contains what users have searched for; SQLite gives its other files the
    same mode.
    """
    with contextlib.suppress(OSError):  # it exists, or SQLite reports why it cannot be created
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes  # a damaged text need not be UTF-8
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty file."""
    connection.execute("PRAGMA page_size=4096")
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("BEGIN EXCLUSIVE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute("COMMIT")


def check(connection: sqlite3.Connection, path: Path) -> bool:
    """True if the file is empty; raises ``StoreError`` if it is not a usable store. Writes nothing."""
    application = value(connection, "PRAGMA application_id")
    if application == 0 and value(connection, "SELECT count(*) FROM sqlite_master") == 0:
        return True
    if application != _APPLICATION:
        raise StoreError(f"{path}: is an SQLite file, but not a store of driftrank")
    found = value(connection, "SELECT coalesce(max(value), 0) FROM meta WHERE name = 'format'")
    if found > FORMAT:
        raise StoreTooNew(
            f"{path}: was written by a newer driftrank (format {found}; this one reads {FORMAT}); update driftrank"
        )
    return False


def value(connection: sqlite3.Connection, query: str, *parameters: Any) -> Any:
    """The single value of a query's result."""
    return connection.execute(query, parameters).fetchone()[0]


def is_damage(error: sqlite3.Error) -> bool:
    """True if SQLite found the file damaged."""
    return _code(error) == sqlite3.SQLITE_CORRUPT


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of SQLite's."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(f"{path}: the disk is full")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"{path}: is locked by another program")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreReadOnly(f"{path}: cannot be written to")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreDamaged(f"{path}: is damaged ({error}); it is rebuilt when the service is started again")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path}: is not an SQLite file")
    return StoreError(f"{path}: {error}")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended code
