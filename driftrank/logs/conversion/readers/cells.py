"""Convert the text cells of a table to lists: in SQL, out of core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftrank.logs.bad_lines import EXAMPLES, LogReport, excerpt
from driftrank.logs.log import duckdb_connection
from driftrank.logs.schema import LONGEST, literal, quoted

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

#: columns of tables with one row per result
RESULT = ("list", "item", "rank", "click", "propensity")

_INTEGER = r"(0|-?[1-9][0-9]{0,17})"
#: an array as printed by NumPy
_SPACED = r"""\[\s*[^\s,"'\[\]]+(\s+[^\s,"'\[\]]+)+\s*\]"""
_BATCH = 100_000


def lists_of(
    path: Path, names: Sequence[str], report: LogReport, *, clicks: str, running: bool, is_json: bool,
    one_propensity: bool = False,
) -> Iterator[pa.Table]:  # fmt: skip
    """The lists in a file of cells.

    Parameters
    ----------
    path
        A Parquet file with the columns ``line`` and ``names``; its folder is used for temporary files.
    clicks
        ``"positions"``, ``"vector"`` or ``"items"``.
    running
        Time is the number of the list.
    is_json
        Cells are JSON, as text.
    one_propensity
        A list has one propensity, and not one for every position.
    """
    cells = _Cells(names, is_json)
    table = path.with_name("lists.parquet")
    with duckdb_connection() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TEMP VIEW cells AS FROM read_parquet({literal(str(path))})")
        if cells.by_result:
            clicks = "positions"
            _rows(connection, cells, report)
        lists = cells.of_results() if cells.by_result else cells.of_lists()
        connection.execute(f"COPY ({lists}) TO {literal(str(table))} (FORMAT parquet)")
        connection.execute(f"CREATE TEMP VIEW lists AS FROM read_parquet({literal(str(table))})")
        kinds = _kinds(connection, running) | ({"position": "SMALLINT"} if cells.alone else {})
        unshown = "unshown" if clicks == "items" else "position"
        yield from _tables(connection, _typed(kinds, clicks, running, one_propensity), kinds, report, unshown, running)


class _Cells:
    """SQL expressions over the cells."""

    def __init__(self, names: Sequence[str], is_json: bool) -> None:
        self._names = names
        self._json = is_json
        self.by_result = "item" in names and "ranking" not in names
        #: rows without their lists, whose items have positions
        self.alone = self.by_result and "position" in names

    def value(self, name: str) -> str:
        """A single value, as text; NULL if there is none."""
        if name not in self._names:
            return "CAST(NULL AS VARCHAR)"
        cell = f'"{name}"'
        return f"nullif(trim(CAST({cell} AS JSON) ->> '$'), '')" if self._json else f"nullif(trim({cell}), '')"

    def is_text(self, name: str) -> str:
        """True if it is a JSON string, even one that looks like a number."""
        return f"""coalesce("{name}" LIKE '"%', false)""" if name in self._names and self._json else "false"

    def items(self, name: str) -> str:
        """A list of text; NULL if it cannot be parsed."""
        if name not in self._names:
            return "CAST(NULL AS VARCHAR[])"
        cell = f'"{name}"'
        if self._json:
            cell = f"""CASE WHEN {cell} LIKE '"%' THEN CAST({cell} AS JSON) ->> '$' ELSE {cell} END"""
        text = f"trim({cell})"
        others = " OR ".join(f"contains({text}, {sign})" for sign in ("';'", "','", "'|'", "'  '", "chr(9)"))
        return (
            f"CASE WHEN {text} IS NULL OR {text} IN ('', 'null') THEN []"
            f" WHEN {text} NOT LIKE '[%' AND NOT ({others}) THEN string_split({text}, ' ')"
            rf" WHEN {text} NOT LIKE '[%' THEN string_split_regex({text}, '\s*[;,|]\s*|\s+')"  # four times as slow
            f" WHEN regexp_full_match({text}, {literal(_SPACED)})"
            rf" THEN string_split_regex(trim({text}, '[] '), '\s+')"
            f" ELSE coalesce(TRY_CAST(TRY_CAST({text} AS JSON) AS VARCHAR[]), TRY_CAST({text} AS VARCHAR[])) END"
        )

    def of_lists(self) -> str:
        """Lists, from one row per list."""
        quoted = """coalesce("ranking" LIKE '%"%', false)"""
        return (
            f"SELECT line, {self.value('query')} AS query, {self.is_text('query')} AS query_is_text,"
            f" {self.value('time')} AS time, {self.items('ranking')} AS ranking, {quoted} AS ranking_is_text,"
            f" {self.items('clicks')} AS clicks, {self.value('user')} AS user, {self.is_text('user')} AS user_is_text,"
            f" {self.value('device')} AS device, {self.items('propensities')} AS propensities,"
            " CAST(NULL AS VARCHAR) AS problem, CAST(NULL AS VARCHAR) AS detail FROM cells"
        )

    def results(self) -> str:
        """One row per result."""
        click = (
            f"CASE WHEN {self.value('click')} IS NULL THEN 0 WHEN lower({self.value('click')}) = 'true' THEN 1"
            f" WHEN lower({self.value('click')}) = 'false' THEN 0 ELSE TRY_CAST({self.value('click')} AS DOUBLE) END"
        )
        rank = f"TRY_CAST({self.value('rank')} AS INTEGER)" if "rank" in self._names else "0"
        position = f"TRY_CAST({self.value('position')} AS SMALLINT)"
        return (
            f"SELECT line, {self.value('list')} AS list, {self.value('query')} AS query,"
            f" {self.is_text('query')} AS query_is_text, {self.value('time')} AS time, {self.value('item')} AS item,"
            f" {self.is_text('item')} AS item_is_text, {rank} AS rank, {click} AS click, {self.value('user')} AS user,"
            f" {self.is_text('user')} AS user_is_text, {self.value('device')} AS device,"
            f" {self.value('propensity')} AS propensity, {position} AS position FROM cells"
        )

    def of_results(self) -> str:
        """Lists, from one row per result."""
        key = ("list", "query") if "list" in self._names else ("query", "time", "user")
        group = "line" if self.alone else ", ".join(name for name in key if name in self._names)
        lists = (
            "SELECT min(line) AS line, any_value(query) AS query, bool_or(query_is_text) AS query_is_text,"
            " first(time ORDER BY line) AS time, list(item ORDER BY rank, line) AS ranking,"
            " bool_or(item_is_text) AS ranking_is_text, list(rank ORDER BY rank, line) AS ranks,"
            " list(click ORDER BY rank, line) AS flags, first(user ORDER BY line) AS user,"
            " bool_or(user_is_text) AS user_is_text, first(device ORDER BY line) AS device,"
            " list(propensity ORDER BY rank, line) AS propensities, any_value(position) AS position,"
            " bool_or(wrong IS NOT NULL) AS broken"
            f" FROM results GROUP BY {group}"
        )
        ranks = "false"
        if "rank" in self._names:
            ranks = "ranks <> range(ranks[1], ranks[1] + len(ranks)) OR ranks[1] NOT IN (0, 1)"
        return (
            "SELECT line, query, query_is_text, time, ranking, ranking_is_text,"
            " CAST(list_filter(range(1, len(flags) + 1), lambda i: flags[i] > 0) AS VARCHAR[]) AS clicks, user,"
            " user_is_text, device, position,"
            " CASE WHEN list_count(propensities) > 0 THEN propensities ELSE [] END AS propensities,"
            f" CASE WHEN broken OR {ranks} THEN 'group' END AS problem,"
            " CASE WHEN broken THEN 'one of its rows cannot be used'"
            f" WHEN {ranks} THEN 'ranks ' || array_to_string(ranks[:10], ', ') END AS detail"
            f" FROM ({lists}) ORDER BY line"
        )


def _rows(connection: duckdb.DuckDBPyConnection, cells: _Cells, report: LogReport) -> None:
    """Report results that cannot be used; their lists cannot be used either."""
    position = f"WHEN coalesce(position, 0) NOT BETWEEN 1 AND {LONGEST} THEN 'position'" if cells.alone else ""
    wrong = (
        f"CASE WHEN item IS NULL THEN 'no item' WHEN rank IS NULL THEN 'a rank that is not an integer' {position}"
        " WHEN click IS NULL OR click < 0 OR click = 'inf' OR isnan(click) THEN 'a click that is not 0 or 1' END"
    )
    connection.execute(f"CREATE TEMP VIEW results AS SELECT *, {wrong} AS wrong FROM ({cells.results()})")
    report_rows(connection, "value", "wrong IS NOT NULL", "wrong", "results", report)


def report_rows(
    connection: duckdb.DuckDBPyConnection, kind: str, test: str, text: str, table: str, report: LogReport
) -> None:
    """Report the rows of a table with a problem; ``text`` is the SQL of an example's text."""
    [(found,)] = connection.execute(f"SELECT count(*) FROM {table} WHERE {test}").fetchall()
    if found:
        first = f"SELECT line, {text} FROM {table} WHERE {test} ORDER BY line LIMIT {EXAMPLES}"
        for line, example in connection.execute(first).fetchall():
            report.add(kind, line, example, 0)
        report.counts[kind] += found


def _kinds(connection: duckdb.DuckDBPyConnection, running: bool) -> dict[str, str]:
    """The types of the columns: integers, if all values are; for time, the type of most values."""
    numbers = f"regexp_full_match(array_to_string(ranking, ' '), '{_INTEGER}( {_INTEGER})*')"
    [row] = connection.execute(
        f"SELECT bool_and(regexp_full_match(query, '{_INTEGER}') AND NOT query_is_text),"
        f" bool_and({numbers} AND NOT ranking_is_text) FILTER (WHERE len(ranking) > 0),"
        f' bool_and(regexp_full_match("user", \'{_INTEGER}\') AND NOT user_is_text), count("user"), count(device),'
        " count_if(len(propensities) > 0), count(TRY_CAST(time AS DOUBLE)), count(TRY_CAST(time AS TIMESTAMPTZ)),"
        f" bool_and(regexp_full_match(time, '{_INTEGER}')) FILTER (WHERE TRY_CAST(time AS DOUBLE) IS NOT NULL)"
        " FROM lists"
    ).fetchall()
    query, items, user, users, devices, propensities, amounts, moments, whole = row
    kinds = {"query": "BIGINT" if query else "VARCHAR"}
    kinds["time"] = "TIMESTAMP" if moments > amounts else "DOUBLE" if amounts and not whole else "BIGINT"
    kinds |= {"ranking": "BIGINT[]" if items else "VARCHAR[]", "clicks": "SMALLINT[]"}
    if running:
        kinds["time"] = "BIGINT"
    if users:
        kinds["user"] = "BIGINT" if user else "VARCHAR"
    if devices:
        kinds["device"] = "VARCHAR"
    if propensities:
        kinds["propensities"] = "DOUBLE[]"
    return kinds


def _typed(kinds: dict[str, str], clicks: str, running: bool, one_propensity: bool) -> str:
    """The lists with their types, the problem of each, and the number of clicks that are left out."""
    time = f"TRY_CAST(time AS {kinds['time']})"
    if running:
        time = "CAST(0 AS BIGINT)"
    elif kinds["time"] == "TIMESTAMP":
        time = "TRY_CAST(time AS TIMESTAMPTZ) AT TIME ZONE 'UTC'"
    elif kinds["time"] == "DOUBLE":
        time = f"CASE WHEN isfinite({time}) THEN {time} END"
    amounts = "TRY_CAST(clicks AS DOUBLE[])"
    bad = "amounts IS NULL OR list_count(amounts) < len(clicks)"
    given = "array_to_string(clicks[:10], ' ')"
    hint = "''"
    if clicks == "positions":
        positions = "amounts"
        bad += " OR len(list_filter(amounts, lambda x: x <> floor(x))) > 0"
        vector = "len(clicks) = len(ranking) AND list_min(amounts) = 0 AND list_max(amounts) <= 1"
        given += f" || CASE WHEN {vector} THEN ' (a vector? see --clicks)' ELSE '' END"
        hint = "CASE WHEN list_has_all(ranking, clicks) THEN ' (items? see --clicks)' ELSE '' END"
    elif clicks == "vector":
        flag = "CASE lower(x) WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE x END"
        amounts = f"TRY_CAST(list_transform(clicks, lambda x: {flag}) AS DOUBLE[])"
        positions = "list_filter(range(1, len(ranking) + 1), lambda i: amounts[i] = 1)"
        bad += " OR len(amounts) <> len(ranking) OR len(list_filter(amounts, lambda x: x NOT IN (0, 1))) > 0"
    else:
        positions = "list_transform(clicks, lambda x: list_position(ranking, x))"
        bad = "clicks IS NULL"
    problem = {
        "problem IS NOT NULL": "problem",
        "query IS NULL": "'missing'",
        "when_ IS NULL": "CASE WHEN time IS NULL THEN 'missing' ELSE 'value' END",
        "ranking IS NULL OR list_count(ranking) < len(ranking)": "'value'",
        "len(ranking) = 0": "'empty'",
        f"len(ranking) > {LONGEST}": "'long'",
        "list_unique(ranking) < len(ranking)": "'repeated'",
        bad: "'value'",
    }  # fmt: skip
    detail = [
        "detail", "'no query'", "CASE WHEN time IS NULL THEN 'no time' ELSE 'time ' || time END", "'ranking'", "''",
        "len(ranking) || ' items'", "array_to_string(ranking[:10], ' ')",
        f"'clicks ' || coalesce(array_to_string(clicks[:10], ' '), '') || {hint}"
        + (" || ' for ' || len(ranking) || ' items'" if clicks == "vector" else ""),
    ]  # fmt: skip
    if "propensities" in kinds:
        problem[
            "len(propensities) > 0 AND (chances IS NULL OR list_count(chances) <>"
            f" {1 if one_propensity else 'len(ranking)'} OR list_min(chances) <= 0 OR list_max(chances) > 1)"
        ] = "'propensities'"
        detail.append("array_to_string(propensities[:10], ' ')")
    problems = " ".join(f"WHEN {test} THEN {kind}" for test, kind in problem.items())
    details = " ".join(f"WHEN {test} THEN {text}" for test, text in zip(problem, detail, strict=True))
    sources = {"time": "when_", "clicks": "good", "propensities": "CASE WHEN len(chances) > 0 THEN chances END"}
    made = ", ".join(f"TRY_CAST({sources.get(c, quoted(c))} AS {kind}) AS {quoted(c)}" for c, kind in kinds.items())
    return (
        f"WITH a AS (SELECT *, {time} AS when_, {amounts} AS amounts, TRY_CAST(propensities AS DOUBLE[]) AS chances"
        " FROM lists),"
        f" b AS (SELECT *, {positions} AS positions FROM a),"
        " c AS (SELECT *, list_filter(positions, lambda x: x >= 1 AND x <= len(ranking)) AS good FROM b)"
        f" SELECT line, CASE {problems} END AS problem, CASE {details} END AS detail,"
        f" len(positions) - len(good) AS lost, {given} AS given, {made} FROM c"
    )


def _tables(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    kinds: dict[str, str],
    report: LogReport,
    unshown: str,
    running: bool,
) -> Iterator[pa.Table]:
    """The rows that can be used; the others, and clicks that are left out, are added to the report."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in connection.sql(sql).to_arrow_reader(_BATCH):
        table = pa.Table.from_batches([batch])
        wrong = pc.is_valid(table.column("problem"))
        for kind, rows in _by_kind(table.filter(wrong)).items():
            _add(report, kind, rows)
        table = table.filter(pc.invert(wrong))
        lost = table.filter(pc.greater(table.column("lost"), 0)).select(["line", "given", "lost"])
        if len(lost):
            count = pc.sum(lost.column("lost")).as_py()
            first = [(row["line"], f"clicks {row['given']}") for row in lost.slice(0, EXAMPLES).to_pylist()]
            _add(report, unshown, first, count)
            report.lost_clicks += count
        out = table.select([*kinds, "line"])
        if running:
            times = np.arange(report.lists + 1, report.lists + len(out) + 1)
            out = out.set_column(out.schema.get_field_index("time"), "time", pa.array(times))
        report.lists += len(out)
        report.clicks += pc.sum(pc.list_value_length(out.column("clicks"))).as_py() or 0
        yield out


def _by_kind(table: pa.Table) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for row in table.select(["line", "problem", "detail"]).to_pylist():
        found.setdefault(row["problem"], []).append((row["line"], row["detail"] or ""))
    return found


def _add(report: LogReport, kind: str, rows: list[tuple[int, str]], count: int | None = None) -> None:
    for line, text in rows[:EXAMPLES]:
        report.add(kind, line, excerpt(text), 0)
    report.counts[kind] += len(rows) if count is None else count
