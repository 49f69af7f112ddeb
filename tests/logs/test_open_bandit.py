from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from driftrank.logs import check, open_log
from driftrank.logs.bad_lines import LogReport
from driftrank.logs.conversion.convert import convert

HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0"
NOON = "2019-11-24 12:00:00.004101+00:00"


def converted(folder: Path, *rows: str, **options: Any) -> tuple[list[dict[str, Any]], LogReport]:
    folder.mkdir(exist_ok=True)
    path = folder / "men.csv"
    path.write_text("\n".join([HEADER, *(f"{i},{row}" for i, row in enumerate(rows)), ""]))
    report = convert(path, folder / "out.parquet", lines=True, **options)
    return pq.read_table(folder / "out.parquet").to_pylist(), report


def lines_by_kind(report: LogReport) -> dict[str, list[int]]:
    return {kind: [problem.line for problem in problems] for kind, problems in report.examples.items()}


def test_a_row_is_a_list(tmp_path: Path) -> None:
    rows, report = converted(tmp_path / "men", f"{NOON},14,3,0,0.25,f,g,0", f"{NOON},15,1,1,0.5,f,g,0")
    assert report.counts == {}
    assert rows[1] == {
        "query": "men", "time": datetime(2019, 11, 24, 12, 0, 0, 4101), "ranking": [15], "clicks": [1],
        "propensities": [0.5], "position": 1, "line": 3,
    }  # fmt: skip
    assert (rows[0]["clicks"], rows[0]["position"]) == ([], 3)
    log = open_log(tmp_path / "men" / "out.parquet")
    assert list(log.types) == ["query", "time", "ranking", "clicks", "propensities", "position"]
    assert (log.propensities, log.has_positions()) == ("marginal", True)
    assert check(log).positions == [(1, 1), (0, 0), (1, 0)]
    with pytest.raises(ValueError, match="propensities='list': must be 'marginal' for the format open-bandit"):
        converted(tmp_path / "men", f"{NOON},14,3,0,0.25,f,g,0", propensities="list")
    assert converted(tmp_path / "men", f"{NOON},x,3,0,0.25,f,g,0", query="random/men")[0][0]["query"] == "random/men"


def test_rows_that_make_up_a_list_can_be_merged(tmp_path: Path) -> None:
    rows, report = converted(
        tmp_path / "men",
        f"{NOON},14,3,1,0.25,f,g,0", f"{NOON},15,1,0,0.5,f,g,0", f"{NOON},16,2,1,0.125,f,g,0",  # a list
        f"{NOON},17,1,1,0.25,f,h,0",  # another user
        "2019-11-24 13:00:00+00:00,14,1,0,0.25,f,g,0", "2019-11-24 13:00:00+00:00,15,1,0,0.25,f,g,0",
        "2019-11-24 13:00:00+00:00,16,2,0,0.25,f,g,0",  # one place twice
        "2019-11-24 14:00:00+00:00,14,1,0,0.25,f,g,0", "2019-11-24 14:00:00+00:00,14,2,0,0.25,f,g,0",
        "2019-11-24 14:00:00+00:00,16,3,0,0.25,f,g,0",  # one item twice
        group=True,
    )  # fmt: skip
    assert rows[0]["ranking"] == [15, 16, 14]
    assert rows[0]["clicks"] == [2, 3]
    assert rows[0]["propensities"] == [0.5, 0.125, 0.25]
    assert (rows[0]["position"], rows[0]["line"]) == (None, 2)
    assert [row["ranking"] for row in rows[1:]] == [[17], [14], [15], [16], [14], [14], [16]]
    assert [row["position"] for row in rows[1:]] == [1, 1, 1, 2, 1, 2, 3]
    assert lines_by_kind(report) == {"single": list(range(5, 12))}
    assert not report.has_errors
    assert (report.lists, report.clicks) == (8, 3)


@pytest.mark.parametrize("group", [False, True])
def test_bad_rows(group: bool, tmp_path: Path) -> None:
    good = [f"2019-11-24 {hour}:00:00+00:00,14,1,1,0.25,f,g,0" for hour in (10, 11, 12)]
    bad = ["noon,14,1,0,0.25,f,g,0", f"{NOON},,1,0,0.25,f,g,0", f"{NOON},1,0,0,0.25,f,g,0", f"{NOON},1,1,2,0.25,f,g,0"]
    bad += [f"{NOON},1,1,0,0,f,g,0", f"{NOON},1,1,0"]
    rows, report = converted(tmp_path / "men", good[0], *bad, *good[1:], group=group)
    assert len(rows) == report.lists == report.clicks == 3
    assert lines_by_kind(report)["value"] == [3, 4, 5, 6, 7]
    assert lines_by_kind(report)["fields"] == [8]
    with pytest.raises(ValueError, match="line 3: an invalid value: timestamp noon"):
        converted(tmp_path / "men", good[0], *bad[:1], on_error="stop")


def test_not_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(
        ValueError, match="no column timestamp, item_id, position, click, propensity_score; there are: a, b, c"
    ):
        convert(tmp_path / "x.csv", tmp_path / "out.parquet", format="open-bandit")
    (tmp_path / "x.csv").write_text(HEADER + "\n")
    assert convert(tmp_path / "x.csv", tmp_path / "out.parquet").lists == 0
    with pytest.raises(ValueError, match="must be empty for the Open Bandit Dataset"):
        convert(tmp_path / "x.csv", tmp_path / "out.parquet", columns={"query": "q"})
