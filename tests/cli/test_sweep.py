from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.experiments import Sweep
from tests.quick import others_are_slow
from tests.reporting.page_checks import check_page

ROOT = Path(__file__).parents[2]
WINDOWS = "CascadeSWUCB:window=geom(10,1000,5)"
DISCOUNTS = "CascadeDUCB:discount=1-geom(0.001,0.1,4)"
SMALL = ("sweep", "--policy", WINDOWS, "--policy", DISCOUNTS, "--queries", "yandex-like:2", "--runs", "3")
SMALL += ("--horizon", "500", "--env", "Abrupt:period={90;200}", "--seed", "4")
DATA = {"results.parquet", "summary.json", "settings.csv", "run.toml", "report.html"}
DRAWN = {
    "sweep-window.png", "sweep-discount.png", "sweep-comparison.png", "sweep-CascadeSWUCB-window-by-period.png",
    "sweep-CascadeDUCB-discount-by-period.png",
}  # fmt: skip

#: the command line, but with parts written as soon as there is something to write
QUICKLY = """
import sys
import driftrank.experiments.simulation.folder as folder
from driftrank.cli import main
folder.INTERVAL = 0.0
main(sys.argv[1:])
"""
LONG = ["sweep", "--policy", "CascadeSWUCB:window=geom(50,5000,4)", "--env", "Abrupt", "--env", "Stationary"]
LONG += ["--queries", "yandex-like:4", "--horizon", "50000", "--runs", "8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out") / "sweep"
    assert run([*SMALL, "--out", str(path), "--quiet"]) == 0
    return path


def rows(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_report(folder: Path) -> None:
    check_page(folder / "report.html", pictures=len(DRAWN))
    assert "the best: CascadeSWUCB with window=" in (folder / "report.html").read_text(encoding="utf-8")


def test_files(folder: Path) -> None:
    assert names(folder) == DATA | DRAWN
    for name in DRAWN:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    columns = rows(folder).column_names
    assert columns[:7] == ["environment", "environment.period", "policy", "setting", "window", "discount", "query"]
    assert Sweep.load(folder).policies == ["CascadeSWUCB", "CascadeDUCB"]


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path), "--halving", "--runs", "8"]) == 0
    out = capsys.readouterr().out
    assert "best setting" in out
    assert "window=112" in out  # what theory recommends
    made, wanted = Sweep.load(tmp_path).runs
    assert f"Halving: {made:,} of {wanted:,} runs ({made / wanted:.0%}) were made." in out
    assert made < wanted == 2 * 11 * 16
    assert all(name in out for name in DATA | DRAWN)


def test_json_and_nothing_else(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--out", str(tmp_path), "--json", "--threads", "1"]) == 0
    assert rows(tmp_path).equals(rows(folder))
    captured = capsys.readouterr()
    summary = json.loads(captured.out)  # fails if there is anything else
    assert captured.out.count("\n") == 1
    assert list(summary["policies"]) == ["CascadeSWUCB", "CascadeDUCB"]
    assert summary["policies"]["CascadeSWUCB"] == {"spec": WINDOWS, "parameters": ["window"]}
    there = summary["environments"]["Abrupt:period=200"]
    assert there["parameters"] == {"period": 200}
    settings = there["policies"]["CascadeSWUCB"]["settings"]
    assert [setting["parameters"] for setting in settings] == [{"window": w} for w in (10, 32, 100, 316, 1000)]
    best = there["policies"]["CascadeSWUCB"]["best"]
    assert best["regret"] == min(setting["regret"]["mean"] for setting in settings)
    assert best["recommended"] == {"window": 112}
    assert summary["best"]["spec"] == Sweep.load(folder).best().spec
    assert (summary["horizon"], summary["runs"], summary["halving"], summary["device"]) == (500, 3, False, "cpu")


def test_its_toml_repeats_it_quietly(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["sweep", "--config", str(folder / "run.toml"), "--out", str(tmp_path), "-q"]
    assert run(again) == 0
    assert capsys.readouterr() == ("", "")
    assert rows(tmp_path).equals(rows(folder))
    assert (tmp_path / "run.toml").read_bytes() == (folder / "run.toml").read_bytes()
    settings = tomllib.loads((folder / "run.toml").read_text())
    assert settings["policy"] == [WINDOWS, DISCOUNTS]
    assert settings["env"] == ["Abrupt:period={90;200}"]
    assert (settings["queries"], settings["k"], settings["halving"]) == ("yandex-like:2", 3, False)


def test_options_win_over_the_file(folder: Path, tmp_path: Path) -> None:
    more = ["--policy", "CascadeTS:a0={1;2}", "--env", "Stationary", "--out", str(tmp_path)]
    assert run(["sweep", "--config", str(folder / "run.toml"), *more, "-q"]) == 0
    found = Sweep.load(tmp_path)
    assert (found.policies, found.environments, found.horizon) == (["CascadeTS"], ["Stationary"], 500)


def test_figures_of_an_older_sweep_go(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "mine.png").write_text("not of a sweep")
    more = ["--policy", "CascadeTS:a0={1;2}", "--runs", "1", "--horizon", "50", "--queries", "yandex-like:1"]
    assert run(["sweep", *more, "--out", str(tmp_path), "-q"]) == 0
    assert names(tmp_path) == DATA | {"sweep-a0.png", "mine.png"}


def test_environments_with_queries_of_their_own(tmp_path: Path) -> None:
    """Beside some that are made of given ones, which are for those."""
    more = ["--env", "BLB:L={8;16}", "--env", "Stationary", "--queries", "yandex-like:1", "--k", "2"]
    how = ["--policy", "CascadeTS:a0={1;2}", "--runs", "1", "--horizon", "50", "--out", str(tmp_path), "-q"]
    assert run(["sweep", *how, *more]) == 0
    found = Sweep.load(tmp_path)
    assert found.environments == ["BLB:L=8", "BLB:L=16", "Stationary"]
    assert "sweep-CascadeTS-a0-by-L.png" not in names(tmp_path)  # not all environments have an L


def test_click_model(tmp_path: Path) -> None:
    how = ["--policy", "CascadeTS:a0={1;2}", "--runs", "1", "--horizon", "50", "--queries", "yandex-like:1", "-q"]
    for name in ("PBM", "CM"):
        assert run(["sweep", *how, "--click-model", name, "--out", str(tmp_path / name)]) == 0
    assert not rows(tmp_path / "PBM").equals(rows(tmp_path / "CM"))


def test_a_file_of_queries_may_be_named_from_anywhere(
    yandex40_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = yandex40_file.resolve()
    monkeypatch.chdir(file.parent)
    how = ["--policy", "CascadeTS:a0={1;2}", "--runs", "1", "--horizon", "20", "--out", str(tmp_path), "-q"]
    assert run(["sweep", *how, "--queries", file.name]) == 0
    monkeypatch.chdir(tmp_path)
    assert tomllib.loads(Path("run.toml").read_text())["queries"] == str(file)
    assert run(["sweep", *how, "--queries", str(file), "--resume"]) == 0


# -- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "CascadeSWUCB:window=geom(50,20000)"], "window='geom(50,20000)': must be geom(from,to,count)"),
        (["--policy", "CascadeSWUCB:window=geom(0,20000,5)"], "from must be above 0"),
        (["--policy", "CascadeSWUCB:window=gem(5,20000,5)"], "window='gem(5,20000,5)': a grid must be geom("),
        (["--policy", "CascadeSWUCB:window={10;20"], "a list must be of the form {value;value;...}"),
        (["--policy", "CascadeSWUCB:window={10;ten}"], "window"),
        (["--policy", "CascadeSWUCB:windw={10;20}"], "unknown parameter of CascadeSWUCB 'windw'; did you mean window?"),
        (["--policy", "CascadeSWUBC:window={10;20}"], "unknown policy 'CascadeSWUBC'; did you mean CascadeSWUCB?"),
        (["--policy", "CascadeSWUCB:window=lin(1,1e5,1e5),epsilon={0.1;0.2}"], "200,000 points"),
        (["--policy", "CascadeTS"], "nothing is swept"),
        (["--policy", ""], "policy=''"),
        (["--env", "Abrupt:period={0;10}"], "period=0"),
        (["--env", "Abrupt:period=geom(10,5,2)"], "period='geom(10,5,2)': from must be less than to"),
        (["--env", "Abruptly:period={5;10}"], "unknown environment 'Abruptly'; did you mean Abrupt?"),
        (["--env", "Abrupt", "--env", "Abrupt"], "Abrupt occurs twice"),
        (["--env", "BLB", "--queries", "yandex-like:3"], "BLB has its own query"),
        (["--env", "BLB", "--k", "2"], "BLB has its own number of positions"),
        (["--k", "11"], "k=11: must be an integer from 1 to the number of items, 10"),
        (["--horizon", "0"], "horizon=0"),
        (["--runs", "0"], "runs=0"),
        (["--threads", "0"], "threads=0"),
        (["--device", "abacus"], "device='abacus': must be one of 'cpu'"),
        (["--workers", "2"], "--workers is for --device cluster"),
        (["--checkpoints", "0"], "checkpoints=0"),
        (["--queries", "nowhere.json"], "nowhere.json"),
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--halv"], "--halv"),
    ],
)
def test_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    given = arguments if "--policy" in arguments else ["--policy", "CascadeSWUCB:window={10;20}", *arguments]
    assert run(["sweep", "--out", str(tmp_path / "out"), *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("driftrank: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("policies = ['CascadeTS']", "did you mean policy?"),
        ("env = 'Abrupt'", "env='Abrupt': must be a list of texts"),
        ("halving = 1", "halving=1: must be true or false"),
    ],
)
def test_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(content)
    assert run(["sweep", "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert names(tmp_path) == {"mine.toml"}


def test_another_sweep_is_not_continued(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run([*SMALL, "--policy", "CascadeTS", "--out", str(folder), "--resume"]) == 2
    assert "cannot be continued: it was begun with policy=" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# -- stopped -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert run([*LONG, "--out", str(folder), "-q"]) == 0
    return folder


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX knows them")
@pytest.mark.parametrize("how", others_are_slow([signal.SIGINT, signal.SIGKILL], [signal.SIGKILL]))
def test_stopped_and_continued(whole: Path, tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-c", QUICKLY, *LONG, "--threads", "1", "--out", str(tmp_path), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "parts").rglob("[0-9]*.parquet")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert out == ""
    assert names(tmp_path) == {"run.toml", "parts"}
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert err.startswith("driftrank: stopped; ")
        assert f"of {2 * 5 * 4 * 8} runs are kept in {tmp_path}; the same command with --resume continues" in err
        assert err.count("\n") == 1
    assert run([*LONG, "--out", str(tmp_path), "--resume", "-q"]) == 0
    assert rows(tmp_path).equals(rows(whole))
    assert names(tmp_path) == DATA | {"sweep-window.png"}
