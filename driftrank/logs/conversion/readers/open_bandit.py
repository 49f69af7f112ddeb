"""The Open Bandit Dataset (ZOZO): items that a fashion shop showed in one of three places, and their clicks.

A row of the dataset is one item at one position (1 to 3) of a page. The dataset does not tell which rows belong to the
same page, so each becomes a list of one item with its ``position`` on the page, which the position-based model can be
fitted to, and its propensity in ``propensities``: that of the item at this position, whatever is above (*marginal*).
With ``group``, three rows with the same time and user features, at positions 1, 2 and 3, with three different items,
are merged into a list. Other rows are kept one by one.

The query is the campaign: the name of the file's folder (``all``, ``men``, ``women``), or the option ``query``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from driftrank.logs.bad_lines import LogReport
from driftrank.logs.conversion.readers.base import ReadOptions, Tick
from driftrank.logs.conversion.readers.cells import report_rows
from driftrank.logs.conversion.readers.lines import read_lines
from driftrank.logs.conversion.readers.separated import Separated, fields_of
from driftrank.logs.conversion.readers.stream import Stream
from driftrank.logs.log import duckdb_connection
from driftrank.logs.schema import literal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_NAMES = ("timestamp", "item_id", "position", "click", "propensity_score")
_BATCH = 100_000
#: the kind of the propensities
PROPENSITIES = "marginal"


def looks_like(start: bytes) -> int:
    """2 if the header has the columns of the dataset."""
    header = fields_of(start.split(b"\n", 1)[0].decode("utf-8", "replace").strip(), ",")
    return 2 if set(_NAMES) <= set(header or ()) else 0


FORMATS = {"open-bandit": looks_like}


def read(stream: Stream, format: str, report: LogReport, options: ReadOptions, tick: Tick) -> Iterator[pa.Table]:
    """The rows as lists of one item or, with ``group``, merged into lists of three."""
    import pyarrow.parquet as pq

    if options.columns:
        raise ValueError(f"columns={dict(options.columns)!r}: must be empty for the Open Bandit Dataset")
    query = options.query or stream.path.resolve().parent.name
    with tempfile.TemporaryDirectory(prefix="driftrank-convert-") as folder:
        path = Path(folder) / "cells.parquet"
        writer, splitter = None, None
        try:
            for lines in read_lines(stream, report, tick):
                if splitter is None:
                    splitter = Separated("csv", lines, lambda available: _chosen(stream, available), header=True)
                cells = splitter.split(lines, report)
                if writer is None:
                    writer = pq.ParquetWriter(path, cells.schema, compression="zstd", compression_level=1)
                writer.write_table(cells)
        finally:
            if writer is not None:
                writer.close()
        if splitter is not None:
            with duckdb_connection() as connection:
                yield from _lists(connection, path, splitter, query, options.group, report)


def _chosen(stream: Stream, available: list[str]) -> dict[str, int]:
    missing = [name for name in _NAMES if name not in available]
    if missing:
        raise ValueError(f"{stream.path}: no column {', '.join(missing)}; there are: {', '.join(available)}")
    return {name: i for i, name in enumerate(available) if name in _NAMES or name.startswith("user_feature")}


def _lists(
    connection: duckdb.DuckDBPyConnection, path: Path, splitter: Separated, query: str, group: bool, report: LogReport
) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    features = [f'"{name}"' for name in splitter.places if name.startswith("user_feature")]
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TEMP VIEW cells AS SELECT line, TRY_CAST(timestamp AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS time,"
        " nullif(trim(item_id), '') AS item, TRY_CAST(position AS SMALLINT) AS position,"
        " TRY_CAST(click AS DOUBLE) AS click, TRY_CAST(propensity_score AS DOUBLE) AS propensity,"
        f" {', '.join(['timestamp', *features])}"
        f" FROM read_parquet({literal(str(path))})"
    )
    wrong = (
        "CASE WHEN time IS NULL THEN 'timestamp ' || coalesce(timestamp, '') WHEN item IS NULL THEN 'no item_id'"
        " WHEN position IS NULL OR position < 1 THEN 'position' WHEN click IS NULL OR click NOT IN (0, 1) THEN 'click'"
        " WHEN propensity IS NULL OR NOT (propensity > 0 AND propensity <= 1) THEN 'propensity_score' END"
    )
    connection.execute(f"CREATE TEMP VIEW tested AS SELECT *, {wrong} AS wrong FROM cells")
    report_rows(connection, "value", "wrong IS NOT NULL", "wrong", "tested", report)
    [(whole,)] = connection.execute(
        "SELECT coalesce(bool_and(regexp_full_match(item, '(0|[1-9][0-9]{0,17})')), false)"
        " FROM tested WHERE wrong IS NULL"
    ).fetchall()
    kind = "BIGINT" if whole else "VARCHAR"
    rows = "SELECT line, time, item, position, click, propensity FROM tested WHERE wrong IS NULL"
    lists = _merged(connection, features, report) if group else _single(rows)
    made = (
        f"SELECT {literal(query)} AS query, time, CAST(items AS {kind}[]) AS ranking,"
        f" CAST(clicked AS SMALLINT[]) AS clicks, chances AS propensities, position, line FROM ({lists})"
    )
    for batch in connection.sql(made).to_arrow_reader(_BATCH):
        table = pa.Table.from_batches([batch])
        report.lists += len(table)
        report.clicks += pc.sum(pc.list_value_length(table.column("clicks"))).as_py() or 0
        yield table


def _single(rows: str) -> str:
    """Lists of one item."""
    return (
        "SELECT line, time, [item] AS items, CASE WHEN click = 1 THEN [1] ELSE [] END AS clicked,"
        f" [propensity] AS chances, position FROM ({rows})"
    )


def _merged(connection: duckdb.DuckDBPyConnection, features: list[str], report: LogReport) -> str:
    """Lists of three, and other rows as lists of one."""
    by_place = "ORDER BY position, line"
    connection.execute(
        f"CREATE TEMP TABLE pages AS SELECT any_value(time) AS time, list(item {by_place}) AS items,"
        f" list(position {by_place}) AS places, list(click {by_place}) AS flags,"
        f" list(propensity {by_place}) AS chances, list(line {by_place}) AS lines FROM tested WHERE wrong IS NULL"
        f" GROUP BY {', '.join(['timestamp', *features])}"
    )
    whole = "places = [1, 2, 3] AND list_unique(items) = 3"
    connection.execute(
        "CREATE TEMP VIEW others AS SELECT unnest(lines) AS line, time, unnest(items) AS item,"
        " unnest(places) AS position, unnest(flags) AS click, unnest(chances) AS propensity"
        f" FROM pages WHERE NOT ({whole})"
    )
    report_rows(connection, "single", "true", "'item ' || item || ' at position ' || position", "others", report)
    merged = (
        "SELECT list_min(lines) AS line, time, items, list_filter([1, 2, 3], lambda i: flags[i] = 1) AS clicked,"
        f" chances, CAST(NULL AS SMALLINT) AS position FROM pages WHERE {whole}"
    )
    return f"SELECT * FROM ({merged} UNION ALL {_single('FROM others')}) ORDER BY line"
