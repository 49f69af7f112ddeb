"""The tutorials that are scripts in cells: each runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs.notebooks import cells

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "docs" / "tutorial").glob("*.py"))


def test_there_are_three() -> None:
    assert {path.stem for path in SCRIPTS} >= {"researcher", "engineer", "from-a-log"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTRANK_PORT")}
    code_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error", path], cwd=tmp_path, env=environment | {"PYTHONPATH": code_path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial_begins_with_a_title_and_links_somewhere(path: Path) -> None:
    first = cells(path)[0]
    assert first.kind == "markdown"
    assert first.text.startswith("# ")
    assert any("](../" in cell.text for cell in cells(path) if cell.kind == "markdown")
