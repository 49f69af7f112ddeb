"""Policies, environments and click models of others on the command line, in processes of their own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from driftrank.cli.app import run
from driftrank.engine.cluster.cluster import Cluster
from driftrank.plugins import import_file

OWN = '''
from typing import ClassVar

import helper
from driftrank.clickmodels import CM
from driftrank.environments import QueryEnvironment
from driftrank.kernels import kernel
from driftrank.policies.stationary.cascade_ts import CascadeTS


class OwnPolicy(CascadeTS):
    """A policy of my own."""

    strength: float = helper.STRENGTH


class OwnWorld(QueryEnvironment):
    """Attraction that is halved every other period."""

    kind: ClassVar[str] = "abrupt"
    period: int = 20

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        epoch = (t - 1) // p.period
        for a in range(base.shape[0]):
            alpha[a] = base[a] if epoch % 2 == 0 else 0.5 * base[a]
        return (epoch + 1) * p.period + 1


class OwnClicks(CM):
    """A click model of my own."""
'''


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(OWN)
    (folder / "helper.py").write_text("STRENGTH = 0.25\n")
    (folder / "broken.py").write_text("import nowhere\n")
    return folder / "own.py"


def driftrank(*arguments: Any, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Kernels run as plain Python: compiling takes longer than these few steps."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"} | ({} if path is None else {"PYTHONPATH": str(path)})
    command = [sys.executable, "-m", "driftrank", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


SIMULATE = ("--env", "OwnWorld:period=10", "--policy", "OwnPolicy:strength=0.5", "--policy", "Random", "--click-model",
            "OwnClicks", "--queries", "yandex-like:1", "--horizon", 40, "--runs", 1, "--json")  # fmt: skip


def test_a_file_is_imported(own: Path, tmp_path: Path) -> None:
    done = driftrank("simulate", "--import", own, *SIMULATE, "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout)
    assert list(numbers["policies"]) == ["OwnPolicy:strength=0.5", "Random"]
    assert numbers["breakpoints"] == [10, 20, 30]
    settings = tmp_path / "one" / "run.toml"
    assert tomllib.loads(settings.read_text())["imports"] == [str(own)]
    again = driftrank("simulate", "--config", settings, "--out", tmp_path / "two", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["policies"]["Random"]["mean"] == numbers["policies"]["Random"]["mean"]


def test_plugins_are_found(own: Path) -> None:
    """A package whose metadata name a module, and another whose module is broken."""
    for name, module in (("good", "own"), ("bad", "broken")):
        info = own.parent / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[driftrank.plugins]\n{name} = {module}\n")
    for command, name in (("policies", "OwnPolicy"), ("environments", "OwnWorld"), ("click-models", "OwnClicks")):
        done = driftrank(command, name, path=own.parent)
        assert done.returncode == 0, done.stderr
        assert "my own" in done.stdout or "halved" in done.stdout
        assert done.stderr.count("warning: plugin bad=broken: cannot be imported (ModuleNotFoundError") == 1


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none.py", "none.py': must be the path of a Python file, FILE.py"),
        ("broken.py", "broken.py: cannot be imported (ModuleNotFoundError(\"No module named 'nowhere'\"))"),
        ("os.py", "there is another module 'os'; rename the file"),
    ],
)
def test_wrong_files(
    own: Path, file: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    if file == "os.py":
        (own.parent / file).write_text("")
    assert run(["policies", "--import", str(own.parent / file)]) == 2
    assert message in capsys.readouterr().err


def test_classes_of_a_file_reach_other_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are pickled by value: the workers of a cluster do not have the file."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "only_in_this_file.py").write_text("class Thing:\n    size = 3\n")
    module = import_file(tmp_path / "only_in_this_file.py")
    assert import_file(tmp_path / "only_in_this_file.py") is module
    _, pickled = Cluster().share(module.Thing())
    monkeypatch.delitem(sys.modules, "only_in_this_file")
    assert pickle.loads(pickled).size == 3
