"""Small doses of the attacks in ``benchmarks``: a server that is killed again and again, one that hears nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.serve.running import OUTSIDE, ROOT

_BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not _BENCHMARKS.exists(), reason="needs the repository's benchmarks")


def summary(name: str, *options: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(_BENCHMARKS / name), *options, "--folder", str(folder)]
    done = subprocess.run(command, env=OUTSIDE, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["wrong"] == []
    assert done.returncode == 0
    return told


def test_a_server_that_is_killed_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    told = summary("kill.py", "--rounds", "5", "--seconds", "0.8", folder=tmp_path)
    assert told["lists_acknowledged"] > 100
    assert told["feedback_acknowledged"]["counted"] > 10
    assert told["finalised"]["silence"] > 10
    assert told["queries_compared"] > 50


def test_nonsense_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    told = summary("fuzz_service.py", "--bodies", "3000", folder=tmp_path)
    assert sum(told["answers"].values()) == 3000
    assert told["answers"]["422"] > 500
    assert told["answers"]["200"] > 100
    assert told["queries_compared"] > 10
