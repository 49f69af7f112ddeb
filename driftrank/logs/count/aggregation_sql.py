"""The aggregation of a click log in SQL: for DuckDB, which runs it here, and for data warehouses.

The clicks of a list become one integer, the mask: bit k - 1 is a click at position k. The statistics of a position are
bit arithmetic on it, so one pass over the log suffices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from driftrank.logs.schema import LONGEST
from driftrank.validation import check_choice, check_known

if TYPE_CHECKING:
    from sqlglot import exp

_OF_ITEMS = ("query", "item", "rank", "previous", "views", "clicks", "examined", "last_clicks")

#: the kinds of statistics, each with all the information of those before it, and their columns: first the keys, then
#: the counts. Ratios are positions in less detail: `rank` is 0 without a click, and `previous` 1 for any click above.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "ratios": _OF_ITEMS,
    "positions": _OF_ITEMS,
    "lists": ("query", "ranking", "mask", "lists"),
}
KEYS: Mapping[str, int] = {"ratios": 4, "positions": 4, "lists": 3}
"""The number of key columns."""

#: the steps; all but `seen` and the last one are written in the dialect of the database
_MASKED = "SELECT query, ranking, COALESCE({mask}, 0) AS mask FROM {table}"
_LISTS = "SELECT query, {ranking} AS ranking, mask, COUNT(*) AS lists FROM masked GROUP BY 1, 2, 3"
_SEEN = """
SELECT
  query, item, place, mask{weight},
  mask % (CAST(1 AS BIGINT) << place) AS above,
  mask >> place AS below
FROM shown
"""
# `previous` is the place of the highest bit of `above`. Half is added before the logarithm is rounded down, and numbers
# beyond 2^31 are halved 31 times first, so that no rounding in any database's logarithm matters.
_PLACES: Mapping[str, str] = {
    "ratios": """
  CAST(CASE WHEN below % 2 = 1 THEN place + 1 ELSE 0 END AS SMALLINT) AS rank,
  CAST(CASE WHEN above = 0 THEN 0 ELSE 1 END AS SMALLINT) AS previous
""",
    "positions": """
  place + 1 AS rank,
  CASE
    WHEN above = 0 THEN 0
    WHEN above < 2147483648 THEN CAST(FLOOR(LOG(2, above + 0.5)) + 1 AS SMALLINT)
    ELSE CAST(FLOOR(LOG(2, (above >> 31) + 0.5)) + 32 AS SMALLINT)
  END AS previous
""",
}
_COUNTED = """
SELECT
  query, item, {places}, {counts}
FROM seen
GROUP BY 1, 2, 3, 4
"""
_THOSE = {"clicks": "below % 2 = 1", "examined": "mask = 0 OR below > 0", "last_clicks": "below = 1"}


class _Dialect(NamedTuple):
    """The parts that are specific to a database; sqlglot translates the rest."""

    mask: str  #: the mask of the clicks of one list
    shown: str  #: one row per position, which `place` counts from 0
    ranking: str = "ranking"  #: in a form for GROUP BY and for any file format
    functions: Mapping[str, str] = {}  #: instead of shifts and casts


_DIALECTS: Mapping[str, _Dialect] = {
    "duckdb": _Dialect(
        mask="LIST_AGGREGATE(LIST_TRANSFORM(clicks, LAMBDA p : CAST(1 AS BIGINT) << (p - 1)), 'bit_or')",
        shown="SELECT query, UNNEST(ranking) AS item, CAST(GENERATE_SUBSCRIPTS(ranking, 1) - 1 AS SMALLINT) AS place,"
        " mask{weight} FROM masked",  # narrow columns are grouped faster
    ),
    "spark": _Dialect(
        mask="AGGREGATE(clicks, CAST(0 AS BIGINT), (m, p) -> m | SHIFTLEFT(CAST(1 AS BIGINT), CAST(p - 1 AS INT)))",
        shown="SELECT query, item, place, mask{weight} FROM masked"
        " LATERAL VIEW POSEXPLODE(ranking) apart AS place, item",
        functions={"<<": "SHIFTLEFT", ">>": "SHIFTRIGHT"},
    ),
    "bigquery": _Dialect(
        mask="(SELECT BIT_OR(1 << (p - 1)) FROM UNNEST(clicks) AS p)",
        shown="SELECT query, item, place, mask{weight} FROM masked"
        " CROSS JOIN UNNEST(ranking) AS item WITH OFFSET AS place",
        ranking="TO_JSON_STRING(ranking)",
    ),
    "snowflake": _Dialect(
        mask="REDUCE(clicks, 0::INT, (m INT, p INT) -> BITOR(m, BITSHIFTLEFT(1::INT, p - 1))::INT)",
        shown="SELECT query, apart.value::VARCHAR AS item, apart.index AS place, mask{weight} FROM masked,"
        " LATERAL FLATTEN(INPUT => ranking) AS apart",
        ranking="TO_JSON(TO_VARIANT(ranking))",
        functions={"<<": "BITSHIFTLEFT", ">>": "BITSHIFTRIGHT"},
    ),
    "clickhouse": _Dialect(
        mask="arrayReduce('groupBitOr', arrayMap(p -> bitShiftLeft(toInt64(1), p - 1), clicks))",
        shown="SELECT query, item, number - 1 AS place, mask{weight} FROM masked"
        " ARRAY JOIN ranking AS item, arrayEnumerate(ranking) AS number",
        functions={"<<": "bitShiftLeft", ">>": "bitShiftRight", "CAST": "toInt64"},
    ),
}

DIALECTS = tuple(_DIALECTS)


def aggregation(kind: str, relation: str, counted: bool = False) -> str:
    """The aggregation of a relation in DuckDB, without its empty lists; the order of rows is arbitrary.

    Clicks beyond the end of a list, and lists that are too long, are errors. If ``counted``, the relation holds the
    statistics of lists, from which the others follow.

    >>> import duckdb
    >>> log = "(SELECT 'tea' AS query, ['a', 'b'] AS ranking, [2] AS clicks)"
    >>> for row in sorted(duckdb.sql(aggregation("positions", log)).fetchall()):
    ...     print(row)
    ('tea', 'a', 1, 0, 1, 0, 1, 0)
    ('tea', 'b', 2, 0, 1, 1, 1, 1)
    """
    check_choice("kind", kind, tuple(COLUMNS))
    ours = _DIALECTS["duckdb"]
    right = (
        f"CASE WHEN LEN(ranking) > {LONGEST} THEN ERROR('a list of more than {LONGEST} items')"
        " WHEN mask >> LEN(ranking) > 0 THEN ERROR('a click beyond the end of its list') ELSE TRUE END"
    )
    ours = ours._replace(shown=f"{ours.shown} WHERE {right}")
    steps = dict(_steps(kind, ours, f"{relation} WHERE LEN(ranking) > 0", counted))
    if counted:
        steps["masked"] = f"SELECT * FROM {relation}"
    last = steps.pop("")
    text = f"WITH {', '.join(f'{name} AS ({text})' for name, text in steps.items())} {last}"
    return f"SELECT * FROM ({text}) WHERE {right}" if kind == "lists" else text


def coarser(relation: str) -> str:
    """The statistics of ratios, in DuckDB, from those of positions."""
    sums = ", ".join(f"SUM({name}) AS {name}" for name in COLUMNS["ratios"][KEYS["ratios"] :])
    # the lists with a click there, and those without
    clicked = "SELECT query, item, rank, previous, clicks AS views, clicks, clicks AS examined, last_clicks"
    others = "SELECT query, item, 0, previous, views - clicks, 0, examined - clicks, 0"
    parts = f"{clicked} FROM {relation} WHERE clicks > 0 UNION ALL {others} FROM {relation} WHERE views > clicks"
    return f"SELECT query, item, rank, LEAST(previous, 1) AS previous, {sums} FROM ({parts}) GROUP BY 1, 2, 3, 4"


def print_sql(kind: str, dialect: str | None = None, table: str = "log") -> str:
    """The aggregation for a database with the log as a table; `load_statistics` reads its output.

    Parameters
    ----------
    kind : "ratios", "positions" or "lists"
    dialect : "spark", "bigquery", "snowflake", "clickhouse", or "duckdb" (None)
    table : the table's name, with columns query, ranking (array of items) and clicks (array of positions, from 1)

    >>> print(print_sql("lists", "clickhouse"))
    WITH masked AS (
      SELECT
        query,
        ranking,
        COALESCE(
          arrayReduce('groupBitOr', arrayMap(p -> bitShiftLeft(toInt64(1), p - 1), clicks)),
          0
        ) AS mask
      FROM log
    )
    SELECT
      query,
      ranking AS ranking,
      mask,
      COUNT(*) AS lists
    FROM masked
    GROUP BY
      1,
      2,
      3
    """
    import sqlglot
    from sqlglot import exp

    check_choice("kind", kind, tuple(COLUMNS))
    name = "duckdb" if dialect is None else dialect
    check_known("dialect", name, DIALECTS)
    check_table("table", table, name)
    chosen = _DIALECTS[name]
    parsed = []
    for step, text in _steps(kind, chosen, table):
        ours = kind != "lists" and step in ("seen", "")
        tree = sqlglot.parse_one(text, read="duckdb" if ours else name, into=exp.Select)
        parsed.append((step, _translated(tree, chosen.functions) if ours else tree))
    *steps, (_, query) = parsed
    for step, tree in steps:
        query = query.with_(step, as_=tree, dialect=name)
    return query.sql(dialect=name, pretty=True)


def check_table(name: str, table: str, dialect: str) -> None:
    """Check for the name of a table."""
    import sqlglot
    from sqlglot import exp

    try:
        named = exp.maybe_parse(table, into=exp.Table, dialect=dialect)
    except sqlglot.ParseError:
        named = None
    if not isinstance(named, exp.Table) or named.alias:
        raise ValueError(f"{name}={table!r}: must be the name of a table, in the syntax of {dialect}")


def _translated(tree: exp.Select, functions: Mapping[str, str]) -> exp.Select:
    """Replace shifts and casts by functions, if the database has no operators for them."""
    from sqlglot import exp

    names = {exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>", exp.Cast: "CAST"}
    for node in reversed(list(tree.find_all(*names))):  # inner ones first
        if names[type(node)] in functions:
            operands = [node.args[name].unnest() for name in ("this", "expression") if name in node.args]
            function = exp.Anonymous(this=functions[names[type(node)]], expressions=operands)
            (node.parent if isinstance(node.parent, exp.Paren) else node).replace(function)
    return tree


def _steps(kind: str, dialect: _Dialect, table: str, counted: bool = False) -> list[tuple[str, str]]:
    """Names and texts of the common table expressions; the last, without a name, is the query."""
    masked = ("masked", _MASKED.format(mask=dialect.mask, table=table))
    if kind == "lists":
        return [masked, ("", _LISTS.format(ranking=dialect.ranking))]
    weight = ", lists" if counted else ""
    counts = {"views": "COUNT(*)"} | {name: f"COUNT_IF({those})" for name, those in _THOSE.items()}
    if counted:  # every row stands for several lists
        sums = {name: f"SUM(CASE WHEN {those} THEN lists ELSE 0 END)" for name, those in _THOSE.items()}
        counts = {"views": "SUM(lists)"} | sums
    named = ", ".join(f"{count} AS {name}" for name, count in counts.items())
    last = _COUNTED.format(places=_PLACES[kind], counts=named)
    return [masked, ("shown", dialect.shown.format(weight=weight)), ("seen", _SEEN.format(weight=weight)), ("", last)]
