"""A store in one SQLite file, without a database server."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from driftrank.serve.log.store.base import (
    DURABILITIES,
    LAST,
    Damage,
    LogEntry,
    Snapshot,
    Store,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    fault_of_entry,
)
from driftrank.serve.log.store.lock import FileLock
from driftrank.serve.log.store.sqlite_file import (
    check,
    checksum,
    connect,
    create,
    intact,
    is_damage,
    store_error,
    value,
)
from driftrank.serve.log.store.sqlite_reader import SQLiteReader, intact_entries
from driftrank.serve.log.store.sqlite_rescue import rebuild
from driftrank.serve.log.store.sqlite_statements import (
    MAX_ROWS,
    SELECT_AFTER,
    SELECT_LAST,
    capacity,
    delete_snapshots,
    end_of_prefix,
    insert_entries,
    padded,
    parts,
    select_by_id,
    select_by_number,
    upsert_snapshots,
)
from driftrank.serve.log.store.sqlite_wal import WalMover
from driftrank.validation import check_choice

#: snapshots of one statement at most: a compiled statement keeps its last parameters in memory
_MAX_SNAPSHOTS = 256

#: rows read at once when checking the log
_CHUNK = 10_000

#: pages returned to the file system after one call of ``forget``
_VACUUM_PAGES = 20_000


class SQLiteStore(Store):
    """A log in an SQLite file in WAL mode, in which readers never wait for the writer.

    Parameters
    ----------
    path
        The file; created if it does not exist. ``<path>.lock`` is locked: one service per file.
    durability
        ``full`` (``synchronous=FULL``) or ``relaxed`` (``NORMAL``).
    timeout
        Seconds to wait for another program that is writing to the file.

    Notes
    -----
    The write-ahead log is moved into the file beside the writer, and begins again from 16 MB on. A long read
    transaction of another program delays that, and the write-ahead log grows; from 64 MB on the store waits a moment
    for readers, and truncates it when none is active.

    Ascending ids, as the service generates them, are the cheapest: every entry with a random id changes another page of
    the index, which takes about five times the CPU from some 100,000 entries on.
    """

    scheme: ClassVar[str] = "sqlite"
    wal_limit: ClassVar[int] = 64 << 20  #: bytes of the write-ahead log from which on to wait for readers

    def __init__(self, path: str | os.PathLike[str], *, durability: str = "full", timeout: float = 5.0) -> None:
        check_choice("durability", durability, DURABILITIES)
        self.path = Path(os.path.realpath(path))  # one lock per file, whatever links lead to it
        self.damage: list[Damage] = []
        self.last = 0
        self._durability = durability
        self._timeout = timeout
        self._wait_at = self.wal_limit
        self._unsettled = False
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._lock: FileLock | None = FileLock(self.path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, *, durability: str) -> Self:
        return cls(cls._path(url), durability=durability)

    @classmethod
    def reader(cls, url: str) -> SQLiteReader:
        return SQLiteReader(cls._path(url))

    @classmethod
    def _path(cls, url: str) -> str:
        path = url.removeprefix(f"{cls.scheme}:///")
        if path == url or not path:
            raise ValueError(f"store={url!r}: must be {cls.scheme}:///relative/path or {cls.scheme}:////absolute/path")
        return path

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        if not entries:
            return []
        with self._writing, self._errors():
            if self._unsettled:
                raise StoreError(f"{self.path}: the last entries could not be read back; restart the service")
            self._check_in_place()
            rows: list[Any] = []
            seq, size = self.last, 0
            for seq, (id, body) in enumerate(entries, self.last + 1):
                rows += (seq, id, checksum(seq, id.encode(), body), body.decode())
                size += len(body)
            if self._insert(insert_entries, rows) == len(entries):
                settled = [(seq, True) for seq in range(self.last + 1, seq + 1)]
                self.last = seq
            else:
                self._unsettled = True  # until their numbers are known: some may be in the log
                settled = self._settle([id for id, _ in entries])
                self._unsettled = False
            self._bound_wal(size)
        return settled

    def _settle(self, ids: list[str]) -> list[tuple[int, bool]]:
        """Find the numbers of all ids, including those that were in the log before."""
        seqs = {bytes(id).decode(): seq for seq, id in self._by_id(self._writer, "seq, id", ids)}
        if len(seqs) < len(set(ids)):
            raise StoreError(f"{self.path}: another program has written to the log")
        settled = [(seqs[id], seqs[id] == seq) for seq, id in enumerate(ids, self.last + 1)]
        self.last = max([self.last, *(seq for seq, new in settled if new)])
        return settled

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), *, before: int = LAST) -> None:
        rows: list[Any] = []
        for name, seq, body in snapshots:
            rows += (name, seq, checksum(seq, name.encode(), body), body)
        with self._writing, self._errors():
            self._check_in_place()
            with self._transaction() if gone else contextlib.nullcontext():  # one statement is atomic by itself
                for names in parts(gone):
                    self._writer.execute(delete_snapshots(capacity(len(names))), [*padded(names, 1), before])
                self._insert(upsert_snapshots, rows, _MAX_SNAPSHOTS)
            self._bound_wal(sum(len(body) for _, _, body in snapshots))

    def forget(self, before: int, limit: int = 10_000) -> int:
        with self._writing, self._errors():
            oldest = "SELECT max(seq) FROM (SELECT seq FROM log WHERE seq < ? ORDER BY seq LIMIT ?)"
            highest = value(self._writer, oldest, before, limit)
            if highest is None:
                return 0
            with self._transaction():
                self._remember_last()
                dropped = self._writer.execute("DELETE FROM log WHERE seq <= ?", (highest,)).rowcount
            self._vacuum()
            return dropped

    def _insert(self, statement: Callable[[int], str], rows: list[Any], most: int = MAX_ROWS) -> int:
        """Insert rows of four columns, ``most`` in a statement; return how many were inserted.

        After a call of SQLite a thread must reacquire the interpreter lock, for which it waits up to 5 ms beside a busy
        event loop. ``executemany`` waits for every row. One statement for all rows waits once, and is atomic.
        Median ms of a commit of n entries of 470 bytes, beside a thread that runs Python code all the time:

                                            n = 1    30    300    3000
            executemany in a transaction       16    33    230     439
            one statement with json_each      5.5   5.7    7.5      36
            one statement with n VALUES       5.7   5.8    7.4      27

        and without such a thread 0.2, 0.4, 2.4, 20 for the last (json_each 0.3, 0.7, 3.0, 28). Statements are compiled
        for powers of two, and filled up with rows of NULL, which ``OR IGNORE`` skips.
        """
        if not rows:
            return 0
        width = 4 * most
        if len(rows) <= width:
            return self._writer.execute(statement(capacity(len(rows) // 4)), padded(rows, 4)).rowcount
        with self._transaction():
            return sum(self._insert(statement, rows[at : at + width], most) for at in range(0, len(rows), width))

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        with self._reading, self._errors():
            rows = self._rows(after, limit)
        return intact_entries(rows, self.path)

    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]:
        with self._reading, self._errors():
            rows = list(self._by_id(self._reader, "seq, id, crc, body", ids))
        return {entry.id: entry for row in rows for entry in intact_entries([row], self.path)}

    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]:
        rows: list[Any] = []
        try:
            with self._reading, self._errors():
                for part in parts(sorted(set(seqs))):
                    rows += self._reader.execute(select_by_number(capacity(len(part))), padded(part, 1)).fetchall()
        except StoreDamaged:
            return [entry for seq in sorted(set(seqs)) for entry in self.numbered([seq])] if len(seqs) > 1 else []
        return [LogEntry(seq, id.decode(), body) for seq, id, crc, body in rows if intact(seq, id, crc, body)]

    def get_snapshot(self, name: str) -> Snapshot | None:
        query = "SELECT seq, crc, body FROM snapshots WHERE name = ?"
        try:
            with self._reading, self._errors():
                row = self._reader.execute(query, (name,)).fetchone()
        except StoreDamaged as error:
            row = (0, None, None)
            reason = str(error)
        else:
            reason = "its checksum is wrong"
        if row is None:
            return None
        seq, crc, body = row
        if intact(seq, name.encode(), crc, body):
            return Snapshot(name, seq, body)
        if all(damage.snapshot != name for damage in self.damage):
            self.damage.append(Damage(seq, 0, reason, snapshot=name))
        return None

    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        # a range of the index: a condition on prefixes would scan all names
        start, comparison = (prefix, ">=") if prefix > after else (after, ">")
        query = f"SELECT name FROM snapshots WHERE name {comparison} ? AND name < ? ORDER BY name LIMIT ?"
        with self._reading, self._errors():
            rows = self._reader.execute(query, (start, end_of_prefix(prefix), limit)).fetchall()
        return [name.decode() for (name,) in rows]

    def size(self) -> int:
        return sum(_size(Path(path)) for path in self._parts)

    def _rows(self, after: int, limit: int) -> list[Any]:
        return self._reader.execute(SELECT_AFTER, (after, limit)).fetchall()

    def _by_id(self, connection: sqlite3.Connection, columns: str, ids: Sequence[str]) -> Iterator[Any]:
        for part in parts(ids):
            yield from connection.execute(select_by_id(columns, capacity(len(part))), padded(part, 1)).fetchall()

    # -- damage --------------------------------------------------------------------------------------------------------

    def verify(self, after: int) -> Damage | None:
        with self._writing, self._reading, self._errors():
            try:
                damage = self._verify(after)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                damage = self._rebuild(str(error))
        if damage:
            self.damage.append(damage)
        return damage

    def _verify(self, after: int) -> Damage | None:
        while rows := self._rows(after, _CHUNK):
            for row in rows:
                if reason := _fault(*row):
                    return self._cut(row[0], reason)
            after = rows[-1][0]
        return None

    def _cut(self, seq: int, reason: str) -> Damage:
        columns = "datetime('now'), ?, seq, id, crc, body"
        with self._transaction():
            self._remember_last()
            self._writer.execute(f"INSERT INTO damaged SELECT {columns} FROM log WHERE seq >= ?", (reason, seq))
            entries = self._writer.execute("DELETE FROM log WHERE seq >= ?", (seq,)).rowcount
        return Damage(seq, entries, reason, kept=f"the table damaged of {self.path}")

    def _rebuild(self, reason: str) -> Damage:
        self._disconnect()
        damage = rebuild(self.path, self._timeout, reason, _fault)
        self._broken.unlink(missing_ok=True)
        self._connect()
        return damage

    @property
    def _broken(self) -> Path:
        """A marker file, created when SQLite finds the file damaged while in use: the next start rebuilds it."""
        return Path(f"{self.path}.broken")

    # -- the file ------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self.path.exists() and not os.access(self.path, os.W_OK):
            # SQLite would create read-only files beside it, which cause failures once it is writable again
            raise StoreReadOnly(f"{self.path}: cannot be written to")
        with self._errors():
            try:
                if self._broken.exists():
                    raise _Broken
                self._connect()
            except (_Broken, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.Error) and not is_damage(error):
                    raise
                self.damage.append(self._rebuild(str(error)))

    def _connect(self) -> None:
        self._writer = writer = connect(self.path, self._timeout)
        if check(writer, self.path):
            create(writer)
        if value(writer, "PRAGMA journal_mode=WAL") != b"wal":  # pragma: no cover - no such file system available
            raise StoreError(f"{self.path}: its file system cannot share memory, which SQLite's WAL mode needs")
        writer.execute(f"PRAGMA synchronous={'FULL' if self._durability == 'full' else 'NORMAL'}")
        writer.execute("PRAGMA cache_size=-65536")  # KiB: the index of ids should fit
        writer.execute("PRAGMA wal_autocheckpoint=0")  # the mover does it
        writer.execute(f"PRAGMA journal_size_limit={self.wal_limit}")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE meta SET value = value")  # fails if it is not writable
        writer.execute("ROLLBACK")
        self.last = max(self.last, value(writer, SELECT_LAST))
        self._reader = reader = connect(self.path, self._timeout)
        reader.execute("PRAGMA cache_size=-16384")
        reader.execute("PRAGMA query_only=ON")
        self._mover = WalMover(self.path, self._timeout, self._writing)
        self._files = [_identity(path) for path in self._parts]

    @property
    def _parts(self) -> list[str]:
        return [f"{self.path}{part}" for part in ("", "-wal")]

    def _check_in_place(self) -> None:
        """Raise if a file was removed, moved or replaced: SQLite would go on writing to it, and nobody find that."""
        for path, file in zip(self._parts, self._files, strict=True):
            if _identity(path) != file:
                raise StoreError(f"{path}: was removed or replaced while in use; put it back, or restart the service")

    def _disconnect(self) -> None:
        mover: WalMover | None = getattr(self, "_mover", None)
        if mover is not None:
            mover.close()
        for name in ("_reader", "_writer"):  # the last to close moves the write-ahead log into the file
            connection: sqlite3.Connection | None = getattr(self, name, None)
            if connection is not None:
                connection.close()

    def close(self) -> None:
        with self._writing, self._reading:
            if self._lock is not None:
                self._disconnect()
                self._lock.release()
                self._lock = None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        if self._lock is None:
            raise StoreError(f"{self.path}: the store is closed")
        try:
            yield
        except sqlite3.Error as error:
            if is_damage(error):
                with contextlib.suppress(OSError):
                    self._broken.touch()
            raise store_error(error, self.path) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, or a part of the enclosing one."""
        if self._writer.in_transaction:
            yield
            return
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite itself rolls back after some errors
                self._writer.execute("ROLLBACK")
            raise

    def _remember_last(self) -> None:
        """Keep the numbers of deleted entries from being assigned again."""
        self._writer.execute("UPDATE meta SET value = ? WHERE name = 'last'", (self.last,))

    def _vacuum(self) -> None:
        """Return free pages to the file system."""
        with contextlib.suppress(sqlite3.Error):  # not needed for the caller's result
            self._writer.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")  # execute would do one page
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _bound_wal(self, written: int) -> None:
        """Have the write-ahead log moved into the file; if it is long all the same, because readers prevent it, wait a
        moment for them and truncate it.
        """
        self._mover.written(written)
        wal = Path(f"{self.path}-wal")
        if _size(wal) <= self._wait_at:
            return
        self._writer.execute("PRAGMA busy_timeout=100")
        with contextlib.suppress(sqlite3.Error):  # the data is durable already
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._writer.execute(f"PRAGMA busy_timeout={round(self._timeout * 1000)}")
        self._wait_at = max(self.wal_limit, _size(wal) + self.wal_limit // 4)


class _Broken(Exception):
    def __str__(self) -> str:
        return "SQLite found it damaged while in use"


def _fault(seq: Any, id: Any, crc: Any, body: Any) -> str | None:
    return fault_of_entry(body, intact=intact(seq, id, crc, body))


def _identity(path: str) -> tuple[int, int] | None:
    """The device and number of a file, which another one at its path does not have; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
