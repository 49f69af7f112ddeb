"""Sufficient statistics of a click log: counted in SQL, merged, and saved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
from driftrank.files import written
from driftrank.logs.count.aggregation_sql import COLUMNS, KEYS, aggregation, coarser
from driftrank.logs.count.by_file import tables_by_file
from driftrank.logs.count.item_codes import list_counts, position_counts
from driftrank.logs.log import Log, duckdb_connection
from driftrank.logs.schema import literal
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_choice

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from driftrank.engine.cluster.cluster import Cluster


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics for click models. Those of the parts of a log add up to those of the whole (:func:`merge`).

    Attributes
    ----------
    kind
        ``"ratios"``: views and clicks of items, by query; for CM, DCM and simplified DBN. ``"positions"``: also by rank
        and rank of the click above; for PBM and UBM as well. ``"lists"``: numbers of lists by ranking and clicks; for
        all models.
    table
        An Arrow table with the columns of that kind (:data:`driftrank.logs.count.aggregation_sql.COLUMNS`), in any
        order. Counts and files are sorted: they do not depend on how a log was counted.

    Examples
    --------
    >>> import duckdb, pathlib, tempfile
    >>> from driftrank.logs import open_log
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT 'tea' AS query, 7 AS time, [3, 1] AS ranking, [2] AS clicks) TO '{path}'")
    >>> statistics = aggregate(open_log(path), "positions")
    >>> statistics.table.sort_by("rank").to_pylist()[1]
    {'query': 'tea', 'item': 1, 'rank': 2, 'previous': 0, 'views': 1, 'clicks': 1, 'examined': 1, 'last_clicks': 1}
    >>> merge([statistics, statistics]).counts().clicks.tolist()
    [2, 0]
    """

    kind: str
    table: pa.Table

    @property
    def lists(self) -> int:
        """The number of non-empty lists; not defined for ratios."""
        import pyarrow.compute as pc

        check_choice("kind", self.kind, ("positions", "lists"))
        if self.kind == "lists":
            return pc.sum(self.table["lists"]).as_py() or 0
        return pc.sum(self.table.filter(pc.equal(self.table["rank"], 1))["views"]).as_py() or 0

    def to(self, kind: str) -> Statistics:
        """The statistics of a kind with less detail."""
        check_choice("kind", kind, tuple(COLUMNS)[: list(COLUMNS).index(self.kind) + 1])
        if self.kind == kind:
            return self
        with duckdb_connection("1GB") as connection:  # beside both tables
            connection.register("counted", self.table)
            sql = aggregation(kind, "counted", counted=True) if self.kind == "lists" else coarser("counted")
            return run(connection, kind, sql)

    def counts(self, queries: Iterable[Any] | None = None) -> PositionCounts | ListCounts:
        """Counts for click models, of all queries or of some."""
        table = self.table if queries is None else self._only(queries)
        return list_counts(table) if self.kind == "lists" else position_counts(table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a Parquet or CSV file, by its suffix; it appears when it is complete."""
        target = Path(path)
        check_choice("path ends in", target.suffix, (".parquet", ".csv"))
        if not target.parent.is_dir():
            raise ValueError(f"{target}: there is no folder {target.parent}")
        form = "(FORMAT parquet, COMPRESSION zstd)" if target.suffix == ".parquet" else "(FORMAT csv, HEADER)"
        flat = self.kind == "lists" and target.suffix == ".csv"
        columns = "* REPLACE (to_json(ranking) AS ranking)" if flat else "*"
        with duckdb_connection() as connection, written(target) as temporary:
            connection.register("counted", self.table)
            order = ", ".join(COLUMNS[self.kind][: KEYS[self.kind]])
            rows = f"SELECT {columns} FROM (SELECT * FROM counted ORDER BY {order})"
            connection.execute(f"COPY ({rows}) TO {literal(str(temporary))} {form}")

    def _only(self, queries: Iterable[Any]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        of_log = self.table["query"].type
        wanted = pa.array(_names(queries, pa.types.is_integer(of_log)), of_log)
        return self.table.filter(pc.is_in(self.table["query"], value_set=wanted))


def aggregate(
    log: Log,
    kind: str,
    *,
    queries: Iterable[Any] | None = None,
    device: str = "cpu",
    cluster: Cluster | None = None,
    progress: bool | Progress | None = False,
) -> Statistics:
    """Count a log.

    Parameters
    ----------
    log
        From :func:`driftrank.logs.open_log`. Beyond its ``memory`` the disk is used.
    kind
        ``"ratios"``, ``"positions"`` or ``"lists"``.
    queries
        Only these; None: all.
    device
        ``"cpu"``: here, with the threads of the log. ``"cluster"``: file by file on many machines, which must have
        access to the files by the same names; the result is the same.
    cluster
        An open cluster; None: start workers on this machine.
    progress
        Show a progress bar, by file; None: if standard error is a terminal.
    """
    check_choice("kind", kind, tuple(COLUMNS))
    check_choice("device", device, ("cpu", "cluster"))
    wanted = None if queries is None else _names(queries, log.types["query"] == "BIGINT")
    if device == "cpu":
        return _aggregate(log, kind, wanted)
    from driftrank.engine.cluster.cluster import Cluster

    label = Path(log.source).name
    with ExitStack() as stack:
        bar = stack.enter_context(chosen_progress(progress, {label: len(log.files)}, "files"))
        workers = cluster or stack.enter_context(Cluster())
        parts = tables_by_file(log, _table_of, (kind, wanted), workers, lambda: bar.advance(label, 1))
        relation = stack.enter_context(parts)
        with duckdb_connection(log.memory, log.threads) as connection:
            return run(connection, kind, sums(kind, relation))


def merge(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of several logs together."""
    if not parts:
        raise ValueError("parts=[]: must be at least one")
    kind = parts[0].kind
    for part in parts:
        if part.kind != kind:
            raise ValueError(f"cannot merge statistics of {kind} with those of {part.kind}")
        if part.table.schema.types != parts[0].table.schema.types:
            raise ValueError("cannot merge text ids with integer ids")
    with duckdb_connection() as connection:
        for i, part in enumerate(parts):
            connection.register(f"part{i}", part.table)
        union = " UNION ALL ".join(f"SELECT * FROM part{i}" for i in range(len(parts)))
        return run(connection, kind, sums(kind, f"({union})"))


def _aggregate(log: Log, kind: str, queries: list[Any] | None) -> Statistics:
    import duckdb
    import pyarrow as pa

    with log.connect() as connection:
        relation = log.relation
        if queries is not None:
            type_ = pa.int64() if log.types["query"] == "BIGINT" else pa.string()
            connection.register("driftrank_queries", pa.table({"query": pa.array(queries, type_)}))
            relation = f"(SELECT * FROM {relation} WHERE query IN (SELECT query FROM driftrank_queries))"
        counted = aggregation(kind, relation)
        if log.has_positions():
            if kind != "positions":
                raise ValueError(f"kind={kind!r}: must be 'positions', since {log.source} has rows without their lists")
            counted = f"SELECT * FROM ({aggregation(kind, _at_positions(relation))}) WHERE item IS NOT NULL"
        try:
            return run(connection, kind, counted)
        except (duckdb.InvalidInputException, duckdb.OutOfRangeException) as error:
            reason = str(error).strip().splitlines()[0].removeprefix("Invalid Input Error: ")
            if isinstance(error, duckdb.OutOfRangeException):  # a shift by an invalid number of bits
                reason = "an invalid click position"
            raise ValueError(f"{log.source}: {reason}; see driftrank log check") from None


def _at_positions(relation: str) -> str:
    """Lists in which items stand at their positions, below NULLs instead of those that are not known."""
    above = "coalesce(position, 1) - 1"
    return (
        f"(SELECT * REPLACE (list_concat(list_resize(ranking[:0], {above}), ranking) AS ranking,"
        f" list_transform(clicks, lambda place: place + {above}) AS clicks) FROM {relation})"
    )


def _table_of(part: Log, task: tuple[str, list[Any] | None]) -> pa.Table:
    """On a worker."""
    return _aggregate(part, *task).table


def sums(kind: str, relation: str) -> str:
    """The SQL that adds up rows with the same keys."""
    keys, counts = COLUMNS[kind][: KEYS[kind]], COLUMNS[kind][KEYS[kind] :]
    sums = ", ".join(f"sum({name}) AS {name}" for name in counts)
    return f"SELECT {', '.join(keys)}, {sums} FROM {relation} GROUP BY {', '.join(keys)}"


def run(connection: duckdb.DuckDBPyConnection, kind: str, sql: str) -> Statistics:
    """Run a SQL query that returns statistics, and set the types of the columns."""
    columns = COLUMNS[kind]
    types = {"rank": "SMALLINT", "previous": "SMALLINT"} | dict.fromkeys(columns[KEYS[kind] :], "BIGINT")
    cast = ", ".join(f"CAST({name} AS {types[name]}) AS {name}" if name in types else name for name in columns)
    connection.execute("SET preserve_insertion_order = false")  # less memory
    return Statistics(kind, connection.sql(f"SELECT {cast} FROM ({sql})").to_arrow_table())


def _names(queries: Iterable[Any], integers: bool) -> list[Any]:
    """Names of queries with the type of the log: text, or integers."""
    names = [q.item() if isinstance(q, np.generic) else q for q in queries]
    if not integers:
        return [str(q) for q in names]
    try:
        return [int(q) for q in names]
    except (TypeError, ValueError):
        raise ValueError(f"queries={names[:3]!r}: must be integers, as in the log") from None
