from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.experiments.leaderboards.leaderboard import DRAWN

SMALL = (
    "leaderboard", "--policy", "CascadeUCB1", "--policy", "Random", "--env", "Abrupt", "--env", "Stationary",
    "--queries", "yandex-like:3", "--horizon", "300",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out") / "board"
    assert run([*SMALL, "--out", str(path)]) == 0
    return path


def test_says_how_long_who_is_best_and_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "million steps, about" in out
    for policy in ("PriorRegimeTS", "CascadeUCB1", "Random"):
        assert policy in out
    assert (tmp_path / "leaderboard.html").as_uri() in out
    for name in (*DRAWN, "results.parquet", "summary.json", "run.toml"):
        assert name in out
        assert (tmp_path / name).stat().st_size > 0


def test_page_names_everything(folder: Path) -> None:
    for name in ("leaderboard.html", "leaderboard.md"):
        page = (folder / name).read_text(encoding="utf-8")
        for what in ("PriorRegimeTS", "CascadeUCB1", "Random", "Abrupt", "Stationary"):
            assert what in page
        command = "driftrank leaderboard --queries yandex-like:3 --horizon 300 --policy CascadeUCB1 --policy Random"
        assert f"{command} --env Abrupt --env Stationary" in page


def test_settings_file_repeats_it(folder: Path, tmp_path: Path) -> None:
    assert run(["leaderboard", "--config", str(folder / "run.toml"), "--out", str(tmp_path)]) == 0
    tables = [pyarrow.parquet.read_table(path / "results.parquet") for path in (tmp_path, folder)]
    assert tables[0].replace_schema_metadata(None).equals(tables[1].replace_schema_metadata(None))


def test_json_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run([*SMALL, "--out", str(folder), "--resume", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    saved = json.loads((folder / "summary.json").read_text())
    assert printed == {key: value for key, value in saved.items() if key != "details"}


def test_resume_with_other_settings_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--seed", "6", "--out", str(folder), "--resume"]) == 2
    assert "begun with seed=0, now it is 6" in capsys.readouterr().err


def test_quick_is_smaller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def noted(**settings: object) -> None:
        asked.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["driftrank.experiments.leaderboards.leaderboard"], "leaderboard", noted)
    monkeypatch.chdir(tmp_path)
    keys = ("queries", "n_queries", "horizon", "runs")
    for arguments, expected in (
        ([], ("yandex-like:20", None, 100_000, 1)),
        (["--n-queries", "7"], ("yandex-like:7", 7, 100_000, 1)),
        (["--quick"], ("yandex-like:5", None, 2000, 1)),
        (["--quick", "--horizon", "500"], ("yandex-like:5", None, 500, 1)),
        (["--quick", "--queries", "mine.json"], ("mine.json", 5, 2000, 1)),
    ):
        assert run(["leaderboard", *arguments]) == 130
        assert tuple(asked[key] for key in keys) == expected


def test_first_queries_only(tmp_path: Path) -> None:
    queries = {f"q{i}": {"CM": {"attraction": [0.9, 0.5, 0.2, 0.1]}} for i in range(4)}
    (tmp_path / "q.json").write_text(json.dumps({"queries": queries}))
    arguments = ["--queries", str(tmp_path / "q.json"), "--n-queries", "2", "--horizon", "100", "--k", "2"]
    assert run(["leaderboard", "--policy", "Random", "--env", "Stationary", *arguments, "--out", str(tmp_path)]) == 0
    assert set(pyarrow.parquet.read_table(tmp_path / "results.parquet")["query"].to_pylist()) == {"q0", "q1"}
    assert tomllib.loads((tmp_path / "run.toml").read_text())["n_queries"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "0"], "horizon=0"),
        (["--runs", "0"], "runs=0"),
        (["--n-queries", "0"], "n_queries=0"),
        (["--threads", "0"], "threads=0"),
        (["--k", "11"], "k=11"),
        (["--policy", "CascadeSWUBC"], "unknown policy 'CascadeSWUBC'; did you mean CascadeSWUCB?"),
        (["--env", "Abrupd"], "unknown environment 'Abrupd'; did you mean Abrupt?"),
        (["--env", "Drift-wak"], "did you mean Drift-walk?"),
        (["--env", "Abrupt:boost=2"], "boost=2"),
        (["--queries", "nowhere.json"], "nowhere.json"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["leaderboard", "--quick", *arguments, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run([*SMALL, "--out", str(tmp_path / "file" / "out")]) == 2
    assert "cannot write to this folder" in capsys.readouterr().err
