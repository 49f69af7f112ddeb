from __future__ import annotations

import gzip

import duckdb
import pyarrow.compute as pc
import pytest

from driftrank.logs import open_log
from driftrank.logs.count.aggregation_sql import COLUMNS, KEYS
from driftrank.logs.count.load_statistics import load_statistics
from driftrank.logs.count.statistics import aggregate
from tests.logs.count.test_statistics import same_counts
from tests.logs.random_logs import random_rows, write_log

POSITIONS = "query,item,rank,previous,views,clicks,examined,last_clicks"


@pytest.fixture(scope="module", params=[True, False], ids=["text", "integers"])
def log(request, tmp_path_factory):
    rows = random_rows(5, text=request.param)
    return open_log(write_log(tmp_path_factory.mktemp("log") / "log.parquet", rows))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_saved_and_loaded(kind, end, log, tmp_path) -> None:
    statistics = aggregate(log, kind)
    statistics.save(tmp_path / f"statistics.{end}")
    loaded = load_statistics(tmp_path / f"statistics.{end}")
    assert loaded.kind == kind
    assert loaded.table.schema == statistics.table.schema
    same_counts(loaded.counts(), statistics.counts())
    again = tmp_path / f"again.{end}"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / f"statistics.{end}").read_bytes()  # in order, however they were counted


@pytest.mark.parametrize("kind", COLUMNS)
def test_files_of_a_warehouse(kind, log, tmp_path) -> None:
    """Names in capitals, wide decimals, lists as JSON with spaces, several files whose rows add up."""
    whole = aggregate(log, kind)
    theirs = {"query": "query", "item": "item", "ranking": "replace(to_json(ranking)::VARCHAR, ',', ', ')"}
    columns = ", ".join(f"{theirs.get(c, f'{c}::DECIMAL(38, 0)')} AS {c.upper()}" for c in COLUMNS[kind])
    (tmp_path / "out" / "deeper").mkdir(parents=True)
    (tmp_path / "out" / "_SUCCESS").touch()
    with duckdb.connect() as connection:
        connection.register("counted", whole.table)
        for i, file in enumerate(("part-0.parquet", "deeper/part-1.parquet")):
            rows = f"SELECT {columns} FROM (SELECT *, row_number() OVER () % 2 AS half FROM counted) WHERE half = {i}"
            connection.execute(f"COPY ({rows}) TO '{tmp_path}/out/{file}'")
        connection.execute(f"COPY (SELECT {columns} FROM counted) TO '{tmp_path}/whole.csv'")
    (tmp_path / "whole.csv.gz").write_bytes(gzip.compress((tmp_path / "whole.csv").read_bytes()))
    for path in ("out", "out/**/*.parquet", "whole.csv.gz"):
        same_counts(load_statistics(tmp_path / path).counts(), whole.counts())
    twice = load_statistics(f"{tmp_path}/whole.*")
    key = COLUMNS[kind][KEYS[kind]]
    assert pc.sum(twice.table[key]).as_py() == 2 * pc.sum(whole.table[key]).as_py()


def test_names_in_text_files(tmp_path) -> None:
    path = tmp_path / "statistics.csv"
    path.write_text(f"{POSITIONS}\n007,12,1,0,3,1,3,1\n,13,2,0,3,0,2,0\n")
    table = load_statistics(path).table
    assert set(table["query"].to_pylist()) == {"007", ""}  # not numbers: they would be written in another way
    assert set(table["item"].to_pylist()) == {12, 13}
    path.write_text('query,ranking,mask,lists\nq,"[""9007199254740993"", 5]",0,1\n')  # large integers as text
    assert load_statistics(path).table["ranking"].to_pylist() == [[9007199254740993, 5]]
    path.write_text("query,ranking,mask,lists\nq,[],0,3\nq,[4],0,1\n")  # no database leaves out empty lists
    assert load_statistics(path).lists == 1


GOOD = "q,a,2,1,5,2,4,1"
WRONG = {
    f"{POSITIONS.replace('previous', 'before')}\n{GOOD}": "no column previous; statistics of positions have",
    "query,ranking,lists\nq,[1],3": "no column mask; statistics of positions",
    f"{POSITIONS}\nq,a,x,1,5,2,4,1": "rank='x': must be an integer",
    f"{POSITIONS}\nq,a,2,1,5.5,2,4,1": "views='5.5': must be an integer",
    f"{POSITIONS}\n{GOOD}\nq,a,2,0,,2,4,1": "views='': must be an integer",
    f"{POSITIONS}\nq,a,63,1,5,2,4,1": "rank must be from 1 to 62",
    f"{POSITIONS}\nq,a,0,0,5,2,4,1": "not so in 1 row, the first with query='q', item='a', rank=0",
    f"{POSITIONS}\nq,a,2,2,5,2,4,1": "previous must be from 0 to rank - 1",
    f"{POSITIONS}\nq,a,2,1,5,-2,4,-3": "counts must not be negative",
    f"{POSITIONS}\nq,a,2,1,5,6,4,1": "clicks must be at most views",
    f"{POSITIONS}\nq,a,2,1,5,2,6,1": "examined must be at most views",
    f"{POSITIONS}\nq,a,2,1,5,2,1,1": "clicks must be at most examined",
    f"{POSITIONS}\nq,a,2,1,5,2,4,3\nq,b,2,1,5,2,4,3": "last_clicks must be at most clicks; not so in 2 rows",
    "query,ranking,mask,lists\nq,a b,0,1": r"ranking='a b': must be a list, written as JSON",
    "query,ranking,mask,lists\nq,3,0,1": r"ranking='3': must be a list",
    f'query,ranking,mask,lists\nq,"{list(range(63))}",0,1': "ranking must have at most 62 items",
    "query,ranking,mask,lists\nq,[1],2,1": "mask must have no click beyond the end",
    "query,ranking,mask,lists\nq,[1],-1,1": "mask must have no click beyond the end",
    "query,ranking,mask,lists\nq,[1],1,-1": "lists must not be negative",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_invalid_statistics(text, tmp_path) -> None:
    path = tmp_path / "statistics.csv"
    path.write_text(text + "\n")
    with pytest.raises(ValueError, match=r"statistics\.csv: ") as caught:
        load_statistics(path)
    assert WRONG[text] in str(caught.value)


def test_not_files_of_statistics(log, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"no such file; files ending in \.parquet, \.csv"):
        load_statistics(tmp_path / "nowhere.parquet")
    (tmp_path / "statistics.txt").touch()
    with pytest.raises(ValueError, match="must be files ending in"):
        load_statistics(tmp_path / "statistics.txt")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"broken\.parquet: cannot be read"):
        load_statistics(tmp_path / "broken.parquet")
    (tmp_path / "other.csv").touch()
    with pytest.raises(ValueError, match="both Parquet and CSV files"):
        load_statistics(tmp_path)
    statistics = aggregate(log, "lists")
    with pytest.raises(ValueError, match=r"'.json': must be one of '.parquet', '.csv'"):
        statistics.save(tmp_path / "statistics.json")
    with pytest.raises(ValueError, match="there is no folder"):
        statistics.save(tmp_path / "no" / "statistics.csv")
