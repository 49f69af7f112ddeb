"""Rows without their lists: an item, its position, and its click."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftrank.clickmodels import CM, DBN, PBM, UBM
from driftrank.fitting.fit import fit_log
from driftrank.logs import check, drift, open_log
from driftrank.logs.conversion.convert import convert
from driftrank.logs.count.statistics import aggregate
from driftrank.logs.log import Log

EXAMINATION = np.array([1.0, 0.5, 0.25])
ATTRACTION = np.array([0.02, 0.04, 0.06, 0.08])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Random items at random positions, as in the Open Bandit Dataset, but more of them."""
    rng = np.random.default_rng(0)
    n = 200_000
    item, position = rng.integers(0, 4, n), rng.integers(1, 4, n)
    click = rng.random(n) < ATTRACTION[item] * EXAMINATION[position - 1]
    path = tmp_path_factory.mktemp("rows") / "log.parquet"
    columns = {
        "query": pa.array(["all"] * n),
        "time": np.arange(n),
        "ranking": pa.array([[i] for i in item.tolist()], pa.list_(pa.int64())),
        "clicks": pa.array([[1] * c for c in click.tolist()], pa.list_(pa.int16())),
        "position": pa.array(position, pa.int16()),
    }
    pq.write_table(pa.table(columns), path)
    return open_log(path)


def test_examination_is_found(log: Log) -> None:
    fitted = fit_log(log, "all")
    assert list(fitted.fits) == ["PBM"]
    assert fitted.best is None
    fit = fitted.fits["PBM"]
    assert fit.parameters["examination"][0] == pytest.approx(EXAMINATION, abs=0.03)
    assert fit.attraction == pytest.approx(ATTRACTION, rel=0.1)
    assert PBM.fit(log).attraction == pytest.approx(fit.attraction)


def test_positions_are_counted(log: Log) -> None:
    positions = check(log).positions
    assert [views for views, _ in positions] == pytest.approx([66_667] * 3, rel=0.02)
    counts = aggregate(log, "positions").table.group_by("rank").aggregate([("views", "sum"), ("clicks", "sum")])
    rows = sorted(counts.to_pylist(), key=lambda row: row["rank"])
    assert [(row["views_sum"], row["clicks_sum"]) for row in rows] == positions
    assert not any(found.changes for found in drift(log))


@pytest.mark.parametrize("model", [CM, UBM, DBN])
def test_models_of_whole_lists_are_refused(log: Log, model: type) -> None:
    with pytest.raises(ValueError, match=f"model={model.__name__}: must be PBM, since .* rows without their lists"):
        model.fit(log)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="must be PBM"):
        fit_log(log, f"PBM,{model.__name__}")
    with pytest.raises(ValueError, match="kind='lists': must be 'positions'"):
        aggregate(log, "lists")


def test_a_fit_that_means_nothing_is_refused(tmp_path: Path) -> None:
    """Without positions, lists of one item tell attraction and examination apart in no way; the rate can be fitted."""
    path = tmp_path / "log.parquet"
    rows = "SELECT 'q' AS query, i AS time, [i % 3] AS ranking, CASE WHEN i % 5 = 0 THEN [1] ELSE [] END AS clicks"
    duckdb.sql(f"COPY ({rows} FROM range(30) t(i)) TO '{path}'")
    alone = open_log(path)
    for model in (PBM, UBM, DBN):
        with pytest.raises(ValueError, match=f"every list has one item and no position, so .* of {model.__name__}"):
            model.fit(alone)
    assert CM.fit(alone, prior=(0, 0)).attraction.tolist() == [0.2] * 3


def test_rows_of_a_text(tmp_path: Path) -> None:
    """With a column of positions rows are not merged, even at the same time."""
    (tmp_path / "rows.csv").write_text(
        "q,t,doc,slot,clicked,p\na,1,7,2,1,0.5\na,1,8,1,0,0.25\na,2,7,0,0,0.5\na,2,7,x,0,0.5\n"
    )
    columns = {"query": "q", "time": "t", "item": "doc", "position": "slot", "click": "clicked", "propensity": "p"}
    report = convert(
        tmp_path / "rows.csv", tmp_path / "log.parquet", columns=columns, propensities="marginal", lines=True
    )
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert [(row["ranking"], row["position"], row["clicks"]) for row in rows] == [([7], 2, [1]), ([8], 1, [])]
    assert {kind: [p.line for p in found] for kind, found in report.examples.items()}["value"] == [4, 5]
    assert open_log(tmp_path / "log.parquet").propensities == "marginal"


def test_kinds_of_propensities(tmp_path: Path) -> None:
    """The file is marked; a list has one number or one for every position; files of different kinds are refused."""
    text = "query,time,ranking,clicks,propensities\na,1,1 2,1,{0}\na,2,2 1,,{0}\n"
    for kind, cell, wrong in (("list", "0.5", "0.5 0.5"), ("conditional", "0.5 0.25", "0.5")):
        (tmp_path / "log.csv").write_text(text.format(cell))
        path = tmp_path / f"{kind}.parquet"
        assert not convert(tmp_path / "log.csv", path, propensities=kind).has_errors
        assert open_log(path).propensities == kind
        assert check(path).good
        assert check(path).to_dict()["propensities"] == kind
        (tmp_path / "log.csv").write_text(text.format(wrong))
        assert convert(tmp_path / "log.csv", tmp_path / "bad.parquet", propensities=kind).lists == 0
    (tmp_path / "bad.parquet").unlink()
    with pytest.raises(ValueError, match=r"propensities of different kinds \(conditional, list\)"):
        open_log(tmp_path / "*.parquet")
    (tmp_path / "log.csv").write_text(text.format("0.5 0.5"))
    convert(tmp_path / "log.csv", tmp_path / "unmarked.parquet")
    unmarked = tmp_path / "unmarked.parquet"
    assert (open_log(unmarked).propensities, check(unmarked).propensities) == (None, "unknown")
    assert open_log(unmarked, propensities="marginal").propensities == "marginal"
    with pytest.raises(ValueError, match="propensities='guessed'"):
        open_log(unmarked, propensities="guessed")
