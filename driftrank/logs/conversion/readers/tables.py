"""Logs as tables: CSV, TSV, JSONL, and TREC runs with clicks; one row per list, or one per result.

**One row per list**: the columns of the schema (:mod:`driftrank.logs.schema`). Lists are JSON (``[3, 1]``) or values
separated by spaces, semicolons or commas (``3 1``). Clicks are positions, flags, or items, as the option ``clicks``.

**One row per result**: ``item``, ``click`` (0, 1 or a number of clicks) and any of ``list`` (rows with the same value
form a list), ``rank`` (from 0 or 1; without it, the order of the rows), ``query``, ``time``, ``user``, ``device``,
``propensity``. Without ``list``, rows of the same query, time and user form a list. If ``position`` is mapped to a
column (from 1), rows are not merged: each is a row without its list, whose item stood there.

Columns may have other names: ``columns={"query": "q", "ranking": "docs"}``. ``{"time": "#"}`` if there is no clock:
time is then the number of the list. A file is taken to have no header if the mapping has only numbers; its columns are
``1``, ``2``, ... A TREC run has no header, and the fields ``query Q0 item rank score list click`` unless they are
mapped.

A line is a row: a quoted field cannot contain a line end. Ids that are integers in all rows become integers, others
stay text, as do numbers in JSON strings. Times without a time zone are UTC.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from driftrank.logs.bad_lines import LogReport, excerpt
from driftrank.logs.conversion.readers.base import ReadOptions, Tick
from driftrank.logs.conversion.readers.cells import RESULT, lists_of
from driftrank.logs.conversion.readers.lines import Lines, read_lines
from driftrank.logs.conversion.readers.separated import Separated, delimiter_of, fields_of
from driftrank.logs.conversion.readers.stream import Stream
from driftrank.logs.schema import COLUMNS, SERVED, literal

if TYPE_CHECKING:
    import pyarrow as pa

#: columns of a list
_OF_LISTS = tuple(name for name in COLUMNS if name not in SERVED)
_TREC = {"query": "1", "item": "3", "rank": "4", "list": "6", "click": "7", "time": "#"}


def _first_lines(start: bytes) -> list[str]:
    lines = start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()
    return [line for line in (lines[:-1] if len(lines) > 2 else lines) if line.strip()][:3]


def _is_separated(start: bytes, tab: bool) -> int:
    """1 if the first lines have the same number of fields, at least three: it may be a table."""
    lines = _first_lines(start)
    delimiter = delimiter_of(lines[0]) if lines else ""
    if not delimiter or (delimiter == "\t") != tab:
        return 0
    counts = {len(fields_of(line, delimiter) or ()) for line in lines[:2]}
    return int(len(counts) == 1 and min(counts) >= 3)


def _is_json(start: bytes) -> int:
    lines = _first_lines(start)
    try:
        return 2 if lines and isinstance(json.loads(lines[0]), dict) else 0
    except ValueError:
        return 1 if lines and lines[0].startswith('{"') else 0


def _is_trec(start: bytes) -> int:
    lines = [line.split() for line in _first_lines(start)]
    return 2 if lines and all(len(fields) >= 6 and fields[1] == "Q0" for fields in lines) else 0


FORMATS = {
    "csv": lambda start: _is_separated(start, tab=False),
    "tsv": lambda start: _is_separated(start, tab=True),
    "jsonl": _is_json,
    "trec": _is_trec,
}


def read(stream: Stream, format: str, report: LogReport, options: ReadOptions, tick: Tick) -> Iterator[pa.Table]:
    """Split the text into cells, in a temporary file, which SQL then converts to lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict(_TREC) | dict(options.columns) if format == "trec" else dict(options.columns)
    _check(columns)
    with tempfile.TemporaryDirectory(prefix="driftrank-convert-") as folder:
        path = Path(folder) / "cells.parquet"
        schema, writer = None, None
        names: list[str] = []
        splitter: _Json | Separated | None = None
        try:
            for lines in read_lines(stream, report, tick):
                if splitter is None:
                    splitter = _splitter(stream, format, columns, lines)
                    names = list(splitter.places)
                    schema = pa.schema([("line", pa.int64()), *((name, pa.string()) for name in names)])
                    writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)
                assert writer is not None
                writer.write_table(splitter.split(lines, report))
        finally:
            if writer is not None:
                writer.close()
        if splitter is None:
            return
        running = columns.get("time") == "#"
        yield from lists_of(
            path, names, report, clicks=options.clicks, running=running, is_json=format == "jsonl",
            one_propensity=options.propensities == "list",
        )  # fmt: skip


def _splitter(stream: Stream, format: str, columns: Mapping[str, str], lines: Lines) -> _Json | Separated:
    if format == "jsonl":
        return _Json(stream, columns, lines)
    given = [name for name in columns.values() if name != "#"]
    header = not given or not all(name.isdigit() for name in given)
    return Separated(format, lines, lambda available: _chosen(stream.path, available, columns), header)


def _check(columns: Mapping[str, str]) -> None:
    known = (*_OF_LISTS, *RESULT)
    for name in columns:
        if name not in known:
            raise ValueError(f"columns={dict(columns)!r}: a log has no column {name!r}, only {', '.join(known)}")


def _chosen(source: object, available: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    """The indices of the columns of a log among those of a file."""
    folded = {name.strip().lower(): i for i, name in reversed(list(enumerate(available)))}
    places = {}
    for name in (*_OF_LISTS, *RESULT):
        place = folded.get(columns.get(name, name).lower())
        if name == "position" and name not in columns:  # a column of that name may be anything
            continue
        if place is not None:
            if sum(other.strip().lower() == available[place].strip().lower() for other in available) > 1:
                raise ValueError(f"{source}: two columns are called {available[place]}")
            places[name] = place
        elif name in columns and columns[name] != "#":
            raise ValueError(f"{source}: no column {columns[name]}; there are: {', '.join(available)}")
    by_result = "ranking" not in places and "item" in places
    wanted = ("query", "time", "item", "click") if by_result else ("query", "time", "ranking", "clicks")
    missing = [name for name in wanted if name not in places and columns.get(name) != "#"]
    if sorted(folded) == ["query", "state"]:
        raise ValueError(f"{source}: an export of a ranker, which has what was learnt, but no lists; convert its store")
    if missing:
        hint = "; time=# for the number of the list" if missing == ["time"] else ""
        raise ValueError(
            f"{source}: no column {', '.join(missing)}; there are: {', '.join(available)}. Map other names with"
            f" columns, as in {missing[0]}={available[0] if available else 'q'}{hint}"
        )
    return places


class _Json:
    """One object per line. Cells remain JSON, which distinguishes text from numbers."""

    def __init__(self, stream: Stream, columns: Mapping[str, str], lines: Lines) -> None:
        keys: dict[str, None] = {}
        for _, line in itertools.islice(lines, 1000):
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                keys |= dict.fromkeys(value if isinstance(value, dict) else ())
        found = _chosen(stream.path, list(keys), columns)
        others = ("ranking", "clicks") if "item" in found else RESULT  # not the columns of the other form
        if "position" not in columns:
            others = (*others, "position")
        names = [name for name in (*_OF_LISTS, *RESULT) if name not in others and columns.get(name) != "#"]
        self.places = {name: columns.get(name, name) for name in names}

    def split(self, lines: Lines, report: LogReport) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        from driftrank.logs.log import duckdb_connection

        ends = np.flatnonzero(np.frombuffer(lines.text, np.uint8) == ord("\n")) + 1
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        text = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(lines.text))
        table = pa.table({"line": pa.array(lines.numbers, pa.int64()), "text": text})
        pointers = ", ".join(
            f'json_extract(text, {literal("/" + name.replace("~", "~0").replace("/", "~1"))})::VARCHAR AS "{column}"'
            for column, name in self.places.items()
        )
        with duckdb_connection() as connection:
            connection.register("lines", table)
            connection.execute(
                "CREATE TEMP VIEW tested AS SELECT *, coalesce(json_valid(text), false) AS valid FROM lines"
            )
            good = "CASE WHEN valid THEN json_type(text) = 'OBJECT' ELSE false END"
            for number, line in connection.execute(f"SELECT line, text FROM tested WHERE NOT {good}").fetchall():
                report.add("json", number, excerpt(line.rstrip("\n")))
            rows = f"SELECT line, {pointers} FROM tested WHERE {good} ORDER BY line"
            return connection.sql(rows).to_arrow_table()
