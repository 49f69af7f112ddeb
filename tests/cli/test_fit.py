"""driftrank fit, with log generate, simulate --click-model and reproduce --log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftrank.cli.app import run
from driftrank.clickmodels import click_models as known
from driftrank.queries import load


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Yandex text of users who change, gzipped."""
    path = tmp_path_factory.mktemp("log") / "log.txt.gz"
    options = ["--lists", "8000", "--queries", "yandex-like:3", "--click-model", "DCM", "--env", "Abrupt:period=900"]
    assert run(["log", "generate", str(path), *options, "--quiet"]) == 0
    return path


def test_rows_without_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``all`` is what such a log can be fitted to; others are refused, and files of other models are kept."""
    rows = "\n".join(f"q,{n},{n % 2},{1 + n // 2 % 2},{int(n % 7 == 0)}" for n in range(400))
    (tmp_path / "rows.csv").write_text(f"query,time,item,slot,click\n{rows}\n")
    log, models = str(tmp_path / "log.parquet"), tmp_path / "models.json"
    convert = ["log", "convert", str(tmp_path / "rows.csv"), log, "--columns", "position=slot", "--quiet"]
    assert run(convert) == 0
    assert run(["fit", log, "--model", "all", "--out", str(models)]) == 0
    assert len(load(models, "PBM").models["q"].examination) == 2  # type: ignore[attr-defined]
    assert "Not compared: that takes whole lists" in capsys.readouterr().out
    assert run(["fit", log, "--model", "CM", "--out", str(models)]) == 2
    assert "which would be lost" in capsys.readouterr().err
    assert run(["fit", log, "--model", "CM", "--overwrite", "--out", str(models)]) == 2
    assert "model=CM: must be PBM" in capsys.readouterr().err


@pytest.mark.slow
def test_from_a_raw_log_to_a_simulation(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, report = tmp_path / "models.json", tmp_path / "report"
    options = ["--model", "CM,DCM,PBM,sDBN", "--drift", "--intervals", "--windows", "4"]
    assert run(["fit", str(log), "--out", str(models), "--report", str(report), *options]) == 0
    out = capsys.readouterr().out
    assert "; models compared on the last 1,600 of 8,000 lists, by log-likelihood of a list." in out
    assert "3 of 3 queries change" in out
    assert f"{models}: 3 queries" in out
    assert "report.html" in out
    assert (report / "attraction.png").read_bytes().startswith(b"\x89PNG")
    assert "driftrank" in (report / "report.html").read_text()
    assert load(models, "sDBN").models["1"].satisfaction
    for more in (["--env", "Replay"], ["--click-model", "DCM:objective=any"], ["--click-model", "PBM", "--k", "5"]):
        small = ["--queries", str(models), "--policy", "Random", "--horizon", "200", "--runs", "1"]
        assert run(["simulate", *small, *more, "--out", str(tmp_path / "out"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["queries"] == 3
    settings = (tmp_path / "out" / "run.toml").read_text()
    assert 'click_model = "PBM"' in settings
    assert run(["simulate", "--config", str(tmp_path / "out" / "run.toml"), "--out", str(tmp_path / "o"), "-q"]) == 0


@pytest.mark.interpreted  # Random only: compiling takes longer than a hundred steps
def test_other_users_are_another_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A simulation of one click model is not continued with another."""
    small = ["simulate", "--queries", "yandex-like:1", "--policy", "Random", "--horizon", "100", "--runs", "1", "-q"]
    assert run([*small, "--click-model", "DBN", "--out", str(tmp_path)]) == 0
    assert run([*small, "--click-model", "PBM", "--out", str(tmp_path), "--resume"]) == 2
    assert "click_model" in capsys.readouterr().err


def test_json(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(log), "--model", "CM", "--out", str(tmp_path / "m.json"), "--top", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == "CM"
    assert found["lists"] == 8000
    assert len(found["models"]["CM"]["perplexity_by_rank"]) == 10
    assert len(load(tmp_path / "m.json")) == 1


def test_statistics_of_a_warehouse(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The SQL that is printed counts what is fitted; statistics that were saved give the same models."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    kept = str(tmp_path / "stats")
    assert run(["fit", str(log), "--model", "UBM", "--out", str(one), "--save-stats", kept, "-q"]) == 0
    saved = str(tmp_path / "stats" / "positions.parquet")
    assert run(["fit", "--from-stats", saved, "--model", "UBM", "--out", str(two), "-q"]) == 0
    assert json.loads(one.read_text()) == json.loads(two.read_text())
    assert run(["fit", "--print-sql", "--model", "CM,DBN", "--dialect", "bigquery", "--table", "web.log"]) == 0
    sql = capsys.readouterr().out
    assert sql.count("WITH masked AS") == 1  # the statistics of DBN include those of CM
    assert "AS lists" in sql
    assert "FROM web.log" in sql
    assert sql.rstrip().endswith(";")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a log, or --from-stats FILE"),
        (["LOG", "--from-stats", "x.parquet"], "not both"),
        (["LOG", "--model", "XYZ"], "unknown click model 'XYZ'"),
        (["LOG", "--model", ","], "must be names of click models"),
        (["LOG", "--prior", "1"], "prior='1': must be two numbers"),
        (["LOG", "--prior", "3,2"], "prior=(3.0, 2.0)"),
        (["LOG", "--holdout", "1"], "holdout=1.0"),
        (["LOG", "--top", "0"], "top=0"),
        (["LOG", "--items", "-1"], "items=-1"),
        (["LOG", "--out", "nowhere/models.json"], "there is no folder nowhere"),
        (["LOG", "--device", "gpu"], "device='gpu': must be one of 'cpu', 'cluster'"),
        (["nowhere.parquet"], "nowhere.parquet: no such file"),
        (["--from-stats", "nowhere.parquet"], "nowhere.parquet: no such file"),
        (["--from-stats", "x.csv", "--drift"], "--drift: needs a log, not statistics"),
        (["--print-sql", "--dialect", "oracle"], "unknown dialect 'oracle'"),
    ],
)
def test_wrong_input(arguments: list[str], message: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", *(str(log) if a == "LOG" else a for a in arguments)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("models.json").exists()


def test_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "generate", str(tmp_path / "log.txt"), "--lists", "30", "--queries", "yandex-like:2"]) == 0
    out = capsys.readouterr().out
    assert "log.txt: 30 lists, " in out
    assert "numbers instead of their names" in out
    for wrong, message in {
        "--env=BLB": "has queries of its own",
        "--click-model=X": "unknown click model",
        "--length=70": "length=70",
        "--queries=none.json": "there is no such file",
    }.items():
        assert run(["log", "generate", str(tmp_path / "x.parquet"), wrong]) == 2
        assert message in capsys.readouterr().err


def test_the_papers_pipeline(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the raw log: queries chosen and fitted, simulated, drawn."""
    options = ["--runs", "1", "--horizon", "200", "--out", str(tmp_path)]
    assert run(["reproduce", "--log", str(log), *options]) == 0
    out = capsys.readouterr().out
    assert "models.json: 3 queries with 10 items each" in out
    assert (tmp_path / "figure1.png").exists()
    queries = load(tmp_path / "models.json")
    assert all(len(items) == 10 for items in queries.items.values())
    assert run(["reproduce", "--log", str(log), "--queries", "yandex-like:2", *options]) == 2
    assert "leave --queries out" in capsys.readouterr().err


def test_click_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["click-models"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[2:] if line[:2] == "  "}
    assert set(rows) == set(known())
    assert rows["PBM"].split(maxsplit=3) == ["PBM", "any,", "clicks", "The position-based model"]
    assert run(["click-models", "DBN"]) == 0
    assert "continuation = 0.9" in capsys.readouterr().out
