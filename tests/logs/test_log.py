from __future__ import annotations

import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest

from driftrank.logs import open_log

ROWS = "(VALUES ('a', 1, [1, 2], [1]), ('b', 2, [3], []), ('a', 3, [2, 1], [2, 1])) AS t(query, time, ranking, clicks)"


def parquet(path: Path, select: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = str(path).replace("'", "''")
    duckdb.sql(f"COPY ({select}) TO '{name}' (FORMAT parquet)")
    return path


def rows(log) -> list[tuple]:
    with log.connect() as connection:
        return connection.execute(f"SELECT * FROM {log.relation} ORDER BY time").fetchall()


ALL = [("a", 1, [1, 2], [1]), ("b", 2, [3], []), ("a", 3, [2, 1], [2, 1])]


def test_file_folder_and_pattern(tmp_path: Path) -> None:
    parquet(tmp_path / "d" / "1.parquet", f"SELECT * FROM {ROWS} WHERE time < 3")
    parquet(tmp_path / "d" / "2.parquet", f"SELECT *, 'phone' AS device, 9 AS page FROM {ROWS} WHERE time >= 3")
    log = open_log(tmp_path / "d" / "1.parquet")
    assert rows(log) == ALL[:2]
    assert log.types == {"query": "VARCHAR", "time": "BIGINT", "ranking": "BIGINT[]", "clicks": "INTEGER[]"}
    for source in (tmp_path / "d", tmp_path / "d" / "*.parquet"):
        log = open_log(source)
        assert rows(log) == [(*ALL[0], None), (*ALL[1], None), (*ALL[2], "phone")]
        assert [rows(part) for part in log.parts()] == [rows(log)[:2], rows(log)[2:]]
        assert all(part.types == log.types for part in log.parts())
        assert log.count() == 3
        assert log.span() == (1, 3)
        assert rows(pickle.loads(pickle.dumps(log))) == rows(log)


def test_names_are_mapped_and_types_converted(tmp_path: Path) -> None:
    select = """SELECT 5::UTINYINT AS q, TIMESTAMPTZ '2024-01-01 02:00:00+02' AS "when it was",
        ['x']::VARCHAR[1] AS docs, [1]::BIGINT[] AS "order", 8::SMALLINT AS "user", [0.5] AS p"""
    path = parquet(tmp_path / "it's.parquet", select)
    columns = {"query": "Q", "time": "when it was", "ranking": "docs", "clicks": "order", "propensities": "p"}
    log = open_log(path, columns)
    assert rows(log) == [(5, datetime(2024, 1, 1), ["x"], [1], 8, [0.5])]
    assert list(log.types.values()) == ["BIGINT", "TIMESTAMP", "VARCHAR[]", "INTEGER[]", "BIGINT", "DOUBLE[]"]
    assert log.between("2024-01-01").count() == 1
    assert log.between(None, datetime(2024, 1, 1)).count() == 0
    with pytest.raises(ValueError, match="start=3: must be a time such as"):
        log.between(3)


def test_a_table_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "my.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE clicks AS SELECT * FROM {ROWS}")
    assert rows(open_log(path)) == ALL  # the only table
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE VIEW few AS SELECT * FROM clicks WHERE time = 2")
    assert rows(open_log(f"{path}:clicks")) == ALL
    assert rows(open_log(f"{path}:few")) == ALL[1:2]
    with pytest.raises(ValueError, match=r"name a table, as in .*there are: clicks, few"):
        open_log(path)
    with pytest.raises(ValueError, match=r"no table 'many'.*there are: clicks, few"):
        open_log(f"{path}:many")


def test_between_and_split(tmp_path: Path) -> None:
    select = "SELECT i % 3 AS query, i // 2 AS time, [i] AS ranking, []::INT[] AS clicks FROM range(100) AS t(i)"
    log = open_log(parquet(tmp_path / "log.parquet", select))
    assert log.between(10, 20).count() == 20
    assert log.between(10).between(None, 12).count() == 4
    earlier, later = log.split(0.75)
    assert (earlier.count(), later.count()) == (74, 26)  # two lists at a time, which are not torn apart
    assert earlier.span() == (0, 36)
    assert later.span() == (37, 49)
    assert log.split(0.001)[0].count() == 2  # never nothing
    with pytest.raises(ValueError, match="all times are equal"):
        log.between(3, 4).split(0.5)
    with pytest.raises(ValueError, match="it is empty"):
        log.between(300).split(0.5)
    with pytest.raises(ValueError, match="fraction=1: must be"):
        log.split(1)


def test_a_split_is_as_exact_as_times_allow(tmp_path: Path) -> None:
    select = "SELECT 1 AS query, 99 - i AS time, [i] AS ranking, []::INT[] AS clicks FROM range(100) AS t(i)"
    log = open_log(parquet(tmp_path / "log.parquet", select))
    for percent in (1, 33, 50, 99):
        assert log.split(percent / 100)[0].count() == percent


def test_memory_and_threads(tmp_path: Path) -> None:
    log = open_log(parquet(tmp_path / "log.parquet", f"SELECT * FROM {ROWS}"), memory="300MB", threads=1)
    with log.connect() as connection:
        settings = connection.execute("SELECT current_setting('memory_limit'), current_setting('threads')").fetchone()
    assert settings == ("286.1 MiB", 1)
    with log.connect(threads=2) as connection:
        assert connection.execute("SELECT current_setting('threads')").fetchone() == (2,)


@pytest.mark.parametrize(
    ("select", "columns", "message"),
    [
        ("SELECT 1 AS q, 2 AS time, [1] AS ranking", None,
         "no column query, clicks; there are: q, time, ranking. A log has the columns query, time, ranking, clicks; "
         "map other names with columns, as in query=q"),
        ("SELECT 1 AS query, 2 AS time, [1] AS ranking, [1] AS clicks", {"user": "who"}, "no column who"),
        ("SELECT 1 AS query, 2 AS time, 'x' AS ranking, [1] AS clicks", None,
         "column ranking holds VARCHAR; ranking must be lists of text or of integers"),
        ("SELECT 1 AS query, 2 AS time, [1] AS ranking, ['x'] AS c", {"clicks": "c"},
         r"column c holds VARCHAR\[\]; clicks must be lists of integers"),
        ("SELECT 1.5 AS query, 2 AS time, [1] AS ranking, [1] AS clicks", None, "query must be text or integers"),
        ("SELECT 1 AS query, 'x' AS time, [1] AS ranking, [1] AS clicks", None, "time must be timestamps or numbers"),
    ],
)  # fmt: skip
def test_missing_or_wrong_columns(select: str, columns: dict[str, str] | None, message: str, tmp_path: Path) -> None:
    path = parquet(tmp_path / "log.parquet", select)
    with pytest.raises(ValueError, match=message) as error:
        open_log(path, columns)
    assert str(error.value).startswith(str(path))


def test_missing_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    for source, message in (
        ("nowhere", "no such file"),
        ("*.parquet", "cannot be read as a table"),
        ("empty", "a folder without"),
    ):
        with pytest.raises(ValueError, match=message):
            open_log(tmp_path / source)
    with pytest.raises(ValueError, match="a log has no column 'when', only query, time"):
        open_log(tmp_path / "cut.parquet", {"when": "time"})
    with pytest.raises(ValueError, match="threads=0"):
        open_log(tmp_path / "cut.parquet", threads=0)
    with pytest.raises(ValueError, match="memory='lots': must be an amount"):
        open_log(tmp_path / "cut.parquet", memory="lots")


class _Streamed:
    """A table of yet another library."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("library", ["pandas", "arrow", "views", "another"])
def test_tables_of_other_libraries(library: str) -> None:
    table = duckdb.sql(f"SELECT * FROM {ROWS}").to_arrow_table()
    if library == "pandas":
        source: Any = table.to_pandas()
    elif library == "views":  # the text of polars
        source = table.set_column(0, "query", table["query"].cast(pyarrow.string_view()))
    else:
        source = table if library == "arrow" else _Streamed(table)
    log = open_log(source)
    assert rows(log) == ALL
    (file,) = log.files
    assert log.source == type(source).__name__
    assert rows(open_log(source, {"time": "time"}).between(2)) == ALL[1:]
    del log
    assert not Path(file).exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (7, "source=int: must be a path, or a table of pandas, polars, Arrow"),
        (pyarrow.table({"query": ["a"]}), "Table: .*ranking"),
    ],
)
def test_tables_that_are_not_logs(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_log(source)
