from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driftrank.cli.app import commands, run
from driftrank.logs import open_log

ROOT = Path(__file__).parents[2]
LIST = "{}\t0\tQ\t{}\t1\t10\t11\t12\t13\t14\t15\t16\t17\t18\t19\n"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.txt"
    path.write_text("".join(LIST.format(i, i % 3) + f"{i}\t2\tC\t{10 + i % 4}\n" for i in range(20)))
    return path


@pytest.fixture
def bad(good: Path) -> Path:
    with open(good, "ab") as file:
        file.write(b"19\t3\tC\t99\n20\t0\tQ\t1\n\xff\xfe\n")
    return good


@pytest.mark.parametrize("command", commands()["log"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", command, "--help"]) == 0
    assert f"\n  driftrank log {command}" in capsys.readouterr().out


def test_the_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["log"], ["log", "--help"]):
        assert run(arguments) == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name}" in out for name in commands()["log"])
    assert run(["log", "chek"]) == 2


def test_convert_check_stats(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "log.parquet"
    assert run(["log", "convert", str(good), str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 20 lists, 20 clicks, of 40 lines\n"
    assert printed.err == ""
    assert open_log(out).count() == 20
    assert run(["log", "check", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "lists with a click   100.0%" in printed
    assert printed.endswith("every row can be used\n")
    assert run(["log", "stats", str(out), "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split() == ["0", "7", "10", "7", "1.0000"]
    assert "2 of 3 queries, 70.0% of 20 lists" in printed


def test_json(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "convert", str(good), str(tmp_path / "log.parquet"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lists"] == 20
    assert run(["log", "check", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["positions"][0] == {"views": 20, "clicks": 5}
    assert run(["log", "stats", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["queries"] == 3


@pytest.mark.filterwarnings("default::driftrank.logs.bad_lines.BadLines")
def test_bad_lines(bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "log.parquet"
    assert run(["log", "convert", str(bad), str(out), "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"{bad}: 3 of 43 lines left out\n")
    assert "      line 41: 19 3 C 99\n" in printed.err
    assert "      line 43: \\xff\\xfe\n" in printed.err
    assert open_log(out).count() == 20

    assert run(["log", "check", str(bad)]) == 1
    assert capsys.readouterr().out.endswith("3 lines cannot be used\n")
    assert run(["log", "check", str(bad), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"]["unshown"]["examples"] == [{"line": 41, "text": "19 3 C 99"}]

    assert run(["log", "stats", str(bad)]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(f"driftrank: warning: {bad}: 3 of 43 lines left out (1 x ")
    assert printed.err.count("\n") == 1


@pytest.mark.filterwarnings("default::driftrank.logs.bad_lines.BadLines")
def test_lines_and_clicks_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,time,ranking,clicks\nq,1,a b,3 1 1\nq,noon,a b,1\n")
    assert run(["log", "check", str(path)]) == 1
    printed = capsys.readouterr().out
    assert printed.endswith("1 line and 1 click cannot be used\n")
    assert ["repeated", "clicks", "1"] in [line.split() for line in printed.splitlines()]


def test_stopping_leaves_what_was_there(bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "log.parquet"
    out.write_text("of before")
    assert run(["log", "convert", str(bad), str(out), "--on-error", "stop"]) == 2
    assert capsys.readouterr().err == (
        f"driftrank: error: {bad}: line 41: a click on an item that was not shown: 19 3 C 99\n"
    )
    assert out.read_text() == "of before"
    assert {path.name for path in tmp_path.iterdir()} == {"clicks.txt", "log.parquet"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("convert nowhere out.parquet", "nowhere: no such file"),
        ("convert clicks.txt nowhere/out.parquet", "nowhere/out.parquet: there is no folder nowhere"),
        ("convert . out.parquet", ".: a folder, not a file"),
        ("convert clicks.txt out.parquet --format fax", "format='fax': must be one of 'auto', "),
        ("convert clicks.txt out.parquet --on-error cry", "on_error='cry': must be one of 'skip', 'stop'"),
        ("convert clicks.txt out.parquet --clicks yes", "clicks='yes': must be one of 'positions', "),
        ("convert clicks.txt out.parquet --columns q", "columns='q': must be pairs like query=q,time=ts, not 'q'"),
        ("convert clicks.txt out.parquet --columns query=a,query=b", "query is named twice"),
        ("convert clicks.txt out.parquet --columns query=a", "must be empty for a Yandex log"),
        ("check nowhere", "nowhere: no such file"),
        ("check clicks.txt --examples 99", "examples=99: must be an integer from 0 to 20"),
        ("stats clicks.txt --top 0", "top=0: must be an integer of at least 1"),
    ],
)
def test_wrong_input(
    arguments: str, message: str, good: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(good.parent)
    assert run(["log", *arguments.split()]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert [path.name for path in good.parent.iterdir()] == [good.name]


def test_an_interrupt_leaves_no_half_file(tmp_path: Path) -> None:
    """Stopped while it waits for more of the log."""
    log = gzip.compress("".join(LIST.format(i, i % 3) for i in range(1000)).encode())
    (tmp_path / "log.gz").write_bytes(log)
    out = tmp_path / "out"
    out.mkdir()
    code = (
        "import sys, time\n"
        "from driftrank.logs.conversion.readers.stream import Stream\n"
        "whole = Stream.blocks\n"
        "def slow(self, size=100):\n"
        "    yield from whole(self, size)\n"
        "    print('reading', flush=True)\n"
        "    time.sleep(2)\n"
        "    yield b'1'\n"
        "Stream.blocks = slow\n"
        "from driftrank.cli import main\n"
        "main(['log', 'convert', sys.argv[1], sys.argv[2], '--format', 'yandex'])\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "log.gz"), str(out / "log.parquet")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 130
    assert printed == "driftrank: stopped\n"
    assert list(out.iterdir()) == []


def test_no_output_at_exit(good: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "driftrank", "log", "stats", str(good)], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
