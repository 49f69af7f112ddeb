from __future__ import annotations

import csv
from pathlib import Path

import pytest

from driftrank.cli.app import run
from driftrank.experiments.paper import reproduction

SMALL = ("reproduce", "--queries", "yandex-like:3", "--runs", "2", "--horizon", "500", "--seed", "5")


def rows(folder: Path) -> list[list[str]]:
    """The table without the speeds."""
    with (folder / "table.csv").open(newline="") as file:
        return [row[:-1] for row in csv.reader(file)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out") / "paper"
    assert run([*SMALL, "--out", str(path)]) == 0
    return path


def test_prints_the_table_and_where_the_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for policy in ("CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB", "RankedEXP3", "BatchRank"):
        assert policy in out
    assert "report.html" in out
    assert (tmp_path / "report.html").as_uri() in out
    for name in ("figure1.png", "figure1.svg", "figure2.png", "figure2.svg", "table.csv", "results.parquet"):
        assert name in out
        assert (tmp_path / name).stat().st_size > 0


def test_settings_file_repeats_it(folder: Path, tmp_path: Path) -> None:
    assert run(["reproduce", "--config", str(folder / "run.toml"), "--out", str(tmp_path)]) == 0
    assert rows(tmp_path) == rows(folder)


def test_report_shows_the_command_that_repeats_it(folder: Path) -> None:
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "<pre>driftrank reproduce --queries yandex-like:3 --runs 2 --horizon 500 --seed 5</pre>" in report


def test_resume(folder: Path) -> None:
    before = rows(folder)
    assert run([*SMALL, "--out", str(folder), "--resume"]) == 0
    assert rows(folder) == before


def test_resume_with_other_settings_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL[:-1], "6", "--out", str(folder), "--resume"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "seed" in err


def test_one_more_policy(tmp_path: Path) -> None:
    assert run([*SMALL, "--policy", "CascadeSWUCB:window=50", "--out", str(tmp_path)]) == 0
    assert "CascadeSWUCB:window=50" in {row[0] for row in rows(tmp_path)}
    assert "CascadeSWUCB:window=50" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_quick_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def noted(folder: Path, **settings: object) -> None:
        asked.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "reproduce", noted)
    assert run(["reproduce", "--quick"]) == 130
    assert (asked["queries"], asked["runs"], asked["horizon"]) == ("yandex-like:20", 2, 100_000)
    assert run(["reproduce", "--quick", "--runs", "7"]) == 130
    assert (asked["queries"], asked["runs"]) == ("yandex-like:20", 7)
    assert run(["reproduce"]) == 130
    assert (asked["queries"], asked["runs"], asked["horizon"]) == ("yandex-like:100", 10, 100_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "0"], "horizon=0"),
        (["--runs", "0"], "runs=0"),
        (["--threads", "0"], "threads=0"),
        (["--policies", "some"], "policies='some'"),
        (["--policy", "CascadeSWUBC"], "did you mean CascadeSWUCB"),
        (["--queries", "nowhere.json"], "nowhere.json"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (["--seed", "x"], "--seed"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["reproduce", "--quick", *arguments, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run([*SMALL, "--out", str(tmp_path / "file" / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs = '2'", "must be an integer"),
        ("policy = 'Random'", "must be a list"),
        ("quick = 1", "must be true or false"),
        ("horizont = 5", "did you mean horizon"),
        ("runs = ", "not valid TOML"),
    ],
)
def test_wrong_settings_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    config = tmp_path / "wrong.toml"
    config.write_text(text)
    assert run(["reproduce", "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_options_win_over_the_file(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--config", str(folder / "run.toml"), "--runs", "1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Queries: yandex-like:3. Runs of each: 1, of 500 steps.")
