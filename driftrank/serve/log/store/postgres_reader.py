"""The log of a PostgreSQL store, read beside the services that write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftrank.serve.log.store.base import LAST, LogEntry, LogReader, Snapshot, StoreError
from driftrank.serve.log.store.postgres_connection import Address, Link
from driftrank.serve.log.store.postgres_rows import checksum, intact_entries, stored_names
from driftrank.serve.log.store.postgres_schema import SELECT_AFTER, SELECT_LAST

if TYPE_CHECKING:
    from psycopg import Connection


#: states if a schema or a table does not exist
_NO_STORE = ("3F000", "42P01")


class PostgresReader(LogReader):
    """A connection that reads the log beside the services that write it. Each call is a transaction of its own."""

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        self._link = Link(self._address, 5.0, _read_only)
        try:
            self.last = int(self._rows(SELECT_LAST)[0][0])
        except StoreError as error:
            self.close()
            if getattr(error.__cause__, "sqlstate", None) in _NO_STORE:
                raise ValueError(f"store={str(self._address)!r}: must be a store; it does not exist") from None
            raise

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        return intact_entries(self._rows(SELECT_AFTER, after=after, until=LAST, limit=limit), self._address)

    def next_id(self, after: str) -> str | None:
        rows = self._rows("SELECT id FROM {schema}.log WHERE id > %(after)b ORDER BY id LIMIT 1", after=after.encode())
        return rows[0][0].decode() if rows else None

    def get_snapshot(self, name: str) -> Snapshot | None:
        query = "SELECT seq, crc, body FROM {schema}.snapshots WHERE name = %(name)b"
        for seq, crc, body in self._rows(query, name=name.encode()):
            if crc == checksum(name.encode(), body):
                return Snapshot(name, seq, body)
        return None

    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return stored_names(self._rows, prefix, after, limit)

    def close(self) -> None:
        self._link.close()

    def _rows(self, query: str, **parameters: Any) -> list[Any]:
        statement: Any = query.replace("{schema}", self._address.quoted)
        return self._link.run(lambda connection: connection.execute(statement, parameters, binary=True).fetchall())


def _read_only(connection: Connection[Any]) -> None:
    connection.read_only = True
