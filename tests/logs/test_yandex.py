from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftrank.logs import open_log
from driftrank.logs.bad_lines import BadLines, LogReport
from driftrank.logs.conversion.convert import convert
from driftrank.logs.conversion.readers import yandex
from driftrank.logs.conversion.readers.base import ReadOptions
from driftrank.logs.conversion.readers.stream import Stream
from tests.reference import yandex_log


def shown(session: object, time: object, query: object, urls: object = range(10, 20), region: int = 1) -> str:
    return "\t".join(map(str, [session, time, "Q", query, region, *urls]))  # type: ignore[misc]


def click(session: object, time: object, url: object) -> str:
    return f"{session}\t{time}\tC\t{url}"


def read(path: Path, block: int = 1 << 20) -> tuple[list[tuple], LogReport]:
    report = LogReport(str(path))
    tables = list(yandex.read(Stream(path), "yandex", report, ReadOptions(), block=block))
    assert len({str(table.schema) for table in tables}) <= 1
    return [tuple(row.values()) for table in tables for row in table.to_pylist()], report


def lines_of(report: LogReport) -> dict[str, list[int]]:
    return {kind: [problem.line for problem in problems] for kind, problems in report.examples.items()}


def written(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes(end.join([*lines, ""]).encode("utf-8", "surrogateescape"))
    return path


def test_clicks_go_to_the_latest_list_that_has_them(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log",
        shown(1, 0, 7), click(1, 3, 12), shown(1, 5, 8, range(15, 25), 4), click(1, 6, 16), click(1, 7, 11),
        click(1, 8, 24), click(1, 9, 16), shown(2, 0, 7), click(2, 1, 19),
    )  # fmt: skip
    rows, report = read(log)
    assert rows == [
        (7, 1, list(range(10, 20)), [3, 2], 1, 1, 1),
        (8, 2, list(range(15, 25)), [2, 10, 2], 1, 4, 3),
        (7, 3, list(range(10, 20)), [10], 2, 1, 8),
    ]
    assert (report.lines, report.lists, report.clicks, report.counts) == (9, 3, 6, {})


GOOD = (shown(1, 0, 7), click(1, 1, 10), shown(2, 0, 8), click(2, 1, 11))


@pytest.mark.parametrize(
    ("bad", "kind", "clicks"),
    [
        (["5\t0\tX\t7"], "action", 2),
        (["5\t0"], "fields", 2),
        (["5\t0\tC\t10\t11"], "fields", 2),
        (["5\t0\tQ\t3"], "fields", 2),
        ([click("five", 0, 10)], "number", 2),
        ([click(5, -1, 10)], "number", 2),
        ([click(5, 0, 2**63)], "number", 2),
        ([click(5, 0, "")], "number", 2),
        ([shown(5, 0, "q")], "number", 2),
        ([click(5, 0, "1\udcff0")], "encoding", 2),
        ([shown(5, 0, 7, range(9))], "urls", 2),
        ([shown(5, 0, 7, range(11))], "urls", 2),
        ([shown(5, 0, 7, [*range(9), 3])], "repeated", 2),
        ([click(5, 0, 10)], "early", 2),
        ([click(1, 2, 99)], "unshown", 2),
        ([""], "blank", 2),
        ([click(1, 0, 10)], "backwards", 3),
    ],
)
def test_one_bad_line_and_nothing_else_lost(bad: list[str], kind: str, clicks: int, tmp_path: Path) -> None:
    log = written(tmp_path / "log", *GOOD[:2], *bad, *GOOD[2:])
    rows, report = read(log)
    assert report.counts == {kind: 1}
    assert report.examples[kind][0].line == 3
    assert [row[:3] for row in rows] == [(7, 1, list(range(10, 20))), (8, 2, list(range(10, 20)))]
    assert report.clicks == clicks == sum(len(row[3]) for row in rows)
    assert report.has_errors == (kind not in ("blank", "backwards"))
    assert f"line 3{': 9 URLs: ' if bad == [shown(5, 0, 7, range(9))] else ''}" in report.describe()
    if report.has_errors:
        with pytest.raises(ValueError, match=r"log: line 3: ") as error:
            convert(log, tmp_path / "out.parquet", on_error="stop")
        assert str(log) in str(error.value)
        assert not list(tmp_path.glob("*parquet*"))


def test_clicks_after_a_lost_list_are_lost_with_it(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log",
        shown(1, 0, 7), shown(1, 1, 8, range(10, 19)), click(1, 2, 10), click(1, 3, 99), shown(1, 4, 9),
        click(1, 5, 10),
        shown(2, 0, 7), click(2, 1, 10),
        shown("?", 0, 8), click(3, 1, 10), click(4, 1, 10),
    )  # fmt: skip
    rows, report = read(log)
    assert [row[3] for row in rows] == [[], [1], [1]]
    assert lines_of(report) == {"urls": [2], "consequence": [3, 4, 10], "number": [9], "early": [11]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_line_ends(end: str, block: int, tmp_path: Path) -> None:
    log = written(tmp_path / "log", *GOOD, end=end)
    assert read(log, block)[1].counts == {}
    assert [row[3] for row in read(log, block)[0]] == [[1], [2]]
    log.write_bytes(end.join(GOOD).encode())  # the last line has no end
    assert read(log, block)[1].clicks == 2
    log.write_text(f"{GOOD[0]}\n{GOOD[1]}\r\n{GOOD[2]}\r{GOOD[3]}\n\r", newline="")
    assert lines_of(read(log, block)[1]) == {"blank": [5]}


def test_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    report = convert(tmp_path / "log", tmp_path / "out.parquet")
    assert report.counts == {"nothing": 1}
    assert not report.has_errors
    log = open_log(tmp_path / "out.parquet")
    assert log.count() == 0
    assert log.types["ranking"] == "BIGINT[]"


def test_gzip(tmp_path: Path) -> None:
    text = "\n".join([shown(i, 0, i % 7) + "\n" + click(i, 1, 10 + i % 10) for i in range(500)]) + "\n"
    whole = gzip.compress(text[:30000].encode()) + gzip.compress(text[30000:].encode()) + bytes(100)
    (tmp_path / "log.gz").write_bytes(whole)
    rows, report = read(tmp_path / "log.gz", 1000)
    assert (len(rows), report.clicks, report.counts) == (500, 500, {})

    (tmp_path / "log.gz").write_bytes(gzip.compress(text.encode())[:-700])
    cut, report = read(tmp_path / "log.gz")
    assert cut == rows[: len(cut) - 1] + cut[-1:]  # the last list may have lost its click
    assert 100 < len(cut) < 500
    assert set(report.counts) == {"cut"}
    assert report.examples["cut"][0].line == report.lines + 1

    packed = bytearray(gzip.compress(text.encode(), 9))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "log.gz").write_bytes(packed)
    damaged, report = read(tmp_path / "log.gz", 1000)
    assert "damaged" in report.counts
    assert damaged[:100] == rows[:100]


def test_a_truncated_last_line_is_not_used(tmp_path: Path) -> None:
    text = f"{shown(1, 0, 7, [5, *range(51, 60)])}\n{click(1, 1, 55)}"
    packed = gzip.compress(text.encode(), 0)
    for end in range(len(packed) - 8, len(packed)):
        (tmp_path / "log.gz").write_bytes(packed[:end])
        rows, report = read(tmp_path / "log.gz")
        assert [row[3] for row in rows] == [[]]
        assert "1 1 C 55" in report.describe()


def test_a_line_without_end(tmp_path: Path) -> None:
    """It is neither kept in memory nor misread, for any size of blocks."""
    text = f"{GOOD[0]}\n1\t1\tQ\t" + "7" * 3_000_000 + f"\t3\n{GOOD[1]}\n{GOOD[2]}\n{GOOD[3]}"
    (tmp_path / "log").write_text(text)
    for block in (100_000, 1 << 23):
        rows, report = read(tmp_path / "log", block)
        assert [row[3] for row in rows] == [[], [2]]
        assert lines_of(report) == {"fields": [2], "consequence": [3]}
        assert report.lines == 5


def test_a_session_without_end(tmp_path: Path) -> None:
    lines = [shown(1, 0, i, range(10 * i, 10 * i + 10)) for i in range(2500)]
    lines[1500:1500] = [click(1, 0, 10 * 600), click(1, 0, 10 * 1200)]
    rows, report = read(written(tmp_path / "log", *lines), 10_000)
    assert len(rows) == 2500
    assert {row[0]: row[3] for row in rows if row[3]} == {1200: [1]}
    assert lines_of(report) == {"endless": [1001, 2003], "unshown": [1501]}
    many = [shown(1, 0, 7), *[click(1, 0, 10)] * 5000]
    assert len(read(written(tmp_path / "log", *many), 100)[0][0][3]) == 5000


numbers = st.integers(0, 3) | st.sampled_from(
    ["", "x", "1 ", "007", str(2**63 - 1), str(2**63), "9" * 20, "é", "\udcff"]
)
few = st.integers(0, 2)
lists = st.permutations(range(12)).map(lambda urls: urls[:10])
good_lines = st.builds(shown, few, few, few, lists) | st.builds(click, few, few, st.integers(0, 12))
any_lists = lists | st.lists(numbers, min_size=8, max_size=11)
bad_lines = (
    st.builds(shown, numbers, numbers, numbers, any_lists)
    | st.builds(click, numbers, numbers, numbers)
    | st.lists(numbers | st.sampled_from("QCX"), max_size=6).map(lambda fields: "\t".join(map(str, fields)))
    | st.text("01\tQCé \udcfe", max_size=12)
)
ends = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@example(lines=[("0\t0\tQ\t0\t1\t1\t2\t3\t4\t5\t6\t7\t8\t9", "\r")], last=False, block=1)
@given(
    lines=st.lists(st.tuples(good_lines | good_lines | bad_lines, ends), max_size=25),
    last=st.booleans(),
    block=st.sampled_from([1, 13, 200, 1 << 20]),
)
def test_as_the_reference(tmp_path_factory: pytest.TempPathFactory, lines: list, last: bool, block: int) -> None:
    text = "".join(line + end for line, end in lines)
    data = (text if last else text.rstrip("\r\n")).encode("utf-8", "surrogateescape")
    path = tmp_path_factory.getbasetemp() / "hypothesis.log"
    path.write_bytes(data)
    rows, report = read(path, block)
    expected, problems = yandex_log.read(data)
    assert rows == expected
    problems.pop("nothing", None)
    reported = lines_of(report)
    reported.pop("nothing", None)
    assert reported == {kind: numbers[:20] for kind, numbers in problems.items()}
    assert report.clicks == sum(len(row[3]) for row in rows)


def test_opened_directly(tmp_path: Path) -> None:
    log = open_log(written(tmp_path / "clicks.txt", *GOOD))
    assert (log.count(), log.report.errors) == (2, 0)  # type: ignore[union-attr]
    copy = Path(log.files[0])
    assert copy.exists()
    earlier, _ = log.split(0.5)
    del log
    assert copy.exists()  # as long as anything is left of the log
    assert earlier.count() == 1
    del earlier, _
    assert not copy.exists()


def test_opened_directly_with_bad_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.txt", *GOOD, click(2, 3, 99))
    with pytest.warns(BadLines, match="1 of 5 lines left out"):
        assert open_log(path).count() == 2
    with pytest.raises(ValueError, match="line 5: a click on an item that was not shown"):
        open_log(path, on_error="stop")


def test_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear Sir,\nthis is not a log.\n")
    with pytest.raises(ValueError, match=r"the format cannot be detected; .* log convert --format"):
        open_log(tmp_path / "letter")
