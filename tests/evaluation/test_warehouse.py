"""SQL for warehouses: the same estimates as from the log, to the last digits."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import driftrank as dr
from driftrank.cli.app import run
from driftrank.evaluation.warehouse import DIALECTS, estimates, print_sql, read_sums
from tests.evaluation import worlds
from tests.evaluation.worlds import BEST, draw, softmax, uniform, write

N = 5000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with lists of several lengths, missing propensities and users who return; and the sums of the SQL."""
    folder = tmp_path_factory.mktemp("warehouse")
    rng = np.random.default_rng(1)
    drawn = draw(rng, N, softmax)
    rankings, p = worlds.LISTS[drawn.number].tolist(), drawn.propensities.tolist()
    for i in range(0, N, 3):
        rankings[i], p[i] = rankings[i][:2], p[i][:2]
        drawn.first[i] = drawn.first[i] if drawn.first[i] <= 2 else 4
    p[7], p[8] = None, [0.0, 0.5, 0.5]
    write(
        folder / "log.parquet", drawn, rng.integers(0, N // 3, N),
        ranking=pa.array(rankings, pa.list_(pa.int64())), propensities=pa.array(p, pa.list_(pa.float64())),
    )  # fmt: skip
    counted(folder / "log.parquet", folder / "sums.parquet")
    return folder


def counted(log: Path, out: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE log AS SELECT * FROM '{log}'")
        connection.execute("CREATE TABLE target (query VARCHAR, ranking BIGINT[])")
        connection.executemany("INSERT INTO target VALUES (?, ?)", [[q, r] for q, r in BEST.items()])
        connection.execute(f"COPY ({print_sql(3)}) TO '{out}'")


def test_the_same_estimates(folder: Path) -> None:
    found = estimates(read_sums(folder / "sums.parquet"))
    ladder = dr.evaluate(folder / "log.parquet", BEST, k=3, changes=0).ladder("rankings")
    assert set(found) == {"dr", "prefix", "list", "self-normalised", "product-limit"}
    for key, estimate in found.items():
        ours = ladder[key]
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (ours.value, ours.low, ours.high), abs=1e-12
        )
        assert estimate.lists == ours.lists == N - 2
        assert estimate.effective == pytest.approx(ours.effective)
        assert estimate.grade is None  # not all checks were made


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("k", [1, 4])
def test_dialects(dialect: str, k: int) -> None:
    sql = print_sql(k, dialect, "shop.clicks", "shop.lists")
    tree = sqlglot.parse_one(sql, read=dialect)
    names = [column.alias_or_name.lower() for column in tree.selects]  # type: ignore[attr-defined]
    assert names[:3] == ["bucket", "lists", "reward"]
    assert names[-2:] == [f"at_risk{k}", f"clicked{k}"]
    assert {table.sql(dialect) for table in tree.find_all(sqlglot.exp.Table)} >= {"shop.lists"}


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "--print-sql", "--k", "3"]) == 0
    assert capsys.readouterr().out == print_sql(3) + ";\n"
    assert run(["evaluate", "--from-sums", str(folder / "sums.parquet")]) == 0
    shown = capsys.readouterr().out
    assert "reading from the top" in shown
    assert "Not checked" in shown
    write(folder / "few.parquet", draw(np.random.default_rng(2), 300, uniform))
    counted(folder / "few.parquet", folder / "few-sums.csv")
    assert run(["evaluate", "--from-sums", str(folder / "few-sums.csv")]) == 3
    assert "refused (few)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--print-sql"], "k: must be given"),
        (["--print-sql", "--k", "0"], "k=0"),
        (["--print-sql", "--k", "2", "--dialect", "cobol"], "unknown dialect 'cobol'"),
        (["--print-sql", "--k", "2", "--table", "a; b"], "table='a; b'"),
        (["--from-sums", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--from-sums", "LOG"], "must be the output of the printed SQL"),
        (["LOG", "--from-sums", "x.csv"], "not both"),
        ([], "give a log, or --from-sums"),
    ],
)
def test_wrong_input(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    given = [str(folder / "log.parquet") if word == "LOG" else word for word in options]
    assert run(["evaluate", *given]) == 2
    assert message in capsys.readouterr().err
