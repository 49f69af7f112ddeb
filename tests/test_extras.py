"""Environments with some of the extras: what they contain, what works there, and the message for the rest."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from tests.serve.running import Running
from tests.virtual_environment import ROOT, Environment, required

HEAVY = {"duckdb", "llvmlite", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "sqlglot"}

#: interpreted kernels are slow, but compiling a policy takes longer than this file
INTERPRETED = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}

CALLS = """
import json, pickle, sys
from driftrank_client import AsyncClient, Client, NotFound, __version__
from driftrank_client.wire import RankerSettings
with Client(sys.argv[1], timeout=20, deadline=60) as client:
    client.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=2))
    ranking = client.rank("shoes", ["red", "blue", "green"])
    result = client.feedback(ranking.event_id, clicks=[ranking.items[0].id], wait=True)
    try:
        client.query("hats")
    except NotFound as error:
        again = pickle.loads(pickle.dumps(error))
    loaded = sorted({name.split(".")[0] for name in sys.modules})
    clicks = client.query("shoes").clicks
    print(json.dumps([__version__, len(ranking.items), result.outcome, clicks, again.status, loaded]))
"""

LEARNS = """
import driftrank as dr
learner = dr.default_policy().start(items=["a", "b", "c", "d"], k=3, seed=0)
learner.update(learner.rank(), clicks=[0, 1, 0])
env = dr.environments.Abrupt(dr.queries.yandex_like(2, seed=0), k=3, period=20)
result = dr.simulate([dr.CascadeUCB1()], env, horizon=50, runs=2)
print(result.table())
"""


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with driftrank-client."""
    folder = tmp_path_factory.mktemp("light")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=ROOT / "client", check=True, capture_output=True, text=True)
    environment = Environment(folder / "venv")
    environment.install(str(folder / done.stdout.split()[-1]))
    return environment


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with driftrank[serve]."""
    environment = Environment(tmp_path_factory.mktemp("serving") / "venv")
    environment.link("driftrank[serve]")
    return environment


@pytest.fixture(scope="module")
def service(serving: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    class There(Running):
        python = serving.python

    with There(tmp_path_factory.mktemp("service"), **INTERPRETED) as running:
        yield running


def test_the_light_client_is_small(light: Environment) -> None:
    files = [path for path in light.site_packages.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6
    names = {path.name for path in light.site_packages.iterdir()}
    assert "driftrank_client" in names
    assert not names & (HEAVY | {"driftrank"})


def test_the_light_client_calls_a_service(light: Environment, service: Running) -> None:
    done = light.run("-I", "-W", "error", "-c", CALLS, service.url)
    assert done.returncode == 0, done.stderr
    version, items, outcome, clicks, status, loaded = json.loads(done.stdout)
    assert (items, outcome, clicks, status) == (2, "counted", 1, 404)
    assert f'__version__ = "{version}"' in (ROOT / "driftrank" / "__init__.py").read_text("utf-8")
    assert not set(loaded) & (HEAVY | {"driftrank"})


def test_both_clients_need_the_same() -> None:
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text("utf-8"))["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert client["dependencies"] == whole["optional-dependencies"]["client"]
    for same in ("requires-python", "license", "authors"):
        assert client[same] == whole[same]


def test_serving_needs_no_tables_and_no_figures() -> None:
    assert not required("driftrank[serve]") & {"duckdb", "matplotlib", "pandas", "pyarrow", "sqlglot"}
    assert {"duckdb", "pyarrow", "sqlglot"} <= required("driftrank[logs]")
    assert {"matplotlib", "pyarrow"} <= required("driftrank[plots]")


def test_learners_and_simulations_need_no_extra(serving: Environment) -> None:
    done = serving.run("-c", LEARNS, **INTERPRETED)
    assert done.returncode == 0, done.stderr
    assert "CascadeUCB1" in done.stdout


def test_a_missing_extra_on_the_command_line(serving: Environment) -> None:
    done = serving.run("-m", "driftrank", "fit", "log.parquet", **INTERPRETED)
    message = "driftrank fit: needs DuckDB: pip install 'driftrank[logs]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_commands_with_and_without_extras(serving: Environment) -> None:
    plots = "needs matplotlib: pip install 'driftrank[plots]'"
    both = "needs DuckDB and matplotlib: pip install 'driftrank[logs,plots]'"
    expected = {
        "key": None,
        "policies": None,
        "environments": None,
        "log stats x": "driftrank log stats: needs DuckDB: pip install 'driftrank[logs]'",
        **{
            name: f"driftrank {name.split()[0]}: {plots}"
            for name in ("bounds --json", "drive", "leaderboard", "reproduce", "simulate", "sweep")
        },
        "fit x --report y": f"driftrank fit: {both}",
        "evaluate x --report y": f"driftrank evaluate: {both}",
        "advise x --report y": f"driftrank advise: {both}",
    }
    code = """
import sys
from driftrank.cli.app import run
for command in sys.argv[1:]:
    assert run(command.split()) == (0 if command in ("key", "policies", "environments") else 2), command
"""
    done = serving.run("-c", code, *expected, **INTERPRETED)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [message for message in expected.values() if message]


def test_every_module_can_be_imported_or_names_its_extra(serving: Environment) -> None:
    """Apart from the kernels of GPUs, which ``device="cuda"`` alone imports."""
    code = """
import importlib, pkgutil
import driftrank
from driftrank.extras import MissingExtra
for module in pkgutil.walk_packages(driftrank.__path__, "driftrank.", onerror=lambda name: None):
    if module.name == "driftrank.__main__" or ".cuda" in module.name or module.name.endswith(".gpu"):
        continue
    try:
        importlib.import_module(module.name)
    except MissingExtra as error:
        print(module.name.split(".")[1], error)
"""
    done = serving.run("-c", code, **INTERPRETED)
    assert done.returncode == 0, done.stderr
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert set(found.values()) == {"needs DuckDB: pip install 'driftrank[logs]'"}
    assert "logs" in found
    assert found.keys() <= {"evaluation", "experiments", "fitting", "logs"}


def test_a_missing_extra_in_python(serving: Environment) -> None:
    expected = {
        "import driftrank.logs": "needs DuckDB: pip install 'driftrank[logs]'",
        "result.to_arrow()": "needs pyarrow: pip install 'driftrank[plots]'",
        "result.save('.')": "needs pyarrow: pip install 'driftrank[plots]'",
        "dr.experiments.simulation.result.Result.load('.')": "needs pyarrow: pip install 'driftrank[plots]'",
        "result.plot()": "needs matplotlib: pip install 'driftrank[plots]'",
        "result.to_frame()": "needs pandas: pip install 'driftrank[pandas]'",
        "dr.engine.cluster.cluster.Cluster().__enter__()": "needs joblib: pip install 'driftrank[cluster]'",
    }
    tries = """
for statement in sys.argv[1:]:
    try:
        exec(statement)
    except ModuleNotFoundError as error:
        print(error)
"""
    done = serving.run("-c", f"import sys\n{LEARNS}{tries}", *expected, **INTERPRETED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-len(expected) :] == [*expected.values()]
