from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.logs import open_log
from driftrank.logs.bad_lines import LogReport
from driftrank.logs.checking import check
from driftrank.logs.conversion.convert import convert


def converted(path: Path, text: str | bytes, **options: Any) -> tuple[list[dict[str, Any]], LogReport]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    out = path.with_suffix(".parquet")
    report = convert(path, out, lines=True, **options)
    return pq.read_table(out).to_pylist(), report


def lines_of(report: LogReport) -> dict[str, list[int]]:
    return {kind: [problem.line for problem in problems] for kind, problems in report.examples.items()}


MAPPING = {"query": "q", "time": "ts", "ranking": "docs", "clicks": "clicked"}


def test_csv(tmp_path: Path) -> None:
    text = """who,q,ts,docs,clicked
u1,shoes,2024-01-01 10:00,"[""a"", ""b, c""]",[2]
u2,"hats, caps",2024-01-01T11:00:00+02:00,a b c,1 3
u1,shoes,2024-01-02,"['x', 'y']","[2, 1, 2]"
u1,shoes,2024-01-02,[1 2 3],
"""
    rows, report = converted(tmp_path / "log.csv", text, columns=MAPPING | {"user": "who"})
    assert report.counts == {}
    assert (report.lines, report.lists, report.clicks) == (5, 4, 6)
    assert [row["ranking"] for row in rows] == [["a", "b, c"], ["a", "b", "c"], ["x", "y"], ["1", "2", "3"]]
    assert [row["clicks"] for row in rows] == [[2], [1, 3], [2, 1, 2], []]
    assert [row["time"] for row in rows[:2]] == [datetime(2024, 1, 1, 10), datetime(2024, 1, 1, 9)]
    assert rows[1]["query"] == "hats, caps"
    assert [row["user"] for row in rows] == ["u1", "u2", "u1", "u1"]
    assert [row["line"] for row in rows] == [2, 3, 4, 5]


def test_ids_are_integers_if_all_are(tmp_path: Path) -> None:
    text = "query\ttime\tranking\tclicks\n{}\t{}\t{}\t\n"
    for values, kinds in [
        ((7, 5, "[1, 2]"), (int, int, int)),
        (("007", 5.5, "[1, 02]"), (str, float, str)),
        ((2**70, -3, '["1", 2]'), (str, int, str)),
    ]:
        rows, _ = converted(tmp_path / "log.tsv", text.format(*values) + "8\t6\t3 4\t1\n")
        first, second = rows
        assert (type(first["query"]), type(first["time"]), type(first["ranking"][0])) == kinds
        assert (type(second["query"]), type(second["time"]), type(second["ranking"][0])) == kinds
        assert first["ranking"] == [kinds[2](1), kinds[2](2) if "02" not in values[2] else "02"]


@pytest.mark.parametrize("mode", ["positions", "vector", "items"])
def test_ways_to_write_clicks(mode: str, tmp_path: Path) -> None:
    given = {"positions": "2;1", "vector": "1 true 0", "items": "b a"}[mode]
    text = f"query;time;ranking;clicks\nq;1;a b c;{given.replace(';', ' ')}\n"
    rows, report = converted(tmp_path / "log.csv", text, clicks=mode)
    assert rows[0]["clicks"] == ([1, 2] if mode == "vector" else [2, 1])
    assert report.counts == {}


@pytest.mark.parametrize(
    ("mode", "given", "kind", "clicks"),
    [
        ("positions", "4 1", "position", [1]),
        ("positions", "0", "position", []),
        ("positions", "x", "value", None),
        ("positions", "1.5", "value", None),
        ("positions", "[1", "value", None),
        ("vector", "1 0", "value", None),
        ("vector", "1 0 2", "value", None),
        ("items", "z b", "unshown", [2]),
    ],
)
def test_wrong_clicks(mode: str, given: str, kind: str, clicks: list[int] | None, tmp_path: Path) -> None:
    ok = {"positions": "1", "vector": "1 0 0", "items": "a"}[mode]
    text = f"query,time,ranking,clicks\nq,1,a b c,{ok}\nq,2,a b c,{given}\nq,3,a b c,{ok}\n"
    rows, report = converted(tmp_path / "log.csv", text, clicks=mode)
    assert lines_of(report) == {kind: [3]}
    assert report.counts == {kind: 1}
    assert (report.errors, report.lost_lines) == (1, int(clicks is None))
    assert [row["clicks"] for row in rows] == ([[1], [1]] if clicks is None else [[1], clicks, [1]])
    with pytest.raises(ValueError, match="line 3: "):
        convert(tmp_path / "log.csv", tmp_path / "out", clicks=mode, on_error="stop")


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ("0 1 0", "position", "clicks 0 1 0 (a vector? see --clicks)"),
        ("0 5 1", "position", "clicks 0 5 1"),
        ("0", "position", "clicks 0"),
        ("c a", "value", "clicks c a (items? see --clicks)"),
        ("c x", "value", "clicks c x"),
    ],
)
def test_clicks_of_another_form_are_recognised(given: str, kind: str, text: str, tmp_path: Path) -> None:
    _, report = converted(tmp_path / "log.csv", f"query,time,ranking,clicks\nq,1,a b c,{given}\n")
    assert [problem.text for problem in report.examples[kind]] == [text]


def test_a_lost_click_is_not_a_lost_line(tmp_path: Path) -> None:
    text = "query,time,ranking,clicks\nq,1,a b,z y\nq,2,a b,a\n"
    _, report = converted(tmp_path / "log.csv", text, clicks="items")
    assert report.headline().endswith(": all 3 lines used, but 2 clicks left out")
    _, report = converted(tmp_path / "log.csv", f"{text}q,noon,a b,\nq,3,a b,z\n", clicks="items")
    assert report.headline().endswith(": 1 of 5 lines left out, and 3 clicks of others")
    assert (report.lists, report.clicks, LogReport.merged([report, report]).lost_clicks) == (3, 1, 6)


BAD = {
    "q,1,a b": "fields",
    "q,1,a b,,": "fields",
    'q,1,"a b,': "fields",
    ",1,a b,": "missing",
    "q,,a b,": "missing",
    "q,noon,a b,": "value",
    "q,inf,a b,": "value",
    "q,1,[a,": "value",
    "q,1,,": "empty",
    "q,1,[],": "empty",
    "q,1,a a,": "repeated",
    f"q,1,{' '.join(map(str, range(63)))},": "long",
    "q\udcff,1,a b,": "encoding",
    "": "blank",
}


@pytest.mark.parametrize(("bad", "end"), [(bad, ["\n", "\r\n", "\r"][i % 3]) for i, bad in enumerate(BAD)])
def test_one_bad_line_and_nothing_else_lost(bad: str, end: str, tmp_path: Path) -> None:
    lines = ["query,time,ranking,clicks", "q,1,a b,1", bad, "q,2,a b,2", 'q,3,a b,"1"']
    text = end.join(lines).encode("utf-8", "surrogateescape")
    rows, report = converted(tmp_path / "log.csv", text, format="csv")
    assert [row["clicks"] for row in rows] == [[1], [2], [1]]
    assert lines_of(report) == {BAD[bad]: [3]}
    assert report.lines == 5


def test_cut_gzip(tmp_path: Path) -> None:
    text = "query,time,ranking,clicks\n" + "".join(f"q{i},{i},a b,{i % 2 + 1}\n" for i in range(5000))
    rows, report = converted(tmp_path / "log.csv.gz", gzip.compress(text.encode())[:-2000])
    assert [row["time"] for row in rows] == list(range(len(rows)))
    assert 1000 < len(rows) < 5000
    assert lines_of(report) == {"cut": [len(rows) + 2]}


def test_jsonl(tmp_path: Path) -> None:
    good: list[dict[str, Any]] = [
        {"q": "7", "at": {"x": 1}, "ts": 5, "docs": ["é", 'b"c'], "clicked": [2]},
        {"q": "8", "ts": 6, "docs": "x y", "clicked": "1"},
        {"q": "8", "ts": 6, "docs": [1, 2], "clicked": None, "device": "phone", "propensities": [0.5, 1]},
    ]
    lines = [json.dumps(good[0], ensure_ascii=False), "{", json.dumps(good[1]), "[1]", json.dumps(good[2])]
    lines += ['{"q": "9", "ts": 7, "docs": [3, 3], "clicked": []}', '{"q": "9"}']
    rows, report = converted(tmp_path / "log.jsonl", "\n".join(lines), columns=MAPPING)
    assert [row["query"] for row in rows] == ["7", "8", "8"]  # text, as in the JSON
    assert [row["ranking"] for row in rows] == [["é", 'b"c'], ["x", "y"], ["1", "2"]]
    assert [row["clicks"] for row in rows] == [[2], [1], []]
    assert [row["device"] for row in rows] == [None, None, "phone"]
    assert [row["propensities"] for row in rows] == [None, None, [0.5, 1]]
    assert lines_of(report) == {"json": [2, 4], "repeated": [6], "missing": [7]}


def test_one_row_per_result(tmp_path: Path) -> None:
    text = """serp\tquery\ttime\tdoc\tposition\tclick
1\tshoes\t10\t5\t2\t1
1\tshoes\t10\t4\t1\t0
2\thats\t11\t6\t1\ttrue
1\tshoes\t10\t3\t3\t
3\thats\t12\t6\t1\t0
3\thats\t12\t7\t3\t0
4\thats\t12\t6\t1\tperhaps
4\thats\t12\t7\t2\t1
5\thats\t12\t7\t1\t1
5\thats\t12\t7\t2\t1
"""
    columns = {"list": "serp", "item": "doc", "rank": "position"}
    rows, report = converted(tmp_path / "log.tsv", text, columns=columns)
    assert [(row["query"], row["time"], row["ranking"], row["clicks"], row["line"]) for row in rows] == [
        ("shoes", 10, [4, 5, 3], [2], 2),
        ("hats", 11, [6], [1], 4),
    ]
    assert lines_of(report) == {"value": [8], "group": [6, 8], "repeated": [10]}
    assert "ranks 1, 3" in report.describe()


def test_results_without_list_or_rank(tmp_path: Path) -> None:
    text = "query,time,user,item,click,propensity\nq,1,u,a,0,0.5\nq,1,u,b,1,0.25\nq,1,v,b,1,0.5\nq,2,u,a,0,2\n"
    rows, report = converted(tmp_path / "log.csv", text)
    assert [(row["user"], row["ranking"], row["clicks"], row["propensities"]) for row in rows] == [
        ("u", ["a", "b"], [2], [0.5, 0.25]), ("v", ["b"], [1], [0.5]),
    ]  # fmt: skip
    assert lines_of(report) == {"propensities": [5]}


def test_trec(tmp_path: Path) -> None:
    text = "q1 Q0 d3 1 9.5 s1 0\nq1 Q0  d2 2 8.5 s1 1\nq2\tQ0 d3 1 9.5 s1 1\nq1 Q0 d3 1 9.5 s2 0\n"
    rows, report = converted(tmp_path / "run", text)
    assert report.counts == {}
    assert [(row["query"], row["time"], row["ranking"], row["clicks"]) for row in rows] == [
        ("q1", 1, ["d3", "d2"], [2]), ("q2", 2, ["d3"], [1]), ("q1", 3, ["d3"], []),
    ]  # fmt: skip


def test_no_header_and_no_clock(tmp_path: Path) -> None:
    columns = {"query": "1", "time": "#", "ranking": "2", "clicks": "3"}
    rows, _ = converted(tmp_path / "log.csv", "a,5 6,1\nb,7 8,\n", columns=columns)
    assert [(row["query"], row["time"], row["ranking"]) for row in rows] == [("a", 1, [5, 6]), ("b", 2, [7, 8])]


def test_opened_directly(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("q,time,ranking,clicks\n1,5,7 8,2\n")
    log = open_log(tmp_path / "log.csv", {"query": "q"})
    with log.connect() as connection:
        assert connection.execute(f"FROM {log.relation}").fetchall() == [(1, 5, [7, 8], [2])]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("q,time,ranking,clicks\n1,2,3,1\n", None, "no column query; there are: q, time, ranking, clicks"),
        ("query,ranking,clicks\n1,3,1\n", None, "no column time; .*time=# for the number of the list"),
        ("query,time,ranking,clicks\n1,2,3,1\n", {"user": "who"}, "no column who; there are"),
        ("query,time,ranking,clicks\n1,2,3,1\n", {"when": "time"}, "a log has no column 'when', only query, time"),
        ("query,time,ranking,clicks,Clicks\n1,2,3,1,1\n", None, "two columns are called clicks"),
        ('{"q": 1}\n', None, "no column query, time, ranking, clicks; there are: q"),
    ],
)
def test_missing_or_wrong_columns(text: str, columns: dict[str, str] | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        converted(tmp_path / "log", text, columns=columns)
    assert {path.name for path in tmp_path.iterdir()} == {"log"}


def test_a_header_alone(tmp_path: Path) -> None:
    for text in ("query,time,ranking,clicks\n", "query,time,ranking,clicks"):
        rows, report = converted(tmp_path / "log.csv", text)
        assert (rows, report.counts) == ([], {})
        assert open_log(tmp_path / "log.parquet").count() == 0
        found = check(tmp_path / "log.csv")
        assert found.good
        assert set(found.counts.values()) == {0}
        assert found.first is None


def test_the_source_is_not_overwritten(tmp_path: Path) -> None:
    source, link = tmp_path / "log.csv", tmp_path / "link.csv"
    source.write_text("query,time,ranking,clicks\nq,1,1 2,1\n")
    link.symlink_to(source)
    for out in (source, link):
        with pytest.raises(ValueError, match="is the log that is to be converted"):
            convert(source, out)
    assert source.read_text().startswith("query")


cells = st.text("ab1 ,;\"'[]\\é\t", max_size=6)


@settings(max_examples=40)
@given(
    rows=st.lists(st.lists(cells, min_size=3, max_size=5), max_size=8), form=st.sampled_from(["csv", "tsv", "jsonl"])
)
def test_every_line_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], form: str
) -> None:
    """Every line becomes a list or is reported; the lines between are read."""
    names = ["query", "time", "ranking", "clicks"]
    if form == "jsonl":
        lines = [json.dumps(dict(zip([*names, "more"], row, strict=False))) for row in rows]
        header = between = json.dumps({"query": "q", "time": 1, "ranking": [1, 2], "clicks": [2]})
    else:
        sign = "," if form == "csv" else "\t"
        lines = [sign.join(row) for row in rows]
        header, between = sign.join(names), sign.join(["q", "1", "1 2", "2"])
    text = header + "\n" + "".join(f"{line}\n{between}\n" for line in lines)
    path = tmp_path_factory.getbasetemp() / "hypothesis.table"
    found, report = converted(path, text, format=form)
    used = {row["line"] for row in found}
    reported = {
        line for kind, lines in lines_of(report).items() if kind not in ("position", "unshown") for line in lines
    }
    first = 1 if form == "jsonl" else 2
    assert used | reported == set(range(first, 2 * len(lines) + 2))
    assert not used & reported
    assert used >= set(range(3, 2 * len(lines) + 2, 2))
