"""The aggregation of a click log, in SQL: for DuckDB, which runs it here, and for the warehouse where the log may lie.

A list's clicks become one integer, the mask: bit k - 1 is a click at position k. All that models ask about a position
is bit arithmetic on it, so one pass over the log suffices. Lists repeat: equal ones are counted first, so that few are
left to be taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from driftrank.logs.schema import LONGEST
from driftrank.validation import check_choice, check_known

if TYPE_CHECKING:
    from sqlglot import exp

#: the two kinds of statistics, and their columns. A row is counted in the last ones, the others say what it is about.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "positions": ("query", "item", "rank", "previous", "views", "clicks", "examined", "last_clicks"),
    "lists": ("query", "ranking", "mask", "lists"),
}
KEYS: Mapping[str, int] = {"positions": 4, "lists": 3}
"""How many columns say what a row is about."""

#: the steps; all but `seen` and the last one of positions are in the words of the database
_MASKED = "SELECT query, ranking, COALESCE({mask}, 0) AS mask FROM {table}"
_EQUAL = "SELECT query, ranking, mask, COUNT(*) AS lists FROM masked GROUP BY query, ranking, mask"
_LISTS = "SELECT query, {ranking} AS ranking, mask, COUNT(*) AS lists FROM masked GROUP BY 1, 2, 3"
_SEEN = """
SELECT
  query, item, place, mask, lists,
  mask % (CAST(1 AS BIGINT) << place) AS above,
  mask >> place AS below
FROM shown
"""
# `previous` is the place of the highest bit of `above`. Half is added before the logarithm is rounded down, and numbers
# beyond 2^31 are halved 31 times first, so that no rounding in any database's logarithm matters.
_POSITIONS = """
SELECT
  query, item, place + 1 AS rank,
  CASE
    WHEN above = 0 THEN 0
    WHEN above < 2147483648 THEN CAST(FLOOR(LOG(2, above + 0.5)) + 1 AS SMALLINT)
    ELSE CAST(FLOOR(LOG(2, (above >> 31) + 0.5)) + 32 AS SMALLINT)
  END AS previous,
  SUM(lists) AS views,
  SUM(CASE WHEN below % 2 = 1 THEN lists ELSE 0 END) AS clicks,
  SUM(CASE WHEN mask = 0 OR below > 0 THEN lists ELSE 0 END) AS examined,
  SUM(CASE WHEN below = 1 THEN lists ELSE 0 END) AS last_clicks
FROM seen
GROUP BY 1, 2, 3, 4
"""


class _Dialect(NamedTuple):
    """What a database says in its own way; the rest sqlglot translates."""

    mask: str  #: of the clicks of one list
    shown: str  #: lists taken apart, one row for each position, which `place` counts from 0
    lists: str = _EQUAL  #: equal lists counted
    ranking: str = "ranking"  #: in a form that can be grouped by, and written to any file
    functions: Mapping[str, str] = {}  #: instead of shifts and casts


_DIALECTS: Mapping[str, _Dialect] = {
    "duckdb": _Dialect(
        mask="LIST_AGGREGATE(LIST_TRANSFORM(clicks, LAMBDA p : CAST(1 AS BIGINT) << (p - 1)), 'bit_or')",
        shown="SELECT query, UNNEST(ranking) AS item, CAST(GENERATE_SUBSCRIPTS(ranking, 1) - 1 AS SMALLINT) AS place,"
        " mask, lists FROM lists",  # narrow columns are grouped faster
    ),
    "spark": _Dialect(
        mask="AGGREGATE(clicks, CAST(0 AS BIGINT), (m, p) -> m | SHIFTLEFT(CAST(1 AS BIGINT), CAST(p - 1 AS INT)))",
        shown="SELECT query, item, place, mask, lists FROM lists LATERAL VIEW POSEXPLODE(ranking) apart AS place, item",
        functions={"<<": "SHIFTLEFT", ">>": "SHIFTRIGHT"},
    ),
    "bigquery": _Dialect(
        mask="(SELECT BIT_OR(1 << (p - 1)) FROM UNNEST(clicks) AS p)",
        shown="SELECT query, item, place, mask, lists FROM lists"
        " CROSS JOIN UNNEST(ranking) AS item WITH OFFSET AS place",
        lists="SELECT query, ranking, mask, 1 AS lists FROM masked",  # some databases do not group by arrays
        ranking="TO_JSON_STRING(ranking)",
    ),
    "snowflake": _Dialect(
        mask="REDUCE(clicks, 0::INT, (m INT, p INT) -> BITOR(m, BITSHIFTLEFT(1::INT, p - 1))::INT)",
        shown="SELECT query, apart.value::VARCHAR AS item, apart.index AS place, mask, lists FROM lists,"
        " LATERAL FLATTEN(INPUT => ranking) AS apart",
        lists="SELECT query, ranking, mask, 1 AS lists FROM masked",
        ranking="TO_JSON(TO_VARIANT(ranking))",
        functions={"<<": "BITSHIFTLEFT", ">>": "BITSHIFTRIGHT"},
    ),
    "clickhouse": _Dialect(
        mask="arrayReduce('groupBitOr', arrayMap(p -> bitShiftLeft(toInt64(1), p - 1), clicks))",
        shown="SELECT query, item, number - 1 AS place, mask, lists FROM lists"
        " ARRAY JOIN ranking AS item, arrayEnumerate(ranking) AS number",
        functions={"<<": "bitShiftLeft", ">>": "bitShiftRight", "CAST": "toInt64"},
    ),
}

DIALECTS = tuple(_DIALECTS)


def aggregation(kind: str, relation: str, counted: bool = False) -> str:
    """The aggregation of a relation in DuckDB, without its empty lists; rows come in no order.

    Clicks beyond the end of a list, and lists that are too long, are errors. If ``counted``, the relation holds the
    statistics of lists, from which those of positions follow.

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
    if counted:
        ours = ours._replace(lists=f"SELECT * FROM {relation}")
    *steps, (_, last) = _steps(kind, ours, f"{relation} WHERE LEN(ranking) > 0")
    kept = [f"{name} AS ({text})" for name, text in steps if not (counted and name == "masked")]
    text = f"WITH {', '.join(kept)} {last}"
    return text if kind == "positions" else f"SELECT * FROM ({text}) WHERE {right}"


def print_sql(kind: str, dialect: str | None = None, table: str = "log") -> str:
    """The aggregation for a database that has the log as a table; its output is what `load_statistics` takes.

    Parameters
    ----------
    kind : "positions" or "lists"
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
    chosen = _DIALECTS[name]
    try:
        named = exp.maybe_parse(table, into=exp.Table, dialect=name)
    except sqlglot.ParseError:
        named = None
    if not isinstance(named, exp.Table) or named.alias:
        raise ValueError(f"table={table!r}: must be the name of a table as it is written in {name}")
    parsed = []
    for step, text in _steps(kind, chosen, table):
        ours = kind == "positions" and step in ("seen", "")
        tree = sqlglot.parse_one(text, read="duckdb" if ours else name, into=exp.Select)
        parsed.append((step, _translated(tree, chosen.functions) if ours else tree))
    *steps, (_, query) = parsed
    for step, tree in steps:
        query = query.with_(step, as_=tree, dialect=name)
    return query.sql(dialect=name, pretty=True)


def _translated(tree: exp.Select, functions: Mapping[str, str]) -> exp.Select:
    """Shifts and casts as functions, where a database has no operators for them."""
    from sqlglot import exp

    names = {exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>", exp.Cast: "CAST"}
    for node in reversed(list(tree.find_all(*names))):  # inner ones first
        if names[type(node)] in functions:
            operands = [node.args[name].unnest() for name in ("this", "expression") if name in node.args]
            function = exp.Anonymous(this=functions[names[type(node)]], expressions=operands)
            (node.parent if isinstance(node.parent, exp.Paren) else node).replace(function)
    return tree


def _steps(kind: str, dialect: _Dialect, table: str) -> list[tuple[str, str]]:
    """Names and texts of the common table expressions; the last, without a name, is the query."""
    masked = ("masked", _MASKED.format(mask=dialect.mask, table=table))
    if kind == "lists":
        return [masked, ("", _LISTS.format(ranking=dialect.ranking))]
    return [masked, ("lists", dialect.lists), ("shown", dialect.shown), ("seen", _SEEN), ("", _POSITIONS)]
