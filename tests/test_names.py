"""The names of ``driftrank`` for editors and type checkers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import driftrank as dr

ROOT = Path(__file__).resolve().parents[1]

USE = """
import driftrank as dr

learner = dr.CascadeSWUCB(window=3).start(["a", "b"], k=1)
reveal_type(learner)
reveal_type(learner.rank())
reveal_type(dr.simulate(dr.Random, "Abrupt", horizon=10))
dr.CascadeSWUCB(windw=3)
dr.CascadeSWCB()
learner.rnk()
dr.environments.Abrupt([[0.1, 0.2]], perid=3)
"""
EXPECTED = [
    'Revealed type is "driftrank.policies.learner.learner.Learner"',
    'Revealed type is "driftrank.policies.learner.ranked_items.RankedItems"',
    'Revealed type is "driftrank.experiments.simulation.result.Result"',
    'Unexpected keyword argument "windw" for "CascadeSWUCB"; did you mean "window"?',
    'Module has no attribute "CascadeSWCB"; maybe "CascadeSWUCB"',
    '"Learner" has no attribute "rnk"; maybe "rank"?',
    'Unexpected keyword argument "perid" for "Abrupt"; did you mean "period"?',
]


def test_a_type_checker_knows_the_names(tmp_path: Path) -> None:
    """With the settings of ``make lint``, whose cache makes it quick."""
    file = tmp_path / "use.py"
    file.write_text(USE)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if " defined in " not in line]
    assert len(lines) == len(EXPECTED) + 1, done.stdout
    for line, expected in zip(lines, EXPECTED, strict=False):
        assert expected in line


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'CascadeSWCB'; did you mean CascadeSWUCB"):
        _ = dr.CascadeSWCB  # type: ignore[attr-defined]
    assert "CascadeSWUCB" in dir(dr)
