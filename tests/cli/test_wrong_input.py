"""Wrong input: one clear line, exit code 2, no traceback, and no file."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from driftrank.cli.app import run

SMALL = ("--policy", "Random", "--queries", "yandex-like:1", "--runs", "1", "--horizon", "50")


def queries(*alpha: float, **more: Any) -> str:
    return json.dumps({"queries": {"x": {"CM": {"attraction": list(alpha)}, **more}}})


def refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], place: Path, out: str = "out", code: int = 2
) -> None:
    before = sorted(place.rglob("*"))
    assert run(["simulate", *SMALL, *arguments, "--out", str(place / out)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("driftrank: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--k", "11"], "k=11: must be an integer from 1 to the number of items, 10"),
        (["--k", "0"], "k=0"),
        (["--horizon", "0"], "horizon=0: must be an integer of at least 1"),
        (["--horizon", "1.5"], "--horizon"),
        (["--horizon", str(10**30)], "horizon="),
        (["--runs", "-3"], "runs=-3: must be an integer of at least 1"),
        (["--threads", "0"], "threads=0"),
        (["--seed", "-1"], "seed=-1"),
        (["--seed", str(2**64)], "seed="),
        (["--checkpoints", "0"], "checkpoints=0"),
        (["--device", "abacus"], "device='abacus': must be one of 'cpu'"),
        (["--policy", "CascadeSWUBC"], "unknown policy 'CascadeSWUBC'; did you mean CascadeSWUCB?"),
        (["--policy", "CascadeSWUCB:windw=5"], "unknown parameter of CascadeSWUCB 'windw'; did you mean window?"),
        (["--policy", "CascadeSWUCB:window=0"], "window"),
        (["--policy", "CascadeSWUCB:window=x"], "window"),
        (["--policy", "CascadeSWUCB:"], "parameters are missing"),
        (["--policy", "CascadeSWUCB:window"], "key=value"),
        (["--policy", "Random"], "Random occurs twice"),
        (["--policy", ""], "policy=''"),
        (["--env", "Abruptly"], "unknown environment 'Abruptly'; did you mean Abrupt?"),
        (["--env", "Abrupt:perod=5"], "unknown parameter of Abrupt 'perod'; did you mean period?"),
        (["--env", "Abrupt:boost=1.5"], "boost=1.5"),
        (["--env", "Abrupt:boost=nan"], "boost"),
        (["--env", "BLB"], "queries='yandex-like:1': BLB has its own query"),
        (["--queries", "yandex-like:0"], "yandex-like:N or yandex-like:NxITEMS, each at least 1"),
        (["--queries", "yandex-like:many"], "yandex-like:N"),
        (["--queries", "nowhere.json"], "nowhere.json"),
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read (No such file or directory)"),
        (["--polcy", "Random"], "--polcy"),
        (["--horizon"], "--horizon"),
        (["surplus"], "surplus"),
    ],
)
def test_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    refused(arguments, message, capsys, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (queries(0.5, 1.5, 0.1, 0.1, 0.1, 0.1), "attraction[1]=1.5: must be a probability in [0, 1]"),
        (queries(0.5, -0.1, 0.1, 0.1, 0.1, 0.1), "attraction[1]=-0.1"),
        (queries(0.5, float("nan"), 0.1, 0.1, 0.1, 0.1), "attraction[1]=nan"),
        (queries(0.5, float("inf"), 0.1, 0.1, 0.1, 0.1), "attraction[1]=inf"),
        (queries(*[0.1] * 6, items=["a", "b", "c", "a", "d", "e"]), "duplicate items"),
        (queries(*[0.1] * 6, items=["a", "b"]), "2 items and 6 probabilities"),
        (queries(*[0.1] * 2), "k=3: must be an integer from 1 to the number of items, 2"),
        (queries(), "attraction"),
        (queries(*[0.1] * 6)[:-5], "is not valid JSON"),
        ("", "is not valid JSON"),
        ('{"queries": ', "is not valid JSON"),
        ('{"queries": {}}', "at least one query"),
        ('{"queries": {"x": {}}}', "attraction"),
        ('{"queries": {"x": {"CM": {"attraction": "abc"}}}}', "attraction"),
        ('{"queries": {"x": {"CM": {"attraction": [0.1, null, 0.3]}}}}', "attraction"),
        ("[1, 2]", "queries"),
        (b"\xff\xfe\x00", "is not a text file"),
    ],
)
def test_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | bytes, message: str) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["--queries", str(path)], message, capsys, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("horizont = 5", "unknown setting in"),
        ("horizont = 5", "'horizont'; did you mean horizon?"),
        ("policies = ['Random']", "did you mean policy?"),
        ("horizon = ", "is not valid TOML"),
        ("horizon = 5\nhorizon = 6", "is not valid TOML"),
        ("[simulation]\nhorizon = 5", "'simulation'"),
        ("seed = '5'", "seed='5': must be an integer"),
        ("seed = 1.5", "seed=1.5: must be an integer"),
        ("policy = 'Random'", "must be a list"),
        ("json = 1", "json=1: must be true or false"),
        ("out = 3", "out=3: must be text"),
    ],
)
def test_config(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(content)
    refused(["--config", str(config)], message, capsys, tmp_path)


@pytest.mark.parametrize("out", ["file", "file/sub"])
def test_folder_that_is_not_writable(tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str) -> None:
    (tmp_path / "file").write_text("mine")
    refused([], "cannot write to this folder", capsys, tmp_path, out)
    assert (tmp_path / "file").read_text() == "mine"


def test_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: Any, path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    assert run(["simulate", *SMALL, "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "driftrank: error: No space left on device"  # after compiling
    assert not list(tmp_path.rglob("*.parquet"))


def test_too_large_for_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["--runs", str(10**15)], "not enough memory", capsys, tmp_path, code=1)


@pytest.mark.parametrize("command", ["policies", "environments"])
def test_unknown_names(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run([command, "Abrupd"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("items", ["", "x", "10,,20", "1", "0,5", "-3"])
def test_bench(capsys: pytest.CaptureFixture[str], items: str) -> None:
    assert run(["bench", "--quick", "--items", items]) == 2
    assert "items=" in capsys.readouterr().err


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulat"]) == 2
    assert capsys.readouterr().err == "driftrank: error: No such command 'simulat'. Did you mean 'simulate'?\n"


def test_from_a_shell(tmp_path: Path) -> None:
    """Through the real entry point."""
    command = [sys.executable, "-m", "driftrank", "simulate", "--k", "99", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("driftrank: error: k=99: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="k=99"):
        run(["--debug", "simulate", "--k", "99"])
    monkeypatch.setenv("DRIFTRANK_DEBUG", "1")
    with pytest.raises(ValueError, match="k=99"):
        run(["simulate", "--k", "99"])


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("driftrank.experiments.simulation.settings.EnvironmentSettings.environment", broken)
    with pytest.raises(KeyError):
        run(["simulate", *SMALL])
