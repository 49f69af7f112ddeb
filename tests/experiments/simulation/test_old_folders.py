"""Run folders that version 0.1.0 made (commit 28fd5ba) still open, and continue.

``complete`` and ``interrupted`` are of the same command. Figures and pages were deleted to keep them small.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from driftrank.cli.app import run
from driftrank.experiments import Leaderboard, Result, Sweep
from driftrank.experiments.simulation import folder
from driftrank.experiments.simulation.folder import Journal

FOLDERS = Path(__file__).parent / "folders_0.1.0"
#: the class that loads a folder, and the runs that are missing in the interrupted one
KINDS: dict[str, tuple[Any, int]] = {"simulate": (Result, 3), "sweep": (Sweep, 4), "leaderboard": (Leaderboard, 3)}


@pytest.fixture(autouse=True)
def _same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "__version__", "0.1.0")


def rows(path: Path) -> Any:
    return pyarrow.parquet.read_table(path / "results.parquet").replace_schema_metadata(None)


def resumed(command: str, which: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, int]:
    """Continue a copy of a folder; returns it, and the number of runs that were made."""
    out = shutil.copytree(FOLDERS / command / which, place / which)
    made: list[int] = []
    add = Journal.add
    monkeypatch.setattr(Journal, "add", lambda self, unit, *args: made.append(len(unit.runs)) or add(self, unit, *args))
    arguments = ["--config", str(out / "run.toml"), "--out", str(out), "--resume", "--json"]
    assert run([command, *arguments]) == 0
    return out, sum(made)


@pytest.mark.parametrize("command", KINDS)
def test_complete_folders_open(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KINDS[command][0].load(FOLDERS / command / "complete")
    out, made = resumed(command, "complete", tmp_path, monkeypatch)
    assert made == 0
    assert rows(out).equals(rows(FOLDERS / command / "complete"))


@pytest.mark.parametrize("command", KINDS)
def test_interrupted_folders_continue(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, missing = KINDS[command]
    out, made = resumed(command, "interrupted", tmp_path, monkeypatch)
    assert made == missing
    assert rows(out).equals(rows(FOLDERS / command / "complete"))
    kind.load(out)
    assert not (out / "parts").exists()


@pytest.mark.parametrize("command", KINDS)
def test_other_settings_are_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shutil.copytree(FOLDERS / command / "interrupted", tmp_path / "out")
    arguments = ["--config", str(out / "run.toml"), "--seed", "1", "--out", str(out), "--resume"]
    assert run([command, *arguments]) == 2
    assert "begun with seed=0, now it is 1" in capsys.readouterr().err
