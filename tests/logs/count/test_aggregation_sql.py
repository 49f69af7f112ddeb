from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from driftrank.logs.count.aggregation_sql import COLUMNS, DIALECTS, aggregation, coarser, print_sql
from tests.logs.random_logs import COUNT, as_dict, random_rows

WAREHOUSES = sorted(set(DIALECTS) - {"duckdb"})


def connection(rows):
    kind = pa.string() if isinstance(rows[0][0], str) else pa.int64()
    log = pa.table(
        {
            "query": [row[0] for row in rows],
            "ranking": pa.array([row[1] for row in rows], pa.list_(kind)),
            "clicks": pa.array([row[2] for row in rows], pa.list_(pa.int32())),
        }
    )
    made = duckdb.connect()
    made.register("log", log)
    return made


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("longest", [5, 62])
def test_the_definitions(kind, longest):
    rows = random_rows(longest, lists=200, longest=longest)
    for sql in (
        aggregation(kind, "log"),
        f"SELECT * FROM ({print_sql(kind)}) WHERE {'len(ranking)' if kind == 'lists' else 'views'} > 0",
    ):
        with connection(rows) as made:
            assert as_dict(kind, made.sql(sql).to_arrow_table()) == COUNT[kind](rows)


def test_every_highest_bit():
    # one click at c, and the rank after all others: the mask above it is a power of two, or all ones up to it
    length = 62
    ranking = list(range(length))
    single = [("q", [str(i) for i in ranking], [c]) for c in range(1, length)]
    filled = [("q", [str(i) for i in ranking], list(range(1, c + 1))) for c in range(1, length)]
    for rows in (single, filled):
        with connection(rows) as made:
            found = as_dict("positions", made.sql(aggregation("positions", "log")).to_arrow_table())
        last = {key[3]: value for key, value in found.items() if key[2] == length}
        assert last == dict.fromkeys(range(1, length), (1, 0, 0, 0))


@pytest.mark.parametrize("kind", ["ratios", "positions"])
def test_statistics_of_lists_suffice(kind):
    rows = random_rows(1)
    with connection(rows) as made:
        made.register("counted", made.sql(aggregation("lists", "log")).to_arrow_table())
        found = made.sql(aggregation(kind, "counted", counted=True)).to_arrow_table()
    assert as_dict(kind, found) == COUNT[kind](rows)


def test_statistics_of_positions_suffice_for_ratios():
    rows = random_rows(3)
    with connection(rows) as made:
        made.register("counted", made.sql(aggregation("positions", "log")).to_arrow_table())
        found = made.sql(coarser("counted")).to_arrow_table()
    assert as_dict("ratios", found) == COUNT["ratios"](rows)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "row", [(["a"], [2]), (["a"], [0]), (["a"], [-1]), (["a"], [99]), ([str(i) for i in range(63)], [])]
)
def test_lists_that_cannot_be_counted_are_errors(kind, row):
    with connection([("q", *row)]) as made, pytest.raises(duckdb.Error):
        made.sql(aggregation(kind, "log")).fetchall()


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_printed_sql_is_that_of_the_dialect(kind, dialect):
    text = print_sql(kind, dialect, table="clicklog")
    tree = sqlglot.parse_one(text, read=dialect)
    assert tree.named_selects == list(COLUMNS[kind])
    assert [cte.alias for cte in tree.ctes] == (["masked"] if kind == "lists" else ["masked", "shown", "seen"])
    assert "clicklog" in {table.name for table in tree.find_all(exp.Table)}
    assert tree.sql(dialect=dialect, pretty=True) == text


#: the parts specific to a database, in the syntax of DuckDB; sqlglot translates the rest
IN_DUCKDB = {
    "bigquery": {
        "place,\n    mask\n  FROM masked": "place - 1 AS place,\n    mask\n  FROM masked",
        "BIT_OR(1 <<": "BIT_OR(CAST(1 AS INT64) <<",
        "TO_JSON_STRING(ranking)": "ranking",
    },  # sqlglot makes an ordinality, from 1, of the offset
    "snowflake": {
        ", LATERAL FLATTEN(INPUT => ranking) AS apart(SEQ, KEY, PATH, INDEX, VALUE, THIS)": "",
        "apart.value": "UNNEST(ranking)",
        "apart.index": "GENERATE_SUBSCRIPTS(ranking, 1) - 1",
        "TO_JSON(TO_VARIANT(ranking))": "ranking",
        "AS INT)": "AS BIGINT)",
    },
    "clickhouse": {
        "arrayReduce('groupBitOr', arrayMap(p -> bitShiftLeft(toInt64(1), p - 1), clicks))": "LIST_BIT_OR(clicks)",
        "item,\n    number - 1 AS place": "UNNEST(ranking) AS item,\n    GENERATE_SUBSCRIPTS(ranking, 1) - 1 AS place",
        "\n  ARRAY JOIN ranking AS item,\n    arrayEnumerate(ranking) AS number": "",
        "toInt64": "TO_INT64",
    },
    "spark": {},
}  # fmt: skip

MACROS = """
CREATE MACRO list_bit_or(clicks) AS list_aggregate(list_transform(clicks, lambda p: 1::BIGINT << (p - 1)), 'bit_or');
CREATE MACRO to_int64(x) AS x::BIGINT;
CREATE MACRO bitshiftleft(x, n) AS x << n::INT;
CREATE MACRO bitshiftright(x, n) AS x >> n::INT;
"""


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("dialect", WAREHOUSES)
def test_printed_sql_counts_the_same(kind, dialect):
    rows = [row for row in random_rows(2, longest=40) if row[1]]
    text = print_sql(kind, dialect)
    for theirs, ours in IN_DUCKDB[dialect].items():
        if theirs in text:
            text = text.replace(theirs, ours)
    with connection(rows) as made:
        made.execute(MACROS)
        found = made.sql(sqlglot.transpile(text, read=dialect, write="duckdb")[0]).to_arrow_table()
    assert as_dict(kind, found) == COUNT[kind](rows)


def test_parts_specific_to_a_warehouse():
    assert "POSEXPLODE(ranking)" in print_sql("positions", "spark")
    assert "WITH OFFSET AS place" in print_sql("positions", "bigquery")
    assert "LATERAL FLATTEN(INPUT => ranking)" in print_sql("positions", "snowflake")
    assert "ARRAY JOIN ranking AS item" in print_sql("positions", "clickhouse")
    for dialect, log2 in {
        "bigquery": "LOG(above + 0.5, 2)",
        "snowflake": "LOG(2, above + 0.5)",
        "clickhouse": "LOG2(",
    }.items():
        assert log2 in print_sql("positions", dialect)
    assert "<<" not in print_sql("positions", "clickhouse")
    assert ">>" not in print_sql("positions", "snowflake")


def test_wrong_names():
    with pytest.raises(ValueError, match="unknown dialect 'sparc'; did you mean spark"):
        print_sql("lists", "sparc")
    with pytest.raises(ValueError, match="kind='queries': must be one of 'ratios', 'positions', 'lists'"):
        print_sql("queries")
    with pytest.raises(ValueError, match="kind='queries'"):
        aggregation("queries", "log")
    with pytest.raises(ValueError, match=r"table='a b c': must be the name of a table, in the syntax of duckdb"):
        print_sql("lists", table="a b c")
    assert "FROM `my-project.web.log`" in print_sql("lists", "bigquery", table="`my-project.web.log`")
