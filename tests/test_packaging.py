"""The installed package: one version, a light import, every public name."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import driftrank as dr
from scripts.required import required

ROOT = Path(__file__).resolve().parents[1]


def in_new_process(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_version_is_the_same_everywhere() -> None:
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert citation is not None
    assert dr.__version__ == citation[1]
    assert dr.__version__ == importlib.metadata.version("driftrank")
    assert f"{dr.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_import_is_light() -> None:
    heavy = {"matplotlib", "numba", "numpy", "pandas", "pyarrow", "rich", "typer"}
    loaded = set(in_new_process("import sys, driftrank; print(*sys.modules)").split())
    assert "driftrank" in loaded
    assert not heavy & loaded


def test_learner_needs_no_plotting_or_command_line() -> None:
    code = "import sys, driftrank as dr; dr.CascadeDUCB; print(*sys.modules)"
    loaded = set(in_new_process(code).split())
    assert "numba" in loaded
    assert not {"matplotlib", "pandas", "pyarrow", "rich", "typer"} & loaded


def test_the_engine_needs_numpy_and_numba_alone() -> None:
    """As on a machine with a GPU where nothing else is installed."""
    pytest.importorskip("numba_cuda")
    others = {"dask", "distributed", "duckdb", "joblib", "matplotlib", "pandas", "pyarrow", "rich", "scipy", "sqlglot"}
    code = f"""
import sys
for name in {others | {"typer"}}: sys.modules[name] = None
from driftrank.clickmodels.registry import click_models
from driftrank.engine import cuda, devices
from driftrank.environments.registry import environments
from driftrank.policies.registry import policies
print(len(click_models()), len(environments()), len(policies()))
"""
    assert min(map(int, in_new_process(code).split())) > 5


def test_names_are_found() -> None:
    from driftrank.policies.base import Policy
    from driftrank.policies.learner.learner import Learner, load
    from driftrank.policies.registry import policies

    assert (dr.Policy, dr.Learner, dr.load) == (Policy, Learner, load)
    assert dr.queries.yandex_like(1)
    assert dr.simulate.__name__ == "simulate"
    ours = {name: cls for name, cls in policies().items() if cls.__module__.startswith("driftrank.")}
    assert len(ours) > 5
    for name, cls in ours.items():
        assert getattr(dr, name) is cls
        assert name in dir(dr)


def test_policies_of_others_are_not_offered() -> None:
    from driftrank.policies.stationary.random import Random

    class Stranger(Random):
        pass

    with pytest.raises(AttributeError):
        dr.Stranger  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("CascadeSWUBC", "no attribute 'CascadeSWUBC'; did you mean CascadeSWUCB?"),
        ("enviroments", "no attribute 'enviroments'; did you mean environments?"),
        ("xyzzy_plugh", "no attribute 'xyzzy_plugh'$"),
        ("_private", "no attribute '_private'$"),
    ],
)
def test_unknown_name_suggests_the_nearest(wrong: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message.replace("?", r"\?")):
        getattr(dr, wrong)


def test_lock_pins_what_is_declared() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8").splitlines()[1:]
    pinned = dict(line.split("==") for line in lock)
    declared = required("driftrank[dev]") - {"driftrank"}
    assert {"duckdb", "httpx", "numba-cuda", "pandas"} <= declared
    assert declared <= set(pinned)


def test_wheel_holds_the_package_only(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(n for n in names if n.endswith("METADATA"))).decode()
    assert "driftrank/py.typed" in names
    assert "driftrank/policies/forgetting/cascade_swucb.py" in names
    assert {name.split("/")[0] for name in names} == {"driftrank", f"driftrank-{dr.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    page = [
        path for kind in ("css", "html", "js", "svg") for path in (ROOT / "driftrank/serve/page").rglob(f"*.{kind}")
    ]
    assert len(page) > 5
    assert {path.relative_to(ROOT).as_posix() for path in page} <= set(names)
    assert "License-Expression: Apache-2.0" in metadata
