"""Examples of several nodes in deploy/ that nothing here can start fit the service: names, ports, paths, settings."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from driftrank.serve.access.keys import new_key
from driftrank.serve.app import _GRACE
from driftrank.serve.http.operation import Need
from driftrank.serve.http.routes import table
from driftrank.serve.log.store.base import store_at
from driftrank.serve.log.store.shared import SharedStore
from driftrank.serve.settings.load import load_settings
from driftrank.serve.settings.server import ServerSettings, check_reachable
from driftrank.wire import ROUTE_HEADER
from tests.postgres import Cluster, binaries, free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
PORT = ServerSettings().port
#: paths that need no key
OPEN = {entry.path for entry in table() if entry.need is Need.NOTHING and entry.method == "GET"}


def parsed(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def server_settings(environ: dict[str, str]) -> ServerSettings:
    """The settings of a container; they load, and others may reach it."""
    settings = load_settings(environ=environ)
    check_reachable(settings)
    assert settings.public
    assert issubclass(store_at(settings.store), SharedStore)
    return settings


def test_every_balancer_hashes_the_header_that_clients_send() -> None:
    nginx, haproxy = ((DEPLOY / name).read_text("utf-8") for name in ("nginx.conf", "haproxy.cfg"))
    assert f"$http_{ROUTE_HEADER.lower().replace('-', '_')}" in nginx
    assert f"balance hdr({ROUTE_HEADER})" in haproxy
    (check,) = re.findall(r"option httpchk GET (\S+)", haproxy)
    assert check in OPEN


def test_envoy() -> None:
    (config,) = parsed("envoy.yaml")
    (listener,), (cluster,) = config["static_resources"]["listeners"], config["static_resources"]["clusters"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["@type"].endswith(".v3.HttpConnectionManager")
    assert manager["http_filters"][-1]["name"] == "envoy.filters.http.router"  # must be the last one
    (host,) = manager["route_config"]["virtual_hosts"]
    route = host["routes"][0]["route"]
    assert route["cluster"] == cluster["name"] == cluster["load_assignment"]["cluster_name"]
    assert route["hash_policy"] == [{"header": {"header_name": ROUTE_HEADER.lower()}}]
    assert set(route["retry_policy"]["retriable_status_codes"]) == {502, 503}
    assert "retriable-status-codes" in route["retry_policy"]["retry_on"].split(",")
    assert cluster["lb_policy"] in ("RING_HASH", "MAGLEV")  # others ignore the policy of hashes
    assert cluster["health_checks"][0]["http_health_check"]["path"] == "/readyz"
    endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    ports = [one["endpoint"]["address"]["socket_address"]["port_value"] for one in endpoints]
    assert ports == [PORT] * len(ports) != []


def test_kubernetes() -> None:
    deployment, service, budget = parsed("kubernetes.yaml")
    assert [it["kind"] for it in (deployment, service, budget)] == ["Deployment", "Service", "PodDisruptionBudget"]
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    (container,) = template["spec"]["containers"]
    secrets = {"store": "postgresql://driftrank@db/driftrank", "admin-key": new_key()[0]}
    environ = {}
    for variable in container["env"]:
        given = variable.get("valueFrom", {})
        environ[variable["name"]] = variable.get("value") or secrets.get(
            given.get("secretKeyRef", {}).get("key"), "pod"
        )
    settings = server_settings(environ)
    assert settings.node == "pod"
    (port,) = container["ports"]
    assert port["containerPort"] == settings.port == service["spec"]["ports"][0]["port"]
    ready, alive = container["readinessProbe"], container["livenessProbe"]
    assert (ready["httpGet"], alive["httpGet"]) == (
        {"path": "/readyz", "port": settings.port}, {"path": "/healthz", "port": settings.port}
    )  # fmt: skip
    assert {"/readyz", "/healthz"} <= OPEN
    # traffic stops before connections are refused, and all of it ends before the process is killed
    assert ready["periodSeconds"] * ready["failureThreshold"] < settings.drain_seconds
    assert settings.drain_seconds + _GRACE < template["spec"]["terminationGracePeriodSeconds"]


def test_compose() -> None:
    (config,) = parsed("compose.yaml")
    services = config["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith("./") else source in config["volumes"]
    nodes = [name for name in services if name.startswith("node")]
    balanced = re.findall(r"^ +server \S+ (\S+):(\d+)", (DEPLOY / "haproxy.cfg").read_text("utf-8"), re.MULTILINE)
    assert balanced == [(node, str(PORT)) for node in nodes]
    for node in nodes:
        environ = {name: str(value) for name, value in services[node]["environment"].items()}
        settings = server_settings(environ | {"DRIFTRANK_ADMIN_KEY": new_key()[0]})
        hosts = re.fullmatch(r"postgresql://(\w+):(\w+)@(.*)/(\w+)", settings.store)
        assert hosts is not None
        database = services["primary"]["environment"]
        assert hosts[3].split(",") == ["primary", "standby"]
        assert [hosts[n] for n in (1, 2, 4)] == [
            database[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB")
        ]  # fmt: skip


def test_the_standby_of_compose(postgres: Cluster) -> None:
    """A database is made, the script runs, the very command of compose starts a standby: commits wait for that one."""
    (config,) = parsed("compose.yaml")
    services = config["services"]
    assert all(service["restart"] == "unless-stopped" for service in services.values())
    assert "-h 127.0.0.1" in services["primary"]["healthcheck"]["test"][1]  # its socket answers too early
    image = "/var/lib/postgresql/data"
    assert services["standby"]["volumes"] == [f"standby:{image}"]
    with Cluster() as primary:
        environ = {"PGDATA": primary.data, "POSTGRES_USER": "driftrank"}
        subprocess.run(["sh", "-eu", str(DEPLOY / "replication.sh")], env=environ, check=True)
        primary.stop()
        primary.start()
        assert primary.run("SHOW synchronous_standby_names") == [("ANY 1 (standby)",)]
        assert primary.run("SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL") == [(0,)]
        rules = "SELECT count(*) FROM pg_hba_file_rules WHERE 'replication' = ANY(database) AND address = 'all'"
        assert primary.run(rules) == [(1,)]
        data, log = primary.folder / "standby", primary.folder / "standby-log"
        data.mkdir()
        os.chown(data, primary.user, -1)
        data.chmod(0o1777)  # as that of the image: PostgreSQL refuses it
        command = shlex.split(services["standby"]["command"].replace(image, str(data)))
        assert command[2].count("host=primary ") == 1
        command[2] = command[2].replace("host=primary ", f"host=127.0.0.1 port={primary.port} ")
        environ = {"PATH": f"{binaries()}:{os.environ['PATH']}", "PGDATA": str(data), "PGPORT": str(free_port())}
        for start in ("first", "second"):  # the data is there already
            with open(log, "wb") as out:
                standby = subprocess.Popen(command, env=environ, user=primary.user, cwd="/", stdout=out, stderr=out)
            try:
                end = time.monotonic() + 60
                while primary.run("SELECT sync_state FROM pg_stat_replication") != [("quorum",)]:
                    assert time.monotonic() < end, log.read_text()
                    assert standby.poll() is None, log.read_text()
                    time.sleep(0.05)
                primary.run(f"CREATE TABLE {start}_start()")
            finally:
                standby.send_signal(signal.SIGINT)
                standby.wait(30)
