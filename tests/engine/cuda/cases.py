"""Runs cases of on_simulator.py in a process of their own, and checks their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def run_cases(*names: str) -> dict[str, Any]:
    """The results of these cases, or of all."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("on_simulator.py")), *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # uninitialised numbers can cause an endless loop
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def the(found: dict[str, Any], case: str) -> dict[str, Any]:
    result: dict[str, Any] = found[case]
    assert "error" not in result, result["error"]
    return result


def check_the_same(result: dict[str, Any]) -> None:
    """No number differs, regret is positive, and every step was reported."""
    assert result["different"] == []
    assert max(result["regret"]) > 0
    assert result["ticks"] == [result["steps"]] * len(result["ticks"])
