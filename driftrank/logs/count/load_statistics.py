"""Load statistics: saved ones, or the result of the printed SQL in a data warehouse."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from driftrank.logs.count.aggregation_sql import COLUMNS, KEYS
from driftrank.logs.count.statistics import Statistics, run, sums
from driftrank.logs.log import duckdb_connection
from driftrank.logs.schema import LONGEST, literal, quoted

if TYPE_CHECKING:
    import duckdb

_ENDS = (".parquet", ".csv", ".csv.gz")
_INTEGERS = ("rank", "previous", "mask")

_COUNTS = {
    "least(views, clicks, examined, last_clicks) < 0": "counts must not be negative",
    "clicks > views": "clicks must be at most views",
    "examined > views": "examined must be at most views",
    "clicks > examined": "clicks must be at most examined",
    "last_clicks > clicks": "last_clicks must be at most clicks",
}

#: conditions of invalid rows, and their messages
_WRONG: Mapping[str, Mapping[str, str]] = {
    "ratios": {
        "query IS NULL OR item IS NULL": "no query or no item",
        f"rank NOT BETWEEN 0 AND {LONGEST}": f"rank must be from 1 to {LONGEST}, or 0 for no click",
        "previous NOT BETWEEN 0 AND 1": "previous must be 0 or 1 if there are rows of rank 0",
        "clicks <> if(rank = 0, 0, views)": "clicks must be views, or 0 at rank 0, if there are rows of rank 0",
    } | _COUNTS,
    "positions": {
        "query IS NULL OR item IS NULL": "no query or no item",
        f"rank NOT BETWEEN 1 AND {LONGEST}": f"rank must be from 1 to {LONGEST}",
        "previous NOT BETWEEN 0 AND rank - 1": "previous must be from 0 to rank - 1",
    } | _COUNTS,
    "lists": {
        "query IS NULL": "no query",
        f"len(ranking) > {LONGEST}": f"ranking must have at most {LONGEST} items",
        "mask < 0 OR mask >> least(len(ranking), 62) > 0": "mask must have no click beyond the end of the ranking",
        "lists < 0": "lists must not be negative",
    },
}  # fmt: skip


def load_statistics(path: str | os.PathLike[str]) -> Statistics:
    """Read statistics: a Parquet or CSV file, a folder of them or a pattern; rows of several files add up.

    The columns determine the kind; case does not matter. In CSV, and in rankings that are JSON, ids become integers if
    all are.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "statistics.csv"
    >>> _ = path.write_text('QUERY,RANKING,MASK,LISTS\\ntea,"[3,1]",2,40\\n')
    >>> load_statistics(path).table.to_pylist()
    [{'query': 'tea', 'ranking': [3, 1], 'mask': 2, 'lists': 40}]
    """
    import duckdb

    name = os.fspath(path)
    with duckdb_connection() as connection:
        try:
            scan = _scan(name)
            available = {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()}
            kind, select = _selected(connection, name, scan, available)
            shown = "WHERE len(ranking) > 0" if kind == "lists" else ""  # empty lists carry no information
            connection.execute(f"CREATE TEMP TABLE stored AS SELECT * FROM (SELECT {select} FROM {scan}) {shown}")
        except duckdb.Error as error:
            raise ValueError(f"{name}: cannot be read ({str(error).strip().splitlines()[0]})") from None
        if kind == "positions" and connection.execute("SELECT 1 FROM stored WHERE rank = 0 LIMIT 1").fetchone():
            kind = "ratios"
        _check(connection, name, kind)
        return run(connection, kind, sums(kind, "stored"))


def _scan(name: str) -> str:
    pattern = os.path.join(glob.escape(name), "**", "*") if os.path.isdir(name) else name
    files = [name] if os.path.isfile(name) else sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
    files = [file for file in files if file.lower().endswith(_ENDS)]
    if not files:
        exists = os.path.exists(name)
        raise ValueError(f"{name}: {'must be' if exists else 'no such file;'} files ending in {', '.join(_ENDS)}")
    ends = {Path(file).suffix.lower() == ".parquet" for file in files}
    if len(ends) > 1:
        raise ValueError(f"{name}: both Parquet and CSV files")
    listed = f"[{', '.join(map(literal, files))}]"
    # CSV files have no missing values: an empty one is a valid name
    return f"read_parquet({listed})" if ends.pop() else f"read_csv({listed}, all_varchar = true, nullstr = '\\N')"


def _selected(
    connection: duckdb.DuckDBPyConnection, name: str, scan: str, available: Mapping[str, str]
) -> tuple[str, str]:
    """The kind of statistics, and the SELECT list that makes its columns."""
    folded = {column.lower(): column for column in available}
    kind = "lists" if "ranking" in folded or "mask" in folded else "positions"
    missing = [column for column in COLUMNS[kind] if column not in folded]
    if missing:
        raise ValueError(
            f"{name}: no column {', '.join(missing)}; statistics of positions have the columns"
            f" {', '.join(COLUMNS['positions'])}, those of lists {', '.join(COLUMNS['lists'])}"
        )
    untyped = all(type_ == "VARCHAR" for type_ in available.values())
    parts = []
    for column in COLUMNS[kind]:
        source, type_ = quoted(folded[column]), available[folded[column]]
        if column in _INTEGERS or column in COLUMNS[kind][KEYS[kind] :]:
            expression = f"TRY_CAST({source} AS BIGINT)"
            bad = f"{expression} IS NULL OR TRY_CAST({source} AS DOUBLE) <> floor(TRY_CAST({source} AS DOUBLE))"
            if value := connection.execute(f"SELECT {source} FROM {scan} WHERE {bad} LIMIT 1").fetchone():
                raise ValueError(f"{name}: {folded[column]}={value[0]!r}: must be an integer")
        elif column == "ranking":
            expression = _ranking(connection, name, scan, source, type_)
        else:
            integers = _integers(connection, scan, source) if untyped else type_ != "VARCHAR"
            expression = f"CAST({source} AS {'BIGINT' if integers else 'VARCHAR'})"
        parts.append(f"{expression} AS {column}")
    return kind, ", ".join(parts)


def _ranking(connection: duckdb.DuckDBPyConnection, name: str, scan: str, source: str, type_: str) -> str:
    if type_.endswith("[]"):
        return f"CAST({source} AS {'VARCHAR' if type_ == 'VARCHAR[]' else 'BIGINT'}[])"
    lists = f"CAST(TRY_CAST({source} AS JSON) AS VARCHAR[])"
    wrong = f"SELECT {source} FROM {scan} WHERE coalesce(json_type(TRY_CAST({source} AS JSON)), '') <> 'ARRAY' LIMIT 1"
    if value := connection.execute(wrong).fetchone():
        raise ValueError(f'{name}: ranking={value[0]!r}: must be a list, written as JSON: [1, 2] or ["a", "b"]')
    integers = _integers(connection, f"(SELECT unnest({lists}) AS item FROM {scan})", "item")
    return f"CAST({lists} AS BIGINT[])" if integers else lists


def _integers(connection: duckdb.DuckDBPyConnection, relation: str, column: str) -> bool:
    """True if all text is integers in canonical form."""
    same = f"CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR) = {column}"
    row = connection.execute(f"SELECT bool_and(coalesce({same}, false)) FROM {relation}").fetchone()
    return bool(row and row[0])


def _check(connection: duckdb.DuckDBPyConnection, name: str, kind: str) -> None:
    tests = ", ".join(f"count_if({wrong})" for wrong in _WRONG[kind])
    found = connection.execute(f"SELECT {tests} FROM stored").fetchone() or ()
    for (wrong, message), rows in zip(_WRONG[kind].items(), found, strict=True):
        if rows:
            first = connection.execute(f"SELECT * FROM stored WHERE {wrong} LIMIT 1").fetchone() or ()
            row = ", ".join(f"{column}={value!r}" for column, value in zip(COLUMNS[kind], first, strict=True))
            raise ValueError(f"{name}: {message}; not so in {rows} row{'s' if rows > 1 else ''}, the first with {row}")
