"""Connections to PostgreSQL: opened again after a loss, and the meaning of its errors."""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from driftrank.extras import need
from driftrank.serve.log.store.base import StoreError, StoreFull, StoreReadOnly, StoreUnknown

if TYPE_CHECKING:
    from psycopg import Connection, Error

T = TypeVar("T")

#: states in which the same statement may succeed later, perhaps on another host: the server is shutting down, has
#: crashed, is starting, or is a standby. "OperationalError" alone is also that of an index row that is too large.
_LATER = {"57P01", "57P02", "57P03", "25006", "08000", "08001", "08003", "08004", "08006", "08P01"}
#: in errors of connections that will not be accepted later either
_HOPELESS = re.compile(
    "authentication failed|does not exist|no pg_hba.conf entry|no password supplied|invalid (port number|.* value)"
)
#: of connections, unless the address says otherwise: a dead host is noticed in seconds
_DEFAULTS = {
    "connect_timeout": "3", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "2",
    "tcp_user_timeout": "8000", "target_session_attrs": "read-write", "application_name": "driftrank",
}  # fmt: skip
_SCHEMA = "driftrank"

# the driver warns of what it cannot undo on a connection that was lost or interrupted, which is closed here anyway
logging.getLogger("psycopg").setLevel(logging.ERROR)


class Address:
    """The address of a store: ``postgresql://user@host,host/database?schema=name``.

    >>> address = Address("postgresql://me:secret@a,b:5433/shop?schema=test")
    >>> address.schema, str(address)
    ('test', 'postgresql://me@a,b:5433/shop?schema=test')
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            example = "postgresql://user@host/database?schema=name"  # not the address: it may have a password
            raise ValueError(f"store: must be an address such as {example} ({error})") from None
        if re.search(r"\s|%(?![0-9A-Fa-f]{2})", parts.netloc):  # the database's own error would show the password
            raise ValueError("store: must have special characters of user and password as %XX, such as %25 for %")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.schema = options.pop("schema", _SCHEMA)
        if not self.schema or len(self.schema.encode()) > 63 or "\0" in self.schema or self.schema.startswith("pg_"):
            raise ValueError(f"schema={self.schema!r}: must be the name of a schema, of at most 63 bytes")
        user, at, hosts = parts.netloc.rpartition("@")
        self._shown = f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}?schema={self.schema}"
        self.conninfo = urlunsplit(parts._replace(query=urlencode(_DEFAULTS | options), fragment=""))

    def __str__(self) -> str:
        """Without the password."""
        return self._shown

    @property
    def quoted(self) -> str:
        """The schema, for statements; also where they are formatted with parameters."""
        return '"' + self.schema.replace('"', '""').replace("%", "%%") + '"'


class Link:
    """A connection, used by one thread at a time.

    Parameters
    ----------
    address
        The database.
    patience
        Seconds for which work is tried again after the connection was lost.
    connected
        Called with every new connection.
    """

    def __init__(
        self, address: Address, patience: float, connected: Callable[[Connection[Any]], None] = lambda connection: None
    ) -> None:
        need("postgres", "psycopg")
        self.address = address
        self.lost = 0  #: connections
        self._patience = patience
        self._connected = connected
        self._connection: Connection[Any] | None = None
        self._lock = threading.RLock()
        self._closing = threading.Lock()  # of the connection, which another thread may cut
        self._since = math.inf  # when the call in progress began
        self._closed = threading.Event()
        self._hurried = False
        self._unreplicated = False

    def run(self, work: Callable[[Connection[Any]], T]) -> T:
        """Call ``work`` with the connection, again after a loss. Raises :class:`StoreUnknown` if that lasts."""
        with self._lock:
            if self._closed.is_set():
                raise StoreError(f"{self.address}: the store is closed")
            self._since = time.monotonic()
            try:
                return self._persist(work)
            finally:
                self._since = math.inf

    def _persist(self, work: Callable[[Connection[Any]], T]) -> T:
        import psycopg

        end, pause = time.monotonic() + self._patience, 0.02
        while True:
            try:
                if self._connection is None:
                    self._connect()
                assert self._connection is not None
                self._unreplicated = False
                result = work(self._connection)
                if self._unreplicated:
                    raise psycopg.OperationalError("the wait for the standby was cancelled")
                return result
            except psycopg.Error as error:
                if not (self._unreplicated or self._is_lost(error)):
                    raise self._meaning(error) from error
                self.lost += 1
                self._disconnect()
                if time.monotonic() + pause > end or self._closed.wait(pause):
                    if self._hurried:
                        self._closed.set()
                    raise StoreUnknown(f"{self.address}: cannot be reached: {_line(error)}") from error
            except BaseException:
                self._disconnect()  # in the middle of something
                raise
            pause = min(0.5, 2 * pause)

    def hurry(self, seconds: float) -> None:
        """From now on wait no longer than this for an answer; after the first call that does, all fail."""
        if not self._hurried:
            self._hurried, self._patience = True, min(seconds, self._patience)
            threading.Thread(target=self._give_up, args=(seconds,), daemon=True).start()

    def _give_up(self, seconds: float) -> None:
        import psycopg

        while not self._closed.wait(0.1):
            if time.monotonic() - self._since > seconds:
                self._closed.set()
                with self._closing, suppress(OSError, psycopg.Error):
                    if self._connection is not None:  # whoever waits for it notices
                        with socket.socket(fileno=os.dup(self._connection.fileno())) as its:
                            its.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._disconnect()

    def _connect(self) -> None:
        import psycopg

        connection = psycopg.connect(self.address.conninfo, autocommit=True)
        self._connection = connection
        try:
            connection.prepare_threshold = 1
            connection.add_notice_handler(self._notice)
            self._connected(connection)
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        with self._closing:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _notice(self, diagnostic: Any) -> None:
        """A wait for a standby that was cancelled is answered as a success; the standby may not have it."""
        if diagnostic.sqlstate == "01000" and "synchronous replication" in (diagnostic.message_primary or ""):
            self._unreplicated = True

    def _is_lost(self, error: Error) -> bool:
        import psycopg

        if self._connection is None:  # it could not be opened
            return isinstance(error, psycopg.OperationalError) and not _hopeless(error)
        return self._connection.closed or self._connection.broken or error.sqlstate in _LATER

    def _meaning(self, error: Error) -> StoreError:
        text = f"{self.address}: {_line(error)}"
        if error.sqlstate in ("53100", "53200"):
            return StoreFull(f"{self.address}: the disk or the memory of the database is full")
        if error.sqlstate in ("42501", "25006"):
            return StoreReadOnly(text)
        return StoreError(text)


def _hopeless(error: Error) -> bool:
    """True if a connection will not be accepted later either."""
    return _HOPELESS.search(str(error)) is not None


def _line(error: Error) -> str:
    """Without the statement, if it is an error of one."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
