"""Real nodes, real load balancers, the real client."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from driftrank.client import Client
from driftrank.wire import RankerSettings, route_of
from tests.postgres import free_port
from tests.serve.running import Running

DEPLOY = Path(__file__).parents[2] / "deploy"
QUERIES = [f"query {n}" for n in range(12)]


@pytest.fixture(scope="module")
def nodes(postgres, tmp_path_factory) -> Iterator[list[Running]]:
    options = ["--store", postgres.url(), "--durability", "relaxed"]
    with (
        Running(tmp_path_factory.mktemp("n1"), *options) as one,
        Running(tmp_path_factory.mktemp("n2"), *options) as two,
    ):
        with Client(one.url, timeout=60, deadline=120) as client:
            client.put_ranker("shop", RankerSettings(policy="CascadeUCB1", k=3))
        yield [one, two]
        for node in (one, two):
            assert "Traceback" not in node.log, node.log


@contextmanager
def _balancer(name: str, nodes: list[Running], folder: Path) -> Iterator[str]:
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip(f"needs {name}")
    port = free_port()
    text = (DEPLOY / {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]).read_text("utf-8")
    for number, node in enumerate(nodes, 1):
        text = text.replace(f"node{number}:8080", f"127.0.0.1:{node.port}")
    text = re.sub(r"\n +server node3:8080.*", "", text).replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}")
    path = folder / name
    if name == "nginx":
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        path.write_text(
            f"daemon off;\npid {folder}/pid;\nerror_log {folder}/log;\n"
            + text.replace("http {", "http {\n" + temporary, 1)
        )
        command = [program, "-c", str(path), "-e", f"{folder}/log"]
    else:
        path.write_text(text)
        command = [program, "-f", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        else:
            raise AssertionError("the balancer does not answer")
        yield url
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def _lists(node: Running) -> int:
    found = re.search(r'driftrank_lists_total{arm="live",ranker="shop"} (\d+)', httpx.get(f"{node.url}/metrics").text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("name", [pytest.param("nginx", marks=pytest.mark.slow), "haproxy"])
def test_queries_stick_to_nodes_and_survive_their_end(name, nodes, tmp_path):
    with _balancer(name, nodes, tmp_path) as url, Client(url, ranker="shop", timeout=30, deadline=60) as client:
        for query in QUERIES:
            before = [_lists(node) for node in nodes]
            for _ in range(3):
                answer = client.rank(query, ["a", "b", "c", "d"])
                assert answer.event_id.endswith(f"@{route_of('shop', query)}")
                assert client.feedback(answer.event_id, [answer.items[0].id], wait=True).outcome == "counted"
            assert sorted(_lists(node) - n for node, n in zip(nodes, before, strict=True)) == [0, 3]
        nodes[1].kill()
        try:
            for query in QUERIES:
                assert len(client.rank(query, ["a", "b", "c", "d"]).items) == 3
        finally:
            nodes[1].restart()


def test_the_client_chooses_nodes_by_itself(nodes):
    urls = [node.url for node in nodes]
    with Client(urls, ranker="shop", timeout=30, deadline=60) as client:
        before = [_lists(node) for node in nodes]
        steps = []
        for query in QUERIES:
            answer = client.rank(query, ["a", "b", "c", "d"])
            client.feedback(answer.event_id, [answer.items[0].id], wait=True)
            steps.append(client.query(query).steps)
        after = [_lists(node) - n for node, n in zip(nodes, before, strict=True)]
        assert sum(after) == len(QUERIES)
        assert min(after) > 0
        nodes[0].kill()
        try:
            for query, n in zip(QUERIES, steps, strict=True):
                answer = client.rank(query, ["a", "b", "c", "d"])
                assert answer.step == n + 1  # what was learnt before is there
                assert client.feedback(answer.event_id, [answer.items[0].id], wait=True).outcome == "counted"
        finally:
            nodes[0].restart()


def test_ones_own_writes_are_read_at_every_node(nodes):
    one, two = (httpx.Client(base_url=node.url, timeout=30) for node in nodes)
    path = "/v1/rankers/shop"
    with one, two:
        for n in range(30):
            answer = one.post(f"{path}/rank", json={"query": "own", "items": ["a", "b", "c"], "event_id": f"own{n}"})
            seq = answer.headers["x-driftrank-seq"]
            steps = two.post(
                f"{path}/feedback", json={"event_id": f"own{n}", "clicks": []}, headers={"X-Driftrank-After": seq}
            )
            assert steps.json()["outcome"] == "counted"
            after = {"X-Driftrank-After": steps.headers["x-driftrank-seq"]}
            assert one.get(f"{path}/queries/own", headers=after).json()["steps"] == n + 1


def test_nodes_are_listed(nodes, capsys):
    from driftrank.cli.app import run

    url = nodes[0]._options[1]
    assert run(["store", "nodes", url]) == 0
    out = capsys.readouterr().out
    assert all(f"{socket.gethostname()}:{node.port}" in out for node in nodes)
    assert out.count("keeper") == 1
