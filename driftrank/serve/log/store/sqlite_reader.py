"""The log of an SQLite file, read beside the service that writes it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from driftrank.serve.log.store.base import LogEntry, LogReader, Snapshot, StoreDamaged
from driftrank.serve.log.store.sqlite_file import check, intact, store_error, value
from driftrank.serve.log.store.sqlite_statements import SELECT_AFTER, SELECT_LAST, end_of_prefix

#: seconds to wait for a service that is recovering its write-ahead log
_TIMEOUT = 5.0


class SQLiteReader(LogReader):
    """A connection that cannot write. Each call is a read transaction of its own, so that the write-ahead log of a
    running service can be moved into the file in between.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        if not self.path.is_file():
            raise ValueError(f"store={os.fspath(path)!r}: must be the file of a store; no such file")
        with self._errors():
            uri = f"{self.path.as_uri()}?mode=ro"
            self._connection = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)
        self._connection.text_factory = bytes
        try:
            with self._errors():
                self._empty = check(self._connection, self.path)
                self.last = 0 if self._empty else value(self._connection, SELECT_LAST)
        except BaseException:
            self.close()
            raise

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        return intact_entries(self._rows(SELECT_AFTER, after, limit), self.path)

    def next_id(self, after: str) -> str | None:
        rows = self._rows("SELECT id FROM log WHERE id > ? ORDER BY id LIMIT 1", after)
        return rows[0][0].decode() if rows else None

    def get_snapshot(self, name: str) -> Snapshot | None:
        for seq, crc, body in self._rows("SELECT seq, crc, body FROM snapshots WHERE name = ?", name):
            if intact(seq, name.encode(), crc, body):
                return Snapshot(name, seq, body)
        return None

    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        query = "SELECT name FROM snapshots WHERE name > ? AND name >= ? AND name < ? ORDER BY name LIMIT ?"
        return [name.decode() for (name,) in self._rows(query, after, prefix, end_of_prefix(prefix), limit)]

    def close(self) -> None:
        self._connection.close()

    def _rows(self, query: str, *parameters: Any) -> list[Any]:
        if self._empty:
            return []
        with self._errors():
            return self._connection.execute(query, parameters).fetchall()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error


def intact_entries(rows: Sequence[Any], path: Path) -> list[LogEntry]:
    """The entries up to the first damaged one; raises :class:`StoreDamaged` if that is the first."""
    entries: list[LogEntry] = []
    for seq, id, crc, body in rows:
        if not intact(seq, id, crc, body):
            if entries:
                break
            raise StoreDamaged(f"{path}: entry {seq} of the log is damaged")
        entries.append(LogEntry(seq, id.decode(), body))
    return entries
