"""A node whose database hangs or has gone: it says so, to health checks and to Prometheus, and does nothing else."""

from __future__ import annotations

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from driftrank.serve.log.records import Final, decode
from driftrank.serve.log.store.postgres import PostgresStore
from tests.postgres import Cluster, binaries
from tests.serve.running import Running

QUICK = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1", "DRIFTRANK_RANKERS__DEFAULT__K": "3"}


def _metrics(client: httpx.Client) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {name: float(n) for name, n in re.findall(r"^(driftrank_\w+) (\S+)$", answer.text, re.MULTILINE)}


def test_a_node_reports_a_database_that_hangs_and_one_that_is_dead(tmp_path: Path) -> None:
    if binaries() is None:
        pytest.skip("needs initdb of PostgreSQL")
    with (
        Cluster() as cluster,
        Running(tmp_path, "--store", cluster.url(), **QUICK) as node,
        httpx.Client(base_url=node.url, timeout=5) as client,
        ThreadPoolExecutor(3) as pool,
    ):
        path = "/v1/rankers/default"
        client.post(f"{path}/rank", json={"query": "q", "items": ["a", "b"], "event_id": "e"}).raise_for_status()
        before = _metrics(client)
        assert before["driftrank_ready"] == 1
        assert before["driftrank_store_bytes"] > 0
        cluster.signal(signal.SIGSTOP)
        try:
            # these have to wait for the database, and nobody else for them
            for page in (f"{path}/queries", "/v1/overview", f"{path}/queries/other"):
                pool.submit(httpx.get, node.url + page, timeout=60)
            end = time.monotonic() + 4
            while time.monotonic() < end:
                assert client.get("/healthz").status_code == 200
                found = _metrics(client)
                time.sleep(0.2)
            assert (found["driftrank_ready"], client.get("/readyz").status_code) == (0, 503)
            assert found["driftrank_follow_age_seconds"] > 2
            assert found["driftrank_store_bytes"] == before["driftrank_store_bytes"]
        finally:
            cluster.signal(signal.SIGCONT)
        pool.shutdown()
        cluster.kill()
        end = time.monotonic() + 30
        while client.get("/readyz").status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        found = _metrics(client)
        assert found["driftrank_ready"] == 0
        assert found["driftrank_store_bytes"] == before["driftrank_store_bytes"]
        assert client.get("/healthz").status_code == 200
        cluster.start()
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert client.post(f"{path}/feedback", json={"event_id": "e", "clicks": ["a"]}).json()["outcome"] == "counted"


def test_a_node_that_is_told_to_stop_does_not_wait_for_a_database_that_hangs(postgres: Cluster, tmp_path: Path) -> None:
    path, url = "/v1/rankers/default", postgres.url()
    with (
        Running(tmp_path, "--store", url, **QUICK) as node,
        httpx.Client(base_url=node.url, timeout=60) as client,
        ThreadPoolExecutor(1) as pool,
    ):

        def click(event: str) -> httpx.Response:
            return client.post(f"{path}/feedback", json={"event_id": event, "clicks": ["a"]})

        for event in ("acknowledged", "in doubt"):
            body = {"query": "q", "items": ["a", "b"], "event_id": event}
            client.post(f"{path}/rank", json=body).raise_for_status()
        assert click("acknowledged").json()["outcome"] == "counted"
        postgres.signal(signal.SIGSTOP)
        try:
            doubtful = pool.submit(click, "in doubt")
            while not _metrics(client)["driftrank_commit_queue_length"]:
                time.sleep(0.05)
            assert node.stop() == 0
            assert doubtful.result().status_code == 503
        finally:
            postgres.signal(signal.SIGCONT)
        assert "Traceback" not in node.log
    with PostgresStore(url) as store:
        ends = [record for record in map(decode, (it.body for it in store.read(0))) if isinstance(record, Final)]
    assert "acknowledged" in [end.event_id for end in ends]
