"""Learners saved by an earlier version still load, and continue with the lists that they would have made then.

``saved_learners.tar.gz`` was written by commit 28fd5ba: one learner of every policy after 60 steps, and
``expected.json`` with the ten lists that followed.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import driftrank as dr
from driftrank.policies.registry import policies

ARCHIVE = Path(__file__).with_name("saved_learners.tar.gz")
LEARNERS = [name for name, cls in policies().items() if not cls.oracle and cls.__module__.startswith("driftrank.")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_none_is_missing(saved: Path) -> None:
    assert {path.stem for path in saved.glob("*.learner")} <= set(LEARNERS)
    assert len(list(saved.glob("*.learner"))) == 46


@pytest.mark.parametrize("name", LEARNERS)
def test_a_saved_learner_continues(name: str, saved: Path) -> None:
    path = saved / f"{name}.learner"
    if not path.exists():
        pytest.skip(f"{name} is newer than the archive")
    learner = dr.load(path)
    for t, expected in enumerate(json.loads((saved / "expected.json").read_text())[name]):
        ranking = learner.rank()
        assert list(ranking) == expected
        learner.update(ranking, [t % 2, 0])
