"""Scans of a log: its lists in groups with sums of each, in this process, or file by file on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from driftrank.logs.count.by_file import map_files, tables_by_file
from driftrank.logs.log import Log

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from driftrank.engine.cluster.cluster import Cluster

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Groups:
    """Rows in groups, and what is counted of each. Those of the files of a log add up to those of the whole."""

    select: str  #: the SQL of the rows; the view ``log_rows`` has the lists of the log, with ``file`` and ``row``
    keys: tuple[str, ...]
    counts: Mapping[str, str]  #: by name: an aggregate, count, sum, min or max

    @property
    def sql(self) -> str:
        return _grouped(self.keys, self.counts, f"({self.select})")

    def merged(self, relation: str) -> str:
        """The SQL that merges groups of several files."""
        kinds = {name: text if (text := count[:3]) in ("min", "max") else "sum" for name, count in self.counts.items()}
        return _grouped(self.keys, {name: f"{kind}({name})" for name, kind in kinds.items()}, relation)


def _grouped(keys: tuple[str, ...], counts: Mapping[str, str], relation: str) -> str:
    columns = [*keys, *(f"{count} AS {name}" for name, count in counts.items())]
    return f"SELECT {', '.join(columns)} FROM {relation}" + (f" GROUP BY {', '.join(keys)}" if keys else "")


class Scan(AbstractContextManager["Scan"]):
    """Statements over a log.

    Parameters
    ----------
    cluster
        An open cluster, whose workers scan a file each; None: this process scans them all.

    Attributes
    ----------
    connection
        Of this process, with the view ``log_rows`` and the tables that were added; it reads the whole log.
    """

    def __init__(self, log: Log, cluster: Cluster | None = None) -> None:
        self.log, self.cluster = log, cluster
        self._tables: dict[str, pa.Table] = {}
        self.connection = _opened(log, {})

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def add(self, name: str, table: pa.Table) -> None:
        """Give later statements a table."""
        self._tables[name] = table
        _create(self.connection, name, table)

    @contextmanager
    def grouped(self, select: str, keys: tuple[str, ...], counts: Mapping[str, str]) -> Iterator[str]:
        """Groups of rows as a SQL relation for :attr:`connection`; see :class:`Groups`."""
        groups = Groups(select, keys, counts)
        if self.cluster is None:
            yield f"({groups.sql})"
        else:
            with tables_by_file(self.log, _groups_of, (groups, self._tables), self.cluster) as relation:
                yield f"({groups.merged(relation)})"

    def call(
        self, function: Callable[[duckdb.DuckDBPyConnection, Argument], Result], argument: Argument
    ) -> list[Result]:
        """Call a function with a connection that reads the whole log, or with one for each of its files."""
        if self.cluster is None:
            return [function(self.connection, argument)]
        found = dict(map_files(self.log, _called, (function, argument, self._tables), self.cluster))
        return [found[i] for i in sorted(found)]


def _opened(log: Log, tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    connection = log.connect()
    connection.execute("SET preserve_insertion_order = false")  # less memory
    connection.execute(f"CREATE VIEW log_rows AS SELECT * FROM {log.numbered}")
    for name, table in tables.items():
        _create(connection, name, table)
    return connection


def _create(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("given_table", table)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given_table")
    connection.unregister("given_table")


def _groups_of(part: Log, task: tuple[Groups, Mapping[str, pa.Table]]) -> pa.Table:
    """On a worker."""
    groups, tables = task
    with _opened(part, tables) as connection:
        return connection.sql(groups.sql).to_arrow_table()


def _called(part: Log, task: tuple[Callable[[Any, Any], Any], Any, Mapping[str, pa.Table]]) -> Any:
    """On a worker."""
    function, argument, tables = task
    with _opened(part, tables) as connection:
        return function(connection, argument)
