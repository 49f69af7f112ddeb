from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.cli.simulate import POLICIES
from driftrank.engine import MEASURES
from driftrank.environments import Abrupt, Traffic
from driftrank.experiments import Result
from driftrank.policies.registry import default_policy
from driftrank.queries import yandex_like
from tests.reporting.page_checks import check_page

SMALL = ("simulate", "--policy", "CascadeUCB1", "--policy", "Random", "--queries", "yandex-like:2", "--runs", "3")
SMALL += ("--horizon", "500", "--checkpoints", "7", "--env", "Abrupt:period=90", "--seed", "4")
FILES = {"results.parquet", "summary.json", "regret.png", "report.html", "run.toml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out") / "simulate"
    assert run([*SMALL, "--out", str(path), "--quiet"]) == 0
    return path


def table(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


def test_report(folder: Path) -> None:
    check_page(folder / "report.html", pictures=1)
    text = (folder / "report.html").read_text(encoding="utf-8")
    mean = Result.load(folder).regret("CascadeUCB1")
    assert f"from least to most: CascadeUCB1 {mean:,.0f}, Random" in text
    assert "<dt>horizon</dt><dd>500</dd>" in text
    assert "<dt>policy</dt><dd>CascadeUCB1; Random</dd>" in text


def test_default_policy_comes_first() -> None:
    assert POLICIES[0] == default_policy().spec


def test_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert table(folder).column_names == ["policy", "query", "run", "step", *MEASURES]
    assert Result.load(folder).labels == ["CascadeUCB1", "Random"]


def test_json_has_the_promised_form_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)  # fails if there is anything else
    assert captured.out.count("\n") == 1
    assert list(summary["policies"]) == ["CascadeUCB1", "Random"]
    steps = None
    for policy in summary["policies"].values():
        assert set(policy["regret"]) == {"mean", "se"}
        assert all(isinstance(policy["regret"][key], float) for key in ("mean", "se"))
        assert all(isinstance(step, int) for step in policy["checkpoints"])
        assert len(policy["checkpoints"]) == len(policy["mean"]) == len(policy["se"])
        assert all(isinstance(value, float) for key in ("mean", "se") for value in policy[key])
        assert policy["mean"] == sorted(policy["mean"])  # cumulative
        assert policy["mean"][-1] == policy["regret"]["mean"]
        assert isinstance(policy["steps_per_second"], (int, float))
        assert steps in (None, policy["checkpoints"])
        steps = policy["checkpoints"]
    assert (summary["horizon"], summary["runs"], summary["queries"], summary["device"]) == (500, 3, 2, "cpu")
    assert isinstance(summary["seconds"], float)
    breakpoints = Abrupt(yandex_like(2, seed=4), k=3, period=90).breakpoints(500)
    assert breakpoints == [90, 180, 270, 360, 450]
    assert set(breakpoints) <= set(steps or [])
    assert (steps or [])[-1] == 500


def test_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "regret after 500 steps" in out
    assert out.index("CascadeUCB1") < out.index("Random")  # best first
    assert all(name in out for name in FILES)


def test_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_its_toml_repeats_it(folder: Path, tmp_path: Path) -> None:
    assert run(["simulate", "--config", str(folder / "run.toml"), "--out", str(tmp_path), "-q"]) == 0
    assert table(tmp_path).equals(table(folder))
    assert (tmp_path / "run.toml").read_text() == (folder / "run.toml").read_text()


def test_threads_change_nothing(folder: Path, tmp_path: Path) -> None:
    assert run([*SMALL, "--threads", "1", "--out", str(tmp_path), "-q"]) == 0
    assert table(tmp_path).equals(table(folder))


def test_options_win_over_the_file(folder: Path, tmp_path: Path) -> None:
    config = str(folder / "run.toml")
    assert run(["simulate", "--config", config, "--runs", "1", "--policy", "Random", "--out", str(tmp_path), "-q"]) == 0
    settings = tomllib.loads((tmp_path / "run.toml").read_text())
    assert (settings["runs"], settings["policy"], settings["horizon"]) == (1, ["Random"], 500)
    assert Result.load(tmp_path).labels == ["Random"]


def test_everything_can_stand_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "mine.toml"
    out = tmp_path / "out"
    config.write_text(
        f'policy = ["Random"]\nenv = "Stationary"\nqueries = "yandex-like:1"\nk = 2\nhorizon = 50\nruns = 2\nseed = 9\n'
        f'checkpoints = 5\ndevice = "cpu"\nthreads = 1\nout = {json.dumps(str(out))}\njson = true\nquiet = true\n'
        "resume = false\n"
    )
    assert run(["simulate", "--config", str(config)]) == 0
    assert list(json.loads(capsys.readouterr().out)["policies"]) == ["Random"]
    assert {path.name for path in out.iterdir()} == FILES


def test_own_queries(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps({"queries": {"x": {"CM": {"attraction": [0.9, 0.1]}}}}))
    arguments = ["--env", "Stationary", "--queries", str(path), "--k", "1", "--horizon", "50", "--policy", "Random"]
    assert run(["simulate", *arguments, "--out", str(tmp_path / "out"), "-q"]) == 0
    assert Result.load(tmp_path / "out").queries == ["x"]


def test_environment_with_its_own_query(tmp_path: Path) -> None:
    arguments = ["--env", "BLB:L=6,K=2", "--policy", "Random", "--horizon", "50", "--runs", "1", "-q"]
    assert run(["simulate", *arguments, "--out", str(tmp_path)]) == 0
    settings = tomllib.loads((tmp_path / "run.toml").read_text())
    assert "queries" not in settings
    assert run(["simulate", "--config", str(tmp_path / "run.toml"), "--out", str(tmp_path / "again"), "-q"]) == 0
    assert table(tmp_path / "again").equals(table(tmp_path))


def test_same_policy_twice_with_other_parameters(tmp_path: Path) -> None:
    arguments = ["--policy", "CascadeUCB1", "--policy", "CascadeUCB1:exploration=0.5", "--horizon", "50"]
    assert run(["simulate", *arguments, "--queries", "yandex-like:1", "--out", str(tmp_path), "-q"]) == 0
    assert Result.load(tmp_path).labels == ["CascadeUCB1", "CascadeUCB1:exploration=0.5"]


def test_resume_when_all_is_done(folder: Path) -> None:
    before = table(folder)
    assert run([*SMALL, "--out", str(folder), "--resume", "-q"]) == 0
    assert table(folder).equals(before)


def test_resume_of_another_simulation_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run([*SMALL, "--horizon", "400", "--out", str(folder), "--resume"]) == 2
    assert "begun with horizon=500, now it is 400" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


TRAFFIC = ("simulate", "--env", "Traffic:n_queries=9,candidates=6,K=2,catalogue=20,shuffle=200,going_on=0.8")
TRAFFIC += ("--policy", "CascadeUCB1", "--horizon", "400", "--checkpoints", "4", "--runs", "2")


def test_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRAFFIC, "--out", str(tmp_path / "first")]) == 0
    out = capsys.readouterr().out
    assert "against the caller" in out
    assert "report.html, regret.png, caller.png, results.parquet" in out
    assert {path.name for path in (tmp_path / "first").iterdir()} == FILES | {"caller.png"}
    check_page(tmp_path / "first" / "report.html", pictures=2)
    rows = table(tmp_path / "first")
    assert rows.column_names == ["policy", "query", "run", "step", *MEASURES, *Traffic.measures]
    assert set(rows["query"].to_pylist()) == {"traffic"}
    again = ["simulate", "--config", str(tmp_path / "first" / "run.toml"), "--out", str(tmp_path / "second")]
    assert run([*again, "--json"]) == 0
    policy = json.loads(capsys.readouterr().out)["policies"]["CascadeUCB1"]
    assert [row["first"] for row in policy["by_age"]] == [0, 10, 100]
    assert policy["against_caller"][-1]["last"] == 400
    assert table(tmp_path / "second").equals(rows)


@pytest.mark.parametrize("option", ["--k", "--queries"])
def test_traffic_has_its_own_queries(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRAFFIC, option, "3", "--out", str(tmp_path)]) == 2
    assert "leave this out" in capsys.readouterr().err
