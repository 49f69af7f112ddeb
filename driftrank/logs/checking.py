"""Check a log: its contents and its problems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driftrank.logs.bad_lines import EXAMPLES, LogReport
from driftrank.logs.log import Log, open_log
from driftrank.logs.schema import LONGEST

if TYPE_CHECKING:
    import duckdb

#: by kind of problem, the SQL condition of its rows
_WRONG = {
    "missing": "query IS NULL OR time IS NULL OR ranking IS NULL OR clicks IS NULL"
    " OR list_count(ranking) < len(ranking) OR list_count(clicks) < len(clicks)",
    "empty": "len(ranking) = 0",
    "long": f"len(ranking) > {LONGEST}",
    "repeated": "len(ranking) > 1 AND list_unique(ranking) < list_count(ranking)",
    "position": "len(clicks) > 0 AND (list_max(clicks) > len(ranking) OR list_min(clicks) < 1)",
    "propensities": "list_count(propensities) <> {expected} OR list_min(propensities) <= 0"
    " OR list_max(propensities) > 1",
}

#: number of longest gaps in the result
_GAPS = 5


@dataclass(frozen=True)
class LogCheck:
    """The result of checking a log; :meth:`to_dict` is for programs.

    Attributes
    ----------
    counts
        Lists, queries, items, users, clicks, those on positions clicked before (repeated clicks), lists without click.
    first, last
        The earliest and the latest time.
    gaps
        The longest gaps between one list and the next, as (length, row after it, time after it).
    positions
        By position: number of lists with it, and of lists in which it was clicked.
    report
        The problems, with numbers of lines or rows.
    """

    source: str
    counts: Mapping[str, int]
    first: Any
    last: Any
    gaps: list[tuple[Any, int, Any]]
    positions: list[tuple[int, int]]
    report: LogReport
    propensities: str | None = None  #: their kind; "unknown" if the log is not marked with it

    @property
    def good(self) -> bool:
        """True if every line or row can be used."""
        return not self.report.has_errors

    @property
    def click_rate(self) -> float:
        """The share of lists with a click."""
        lists = self.counts["lists"]
        return (lists - self.counts["lists without click"]) / lists if lists else float("nan")

    def to_dict(self) -> dict[str, Any]:
        rate = self.click_rate
        return {
            "source": self.source,
            "good": self.good,
            **{name.replace(" ", "_"): count for name, count in self.counts.items()},
            "click_rate": None if rate != rate else rate,
            "first": _plain(self.first),
            "last": _plain(self.last),
            "gaps": [{"length": _plain(gap), "row": row, "time": _plain(time)} for gap, row, time in self.gaps],
            "positions": [{"views": views, "clicks": clicks} for views, clicks in self.positions],
            "propensities": self.propensities,
            "unit": self.report.unit,
            "problems": self.report.to_dict()["problems"],
        }


def check(source: Log | str | os.PathLike[str], columns: Mapping[str, str] | None = None) -> LogCheck:
    """Check a log: a :class:`Log`, or anything that :func:`open_log` takes.

    Problems of text have line numbers, those of tables row numbers.

    Examples
    --------
    >>> import duckdb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> rows = "('shoes', 1, [3, 1], [2]), ('shoes', 2, [3, 3], []), ('hats', 3, [4], [2])"
    >>> _ = duckdb.sql(f"COPY (FROM (VALUES {rows}) t(query, time, ranking, clicks)) TO '{path}'")
    >>> found = check(path)
    >>> found.good, found.counts["lists"], found.counts["items"], found.positions
    (False, 3, 3, [(3, 0), (2, 1)])
    >>> print("\\n".join(found.report.details()))
      1 x the same item twice in a list (cannot be used)
          row 2: query shoes, 2 items, no clicks
      1 x a click position outside the list (cannot be used)
          row 3: query hats, 1 item, clicks 2
    """
    log = source if isinstance(source, Log) else open_log(source, columns, quiet=True)
    report = LogReport(log.source, unit="row", verb="cannot be used") if log.report is None else log.report.copy()
    with log.connect() as connection:
        connection.execute(f"CREATE TEMP VIEW numbered AS SELECT * FROM {log.numbered}")
        counts, examples = _counted(connection, log)
        gaps, unique = _clock(connection, log, examples)
        if not unique:
            _duplicates(connection, log, examples)
        positions = _positions(connection, "coalesce(position, 1)" if "position" in log.types else "1")
        first, last = connection.execute("SELECT min(time), max(time) FROM numbered").fetchone() or (None, None)
        _report_problems(connection, log, examples, report)
    if log.report is None:
        report.lists, report.clicks = counts["lists"], counts["clicks"]
    return LogCheck(log.source, counts, first, last, gaps, positions, report, _kind_of(log))


#: by kind of problem: the number, and the (file, row) of the first
_Examples = dict[str, tuple[int, list[tuple[int, int]]]]

_PLACE = "file * 1000000000000 + row"


def _counted(connection: duckdb.DuckDBPyConnection, log: Log) -> tuple[dict[str, int], _Examples]:
    """Counts and problems, in one pass over the rows."""
    wrong = {kind: sql for kind, sql in _WRONG.items() if kind != "propensities" or kind in log.types}
    expected = "1" if log.propensities == "list" else "len(ranking)"
    wrong = {kind: sql.format(expected=expected) for kind, sql in wrong.items()}
    flags = ", ".join(f"coalesce({sql}, false) AS {kind}" for kind, sql in wrong.items())
    sums = ", ".join(
        f"count(*) FILTER (WHERE {kind}), min({_PLACE}, {EXAMPLES}) FILTER (WHERE {kind})" for kind in wrong
    )
    row = connection.execute(
        "SELECT count(*), coalesce(sum(clicked), 0)::BIGINT, count(*) FILTER (WHERE clicked = 0),"
        f" coalesce(sum(clicked - places), 0)::BIGINT, {sums} FROM (SELECT file, row, {flags},"
        " coalesce(len(clicks), 0) AS clicked, coalesce(list_unique(clicks), 0) AS places FROM numbered)"
    ).fetchone()
    assert row is not None
    examples = {
        kind: (row[4 + 2 * i], [divmod(p, 10**12) for p in row[5 + 2 * i]])
        for i, kind in enumerate(wrong)
        if row[4 + 2 * i]
    }
    counts = {"lists": row[0], "queries": _one(connection, "SELECT count(DISTINCT query) FROM numbered")}
    counts["items"] = _one(
        connection, "SELECT count(DISTINCT item) FROM (SELECT unnest(ranking) AS item FROM numbered)"
    )
    if "user" in log.types:
        counts["users"] = _one(connection, 'SELECT count(DISTINCT "user") FROM numbered')
    return {**counts, "clicks": row[1], "repeated clicks": row[3], "lists without click": row[2]}, examples


def _clock(
    connection: duckdb.DuckDBPyConnection, log: Log, examples: _Examples
) -> tuple[list[tuple[Any, int, Any]], bool]:
    """The longest gaps, and true if all times are certainly distinct; adds steps back to ``examples``."""
    steps = "(SELECT file, row, time, time - lag(time) OVER () AS step, time < lag(time) OVER () AS back FROM numbered)"
    none = "INTERVAL 0 SECOND" if log.types["time"] == "TIMESTAMP" else "0"
    row = connection.execute(
        f"SELECT count_if(back), min({_PLACE}, {EXAMPLES}) FILTER (WHERE back), count_if(step = {none}),"
        f" max_by({{step: step, row: {_PLACE}, time: time}}, step, {_GAPS}) FILTER (WHERE step > {none}) FROM {steps}"
    ).fetchone()
    assert row is not None
    back, places, same, gaps = row
    if back:
        examples["clock"] = back, [divmod(p, 10**12) for p in places]
    longest = [(gap["step"], gap["row"] % 10**12, gap["time"]) for gap in gaps or []]
    if longest and longest[0][0] == 1:  # a running number
        longest = []
    return sorted(longest, key=lambda gap: (-gap[0], gap[1])), not back and not same


def _duplicates(connection: duckdb.DuckDBPyConnection, log: Log, examples: _Examples) -> None:
    """Find duplicate rows. Only rows with equal hashes are compared in full."""
    names = [f'"{name}"' for name in log.types]
    keys = {"duplicate": names}
    if "user" in log.types:
        keys["again"] = ['"user"', "query", "time"]
    for kind, key in keys.items():
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE twice AS SELECT hash({', '.join(key)}) AS h FROM numbered"
            " GROUP BY h HAVING count(*) > 1"
        )
        later = f"row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY file, row) > 1"
        if kind == "again":  # full duplicates are counted above
            later += f" AND row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY file, row) = 1"
        found = connection.execute(
            f"SELECT count(*), min({_PLACE}, {EXAMPLES}) FROM"
            f" (SELECT file, row FROM numbered WHERE hash({', '.join(key)}) IN (SELECT h FROM twice) QUALIFY {later})"
        ).fetchone()
        assert found is not None
        if found[0]:
            examples[kind] = found[0], [divmod(p, 10**12) for p in found[1]]


def _kind_of(log: Log) -> str | None:
    return log.propensities or "unknown" if "propensities" in log.types else None


def _positions(connection: duckdb.DuckDBPyConnection, first: str) -> list[tuple[int, int]]:
    """Views and clicks by position; positions outside the list do not count. A list begins at position ``first``."""
    sizes = connection.execute(
        f"SELECT {first}, {first} + len(ranking), count(*) FROM numbered WHERE ranking IS NOT NULL GROUP BY 1, 2"
    ).fetchall()
    clicked = connection.execute(
        "SELECT position + begin - 1, count(*) FROM (SELECT unnest(list_distinct(clicks)) AS position,"
        f" len(ranking) AS items, {first} AS begin FROM numbered) WHERE position BETWEEN 1 AND items GROUP BY 1"
    )
    clicks = dict(clicked.fetchall())
    depth = min(max((end - 1 for _, end, _ in sizes), default=0), 1000)
    return [(sum(n for begin, end, n in sizes if begin <= p < end), clicks.get(p, 0)) for p in range(1, depth + 1)]


def _report_problems(connection: duckdb.DuckDBPyConnection, log: Log, examples: _Examples, report: LogReport) -> None:
    """Add the problems to the report, with the content of every example."""
    places = sorted({place for _, found in examples.values() for place in found})
    if not places:
        return
    rows = connection.execute(
        "SELECT file, row, query, time, len(ranking), clicks FROM numbered WHERE row IN"
        f" ({', '.join(str(row) for _, row in places)})"
    ).fetchall()
    texts = {}
    for file, row, query, time, items, clicks in rows:
        shown = "no items" if not items else "1 item" if items == 1 else f"{items} items"
        clicked = f"clicks {', '.join(map(str, clicks[:10]))}" if clicks else "no clicks"
        where = f"{log.files[file]}: " if len(log.files) > 1 else ""
        texts[file, row] = f"{where}query {query}, {shown}, {clicked}", f"{where}query {query}, time {time}"
    for kind, (count, found) in examples.items():
        for place in found:
            report.add(kind, place[1], texts[place][kind in ("clock", "again")], 0)
        report.counts[kind] += count


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)
