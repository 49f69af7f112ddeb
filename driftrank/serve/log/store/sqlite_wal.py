"""The write-ahead log of an SQLite file, moved into the file beside the writer."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

from driftrank.serve.log.store.sqlite_file import connect

#: bytes of entries and snapshots after which the log is moved; the pages that they change are about four times as many
_MOVE = 2 << 20
#: pages (of 4 KiB) from which on the log begins again
_LONG = 4_000
#: pages that are moved while the writer waits: two flushes of the disk and little else
_FEW = 250
#: attempts to have only a few pages left, and seconds to wait for the writer, who may be the one that closes
_ATTEMPTS, _PATIENCE = 5, 0.1


class WalMover:
    """Moves the write-ahead log into its file, in a thread with a connection of its own.

    SQLite itself does so at the end of the commit that makes the log too long, and every request waits for that one: 19
    to 34 ms in memory, where the longest commit takes 8 to 10 ms with this. Beside the writer the log is moved without
    a lock. Only to begin again at the start of the log, all of it must be moved: the last few pages are, while the
    writer waits.
    """

    def __init__(self, path: Path, timeout: float, writing: Any) -> None:
        self._path, self._timeout, self._writing = path, timeout, writing
        self._bytes = 0
        self._due, self._closing = threading.Event(), False
        self._thread: threading.Thread | None = None

    def written(self, nbytes: int) -> None:
        """Count bytes that were written; called by the writer."""
        self._bytes += nbytes
        if self._bytes < _MOVE:
            return
        self._bytes = 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="driftrank-wal", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        if self._thread is not None:
            self._due.set()
            self._thread.join()

    def _run(self) -> None:
        connection = connect(self._path, self._timeout)
        try:
            while not self._closing:
                self._due.wait()
                self._due.clear()
                with contextlib.suppress(sqlite3.Error):  # the writer meets the same error, and reports it
                    self._move(connection)
        finally:
            connection.close()

    def _move(self, connection: sqlite3.Connection) -> None:
        for _ in range(_ATTEMPTS):
            if self._closing:
                return
            pages, moved = _moved(connection)
            if pages < _LONG:
                return
            if pages - moved <= _FEW and self._writing.acquire(timeout=_PATIENCE):
                try:
                    _moved(connection)
                finally:
                    self._writing.release()
                return


def _moved(connection: sqlite3.Connection) -> tuple[int, int]:
    """Move what can be moved without waiting; the pages of the log, and how many of them are moved."""
    _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return pages, moved
