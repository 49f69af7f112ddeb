from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from driftrank.serve.log.store.base import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreReadOnly
from driftrank.serve.log.store.sqlite_file import is_damage, store_error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreFull),  # no space for the shared-memory file
        (sqlite3.SQLITE_BUSY, StoreLocked),
        (sqlite3.SQLITE_BUSY_RECOVERY, StoreLocked),
        (sqlite3.SQLITE_LOCKED, StoreLocked),
        (sqlite3.SQLITE_READONLY, StoreReadOnly),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly),
        (sqlite3.SQLITE_CORRUPT, StoreDamaged),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreDamaged),
        (sqlite3.SQLITE_NOTADB, StoreError),
        (sqlite3.SQLITE_IOERR_WRITE, StoreError),
        (sqlite3.SQLITE_CANTOPEN, StoreError),
        (None, StoreError),  # raised by Python itself
    ],
)
def test_the_meaning_of_errors(code, kind):
    error = sqlite3.OperationalError("words of SQLite")
    if code is not None:
        error.sqlite_errorcode = code
    said = store_error(error, Path("a.db"))
    assert type(said) is kind
    assert str(said).startswith("a.db: ")
    assert is_damage(error) == (kind is StoreDamaged)
