from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from driftrank.logs import open_log
from driftrank.logs.checking import check
from driftrank.logs.stats import QuerySummary, summarise


def parquet(path: Path, rows: str, columns: str = 'query, time, ranking, clicks, "user"') -> Path:
    duckdb.sql(f"COPY (FROM (VALUES {rows}) t({columns})) TO '{path}' (FORMAT parquet)")
    return path


def rows_of(found) -> dict[str, list[int]]:
    return {kind: [problem.line for problem in problems] for kind, problems in found.report.examples.items()}


def test_a_good_log(tmp_path: Path) -> None:
    found = check(
        parquet(tmp_path / "log", "('a', 1, [1, 2], [2, 2], 7), ('b', 2, [3], [], 7), ('a', 3, [2, 1], [1], 8)")
    )
    assert found.good
    assert found.report.counts == {}
    assert dict(found.counts) == {
        "lists": 3, "queries": 2, "items": 3, "users": 2, "clicks": 3, "repeated clicks": 1,
        "lists without click": 1,
    }  # fmt: skip
    assert found.click_rate == pytest.approx(2 / 3)
    assert (found.first, found.last, found.gaps) == (1, 3, [])
    assert found.positions == [(3, 1), (2, 1)]  # two clicks on one result are one list in which it was clicked


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("('a', 4, [], [], 1)", "empty"),
        ("('a', 4, [1, 2], [3], 1)", "position"),
        ("('a', 4, [1, 2], [1, 0], 1)", "position"),
        ("('a', 4, [1, 2, 1], [1], 1)", "repeated"),
        ("('a', 4, range(63), [], 1)", "long"),
        ("(NULL, 4, [1], [], 1)", "missing"),
        ("('a', NULL, [1], [], 1)", "missing"),
        ("('a', 4, NULL, [], 1)", "missing"),
        ("('a', 4, [1], NULL, 1)", "missing"),
        ("('a', 4, [1, NULL], [], 1)", "missing"),
        ("('a', 4, [1], [NULL], 1)", "missing"),
    ],
)
def test_rows_that_cannot_be_used(row: str, kind: str, tmp_path: Path) -> None:
    found = check(parquet(tmp_path / "log", f"('a', 1, [1, 2], [2], 7), ('b', 2, [3], [], 7), {row}"))
    assert not found.good
    assert rows_of(found) == {kind: [3]}
    assert found.report.counts == {kind: 1}
    assert found.positions[0][0] >= 2


def test_propensities(tmp_path: Path) -> None:
    rows = "('a', 1, [1, 2], [2], [0.5, 1.0]), ('b', 2, [3], [], NULL), ('b', 3, [3], [], [0.5, 0.5])"
    rows += ", ('b', 4, [3], [], [0.0]), ('b', 5, [3], [], [1.5])"
    found = check(parquet(tmp_path / "log", rows, "query, time, ranking, clicks, propensities"))
    assert rows_of(found) == {"propensities": [3, 4, 5]}


def test_duplicates_and_clock(tmp_path: Path) -> None:
    rows = """('a', TIMESTAMP '2024-01-01', [1, 2], [2], 7), ('b', TIMESTAMP '2024-01-02', [3], [], 7),
        ('a', TIMESTAMP '2024-01-01', [1, 2], [2], 7), ('a', TIMESTAMP '2024-01-01', [2, 1], [2], 7),
        ('a', TIMESTAMP '2024-01-01', [1, 2], [2], 8), ('a', TIMESTAMP '2024-03-01', [1, 2], [2], 8)"""
    found = check(parquet(tmp_path / "log", rows))
    assert found.good  # odd, but each can be used
    assert rows_of(found) == {"clock": [3], "duplicate": [3], "again": [4]}
    assert found.gaps[0] == (timedelta(days=60), 6, datetime(2024, 3, 1))
    assert "time 2024-01-01 00:00:00" in "\n".join(found.report.details())
    content = found.to_dict()
    assert content["gaps"][0] == {"length": "60 days, 0:00:00", "row": 6, "time": "2024-03-01 00:00:00"}
    assert content["problems"]["duplicate"]["count"] == 1


def test_several_files(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", "('a', 1, [1, 2], [2], 7), ('a', 2, [1, 2], [2], 7)")
    parquet(tmp_path / "2.parquet", "('a', 3, [1, 2], [2], 7), ('a', 4, [], [], 7), ('a', 1, [1, 2], [2], 7)")
    found = check(tmp_path)
    assert rows_of(found) == {"empty": [2], "clock": [3], "duplicate": [3]}
    assert str(tmp_path / "2.parquet") in found.report.examples["empty"][0].text
    with duckdb.connect(str(tmp_path / "my.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS FROM read_parquet('{tmp_path}/*.parquet')")
    assert rows_of(check(tmp_path / "my.duckdb")) == {"empty": [4], "clock": [5], "duplicate": [5]}


def test_text_by_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("1\t0\tQ\t7\t1\t" + "\t".join(map(str, range(10))) + "\n\n1\t1\tC\t55\n1\t2\tC\t3\n")
    found = check(path)
    assert rows_of(found) == {"unshown": [3], "blank": [2]}
    assert not found.good
    assert found.counts["clicks"] == 1
    log = open_log(path, quiet=True)
    check(log)
    assert set(log.report.counts) == {"unshown", "blank"}  # looking does not change it
    (tmp_path / "nothing").touch()
    found = check(tmp_path / "nothing")
    assert found.good
    assert found.positions == []
    assert found.to_dict()["click_rate"] is None


def test_summarise(tmp_path: Path) -> None:
    rows = "('a', 1, [1, 2], [2, 2], 7), ('b', 2, [3], [], 7), ('a', 3, [2, 3], [], 8), ('c', 9, [4], [1], 8)"
    found = summarise(parquet(tmp_path / "log", rows), top=2)
    assert found.top == [QuerySummary("a", 2, 3, 2, 1), QuerySummary("b", 1, 1, 0, 0)]
    assert (found.lists, found.queries, found.clicks, found.first, found.last) == (4, 3, 3, 1, 9)
    assert found.to_dict()["top"][0]["click_rate"] == 0.5
