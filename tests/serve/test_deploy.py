"""What lies in deploy/ fits the server: its settings load, its command lines are ours."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from msgspec import UNSET

from driftrank.cli.app import make_app
from driftrank.policies.registry import default_policy
from driftrank.serve.access.keys import new_key
from driftrank.serve.monitoring.metrics import COUNTERS, GAUGES, HISTOGRAMS
from driftrank.serve.settings.load import load_settings
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import RankerSettings
from tests.serve.running import Running

DEPLOY = Path(__file__).parents[2] / "deploy"
TOML = DEPLOY / "driftrank.toml"
UNIT = (DEPLOY / "driftrank.service").read_text("utf-8")
# as a builder reads it: lines that end in a backslash go on
CONTAINER = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")


def understood(arguments: list[str]) -> dict[str, Any]:
    """The options of a command line, as ``driftrank serve`` reads them."""
    name, *options = arguments
    command: Any = typer.main.get_command(make_app())
    return dict(command.commands[name].make_context(name, options).params)


def instructions(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", CONTAINER, re.MULTILINE)


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in instructions("ENV") for pair in shlex.split(line))


def test_the_file_as_it_is_installed_changes_nothing() -> None:
    """Nobody gets rankers, or other settings, from an example."""
    assert load_settings(TOML) == load_settings() == ServerSettings(rankers={"default": RankerSettings()})


def test_commented_settings_are_the_defaults(tmp_path: Path) -> None:
    text = TOML.read_text("utf-8")
    server, _, shop = text.partition("# [rankers.shop]\n")
    uncommented = re.sub(r"^# (\w+ = )", r"\1", server, flags=re.MULTILINE)
    # these have no default that a file could have
    uncommented = re.sub(
        r"^(admin_key|read_key|session_secret|rate|socket|tls_cert|tls_key|node) = .*$",
        "",
        uncommented,
        flags=re.MULTILINE,
    )
    path = tmp_path / "driftrank.toml"
    path.write_text(uncommented, "utf-8")
    assert load_settings(path) == ServerSettings()
    defaults = dict(re.findall(r"^# (\w+) = (\S+)", shop, re.MULTILINE))
    assert defaults.keys() == set(RankerSettings.__struct_fields__)
    without = {name for name in defaults if getattr(RankerSettings(), name) is UNSET}
    assert without == {"arms", "explore", "planned", "stable", "values"}
    for name in defaults.keys() - without - {"policy", "horizon"}:
        assert json.loads(defaults[name]) == getattr(RankerSettings(), name)
    assert json.loads(defaults["policy"]) == default_policy().spec
    path.write_text("[rankers.shop]\n" + re.sub(r"^# ", "", shop, flags=re.MULTILINE), "utf-8")
    assert load_settings(path).rankers["shop"].k == RankerSettings().k


def test_every_setting_is_in_the_example() -> None:
    text = TOML.read_text("utf-8")
    for name in ServerSettings.__dataclass_fields__.keys() - {"discard", "rankers"}:  # in a file it would discard again
        assert re.search(rf"^(# )?{name} = ", text, re.MULTILINE), name


def test_the_unit_starts_our_command() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert Path(program).name == "driftrank"
    assert Path(understood(arguments)["config"]) == Path("/etc/driftrank/driftrank.toml")


def test_the_units_variables_are_known() -> None:
    given = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", UNIT, re.MULTILINE))
    assert load_settings(environ=given) == ServerSettings()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "driftrank.service"
    unit.write_text(UNIT.replace("/opt/driftrank/bin/driftrank", sys.executable), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_container_needs_a_key_and_keeps_its_store_in_the_volume() -> None:
    (entry,), (command,), (volume,) = (instructions(word) for word in ("ENTRYPOINT", "CMD", "VOLUME"))
    program, *arguments = json.loads(entry) + json.loads(command)
    assert program == "driftrank"
    assert not any(understood(arguments).values())
    settings = load_settings(environ=variables())
    assert settings.public
    assert settings.admin_key is None
    assert settings.store.startswith(f"sqlite:///{volume}/")
    # kernels that are compiled for the image must not be hidden by a volume
    assert not variables()["DRIFTRANK_CACHE_DIR"].startswith(volume)
    (compiled,) = [line for line in instructions("RUN") if line.startswith("driftrank ")]
    assert understood(shlex.split(compiled)[1:]) == {"policies": (), "config": None, "imports": []}
    assert load_settings(environ={**variables(), "DRIFTRANK_ADMIN_KEY": new_key()[0]}).admin_key
    assert instructions("EXPOSE") == [str(settings.port)]
    assert instructions("USER") == ["driftrank"]


def test_the_container_copies_existing_files() -> None:
    for line in instructions("COPY"):
        if not line.startswith("--from"):
            *sources, _ = [word for word in line.split() if not word.startswith("--")]
            assert all((DEPLOY.parent / source).exists() for source in sources)


def test_the_health_check_is_kept_by_podman() -> None:
    """Its default format of images has none: the build names another, or the run gives the check."""
    (line,) = instructions("HEALTHCHECK")
    options, _, command = line.partition(" CMD ")
    (program,) = json.loads(command)
    (copied,) = [words for words in map(str.split, instructions("COPY")) if words[-1] == f"/usr/local/bin/{program}"]
    assert copied[:2] == ["--chmod=755", "deploy/healthy.py"]
    assert "#   podman build --format docker " in CONTAINER
    (given,) = re.findall(r"^#   (--health-cmd .*)$", CONTAINER, re.MULTILINE)
    at_run = re.sub(r"--(\w[\w-]*)=", r"--health-\1 ", options)
    assert given == f"--health-cmd {program} {at_run}"


def test_the_health_check_tells_a_living_service_from_a_dead_one(server: Running) -> None:
    def check(port: int) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "DRIFTRANK_PORT": str(port)}
        command = [sys.executable, str(DEPLOY / "healthy.py")]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    assert check(server.port).returncode == 0
    dead = check(1)
    assert dead.returncode == 1
    assert "Connection refused" in dead.stderr


#: the metrics by the names of their series, with their labels
SERIES = {
    **{f"driftrank_{name}_total": set(family.labels) for name, family in COUNTERS.items()},
    **{f"driftrank_{name}": set(family.labels) for name, family in GAUGES.items()},
    **{f"driftrank_{name}_bucket": {*family.labels, "le"} for name, family in HISTOGRAMS.items()},
}


def test_nothing_tells_to_install_a_name_that_others_may_register() -> None:
    """The distribution is in no registry: an install of its name would run the code of whoever takes it."""
    pages = [path for folder in (DEPLOY, DEPLOY.parent / "docs") for path in folder.rglob("*") if path.is_file()]
    for path in [*pages, DEPLOY.parent / "README.md", DEPLOY.parent / "client/README.md"]:
        if path.suffix != ".png":
            assert not re.search(r"pip install\b.*[ '\"]driftrank\b(?!/)", path.read_text("utf-8")), path


def expressions() -> list[str]:
    """The queries of the dashboard and of the alerts."""
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    alerts = yaml.safe_load((DEPLOY / "driftrank-alerts.yml").read_text("utf-8"))
    out = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return out + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("expression", expressions())
def test_dashboard_and_alerts_use_metrics_that_exist(expression: str) -> None:
    used = re.findall(r"\b(driftrank_\w+)(?:\{(.*?)\})?", expression)
    assert used or expression.startswith("up{")
    for name, selector in used:
        assert set(re.findall(r"(\w+)(?:=~|!=|=)", selector)) <= SERIES[name], name
    labels = set().union(*(SERIES[name] for name, _ in used))
    for by in re.findall(r"by \((.*?)\)", expression):
        assert set(by.split(", ")) <= labels
    assert expression.count("(") == expression.count(")")


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) > 10
    assert len({panel["title"] for panel in dashboard["panels"]}) == len(places)
