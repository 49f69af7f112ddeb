"""driftrank evaluate on the command line: tables, JSON, refusals with exit code 3, wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from driftrank.cli.app import run
from tests.evaluation.worlds import BEST, draw, fixed, softmax, value, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(1)
    write(folder / "log.parquet", draw(rng, 5000, softmax))
    write(folder / "fixed.parquet", draw(rng, 2000, fixed))
    (folder / "best.json").write_text(json.dumps(BEST), "utf-8")
    lines = [f'{query},"{ranking}"' for query, ranking in BEST.items()]
    (folder / "best.csv").write_text("\n".join(["query,ranking", *lines]), "utf-8")
    return folder


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rankings", str(folder / "best.json"), "--rankings", str(folder / "best.csv"), "--changes", "0"]
    assert run(["evaluate", str(folder / "log.parquet"), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answered"]
    assert found["lists"] == 5000
    one, other = (target["whole"] for target in found["targets"])
    assert one == other  # the same lists from two formats
    assert one["low"] < value() < one["high"]
    assert one["grade"] == "B"
    assert {estimate["estimator"] for estimate in found["targets"][0]["ladder"]} >= {"dr", "prefix", "list", "direct"}


def test_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--best-now", "--estimator", "ladder", "--always-valid", "--changes", "0"]
    assert run(["evaluate", str(folder / "log.parquet"), *options]) == 0
    shown = capsys.readouterr().out
    assert "Over the whole log; the logged lists earned 0." in shown
    assert "best-now by assumption about users" in shown
    assert "reading from the top" in shown
    assert "Assumed: users read from the top" in shown


def test_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reasons, what the click model says, and what would help; exit code 3."""
    log = str(folder / "fixed.parquet")
    assert run(["evaluate", log, "--rankings", str(folder / "best.json"), "--changes", "0"]) == 3
    shown = capsys.readouterr().out
    assert "refused (fixed-logging). Every visitor for 'lamps' saw the same list" in shown
    assert "grade D, items of the target are hardly known" in shown
    assert "best.json: Never shown: 2 for 'lamps'." in shown
    assert "serve the present order, and below it the items that were never shown, with explore = " in shown
    other = folder / "other.json"
    other.write_text(json.dumps({"lamps": [0, 1, 3], "shoes": [5, 3, 4]}), "utf-8")
    assert run(["evaluate", log, "--rankings", str(other), "--changes", "0"]) == 3
    shown = capsys.readouterr().out
    assert "to know, serve the present order with explore = " in shown
    assert run(["evaluate", log, "--rankings", str(other), "--changes", "0", "--json"]) == 3
    target = json.loads(capsys.readouterr().out)["targets"][0]
    assert target["whole"]["value"] is None
    assert target["whole"]["refused"][0]["code"] == "fixed-logging"
    assert target["explore"]["lists"] > 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "policy: give --policy, --rankings or --best-now"),
        (["--rankings", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--best-now", "--since", "yesterday"], "since='yesterday'"),
        (["--best-now", "--report", "/dev/null"], "report='/dev/null': cannot write to this folder"),
        (["--best-now", "--estimator", "snips"], "unknown estimator 'snips'"),
        (["--best-now", "--against", "best"], "unknown target 'best'; did you mean best-now?"),
        (["--policy", "CascadeUCB1", "--value-of", "dream"], "value_of='dream'"),
    ],
)
def test_wrong_input(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(["evaluate", str(folder / "log.parquet"), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
