"""Benches of all backends."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.log.store.sqlite import SQLiteStore
from tests.postgres import Cluster


class SQLiteBench:
    """A store in a folder of its own."""

    def __init__(self, folder: Path, kind: type[SQLiteStore] = SQLiteStore) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "log.db"
        self.kind = kind

    def open(self, **settings: Any) -> SQLiteStore:
        return self.kind(self.path, **settings)

    def spoil(self, seq: int) -> None:
        self.run("UPDATE log SET body = body || ' ' WHERE seq = ?", seq)

    def spoil_snapshot(self, name: str) -> None:
        self.run("UPDATE snapshots SET body = CAST(body || ' ' AS BLOB) WHERE name = ?", name)

    def run(self, statement: str, *parameters: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement, parameters).fetchall()


class PostgresBench:
    """A store in a schema of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.url = cluster, cluster.url()
        self.schema = self.url.partition("schema=")[2]

    def open(self, **settings: Any) -> PostgresStore:
        return PostgresStore(self.url, **settings)

    def spoil(self, seq: int) -> None:
        self.cluster.run(f"UPDATE {self.schema}.log SET body = body || ' ' WHERE seq = %s", seq)

    def spoil_snapshot(self, name: str) -> None:
        self.cluster.run(f"UPDATE {self.schema}.snapshots SET body = body || ' ' WHERE name = %s", name.encode())


def sqlite_benches(folder: Path, kind: type[SQLiteStore] = SQLiteStore) -> Callable[[], SQLiteBench]:
    """A new bench every time."""
    numbers = itertools.count()

    def sqlite() -> SQLiteBench:
        return SQLiteBench(folder / str(next(numbers)), kind)

    return sqlite
