"""A node whose database hangs or has gone: it says so, to health checks and to Prometheus, and does nothing else."""

from __future__ import annotations

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

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
