"""Small doses of the attacks in ``benchmarks``: a server killed repeatedly, and one that gets random requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.running import OUTSIDE, ROOT, Running

_BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not _BENCHMARKS.exists(), reason="needs the repository's benchmarks")


def summary(name: str, *options: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(_BENCHMARKS / name), *options, "--folder", str(folder)]
    done = subprocess.run(command, env=OUTSIDE, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["wrong"] == []
    assert done.returncode == 0
    return found


def test_a_server_that_is_killed_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    found = summary("kill.py", "--rounds", "3", "--seconds", "0.8", "--lists", "300", folder=tmp_path)
    assert found["lists_acknowledged"] > 100
    assert found["feedback_acknowledged"]["counted"] > 10
    assert found["finalised"]["silence"] > 10
    assert found["queries_compared"] > 50


def test_nonsense_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    found = summary("fuzz_service.py", "--bodies", "1000", folder=tmp_path)
    assert sum(found["answers"].values()) == 1000
    assert found["answers"]["422"] > 150
    assert found["answers"]["200"] > 50
    assert found["queries_compared"] > 10


def test_the_size_of_a_feedback_is_bounded(tmp_path: Path) -> None:
    policy = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}
    with Running(tmp_path, **policy) as server, httpx.Client(base_url=f"{server.url}/v1/rankers/default") as client:
        client.post("/rank", json={"query": "shoes", "items": ["a", "b"], "event_id": "e"})
        answer = client.post("/feedback", json={"event_id": "e", "time": "x" * 900_000})
        assert answer.status_code == 422
        assert "time: 900000 characters" in answer.json()["detail"]
        assert client.post("/feedback", json={"event_id": "e", "time": "noon"}).json()["outcome"] == "counted"


def test_one_event_id_for_two_rankings_at_once(tmp_path: Path) -> None:
    """Of two queries: neither is made. Of one: the first is, and the second is the same."""
    with Running(tmp_path, DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:
        url = f"{server.url}/v1/rankers/default"
        first = {"query": "shoes", "items": ["a", "b"], "event_id": "e"}
        other = [first, {"query": "boots", "items": ["c", "d", "e"], "event_id": "e"}]
        assert httpx.post(f"{url}/rank", json=other).status_code == 409
        assert httpx.get(f"{url}/queries").json() == []
        rankings = httpx.post(f"{url}/rank", json=[first, first | {"baseline": ["c", "b"]}]).json()
        assert rankings[0] == rankings[1]
        assert {item["id"] for item in rankings[0]["items"]} == {"a", "b"}
        before = httpx.get(f"{url}/queries/shoes").json()
        assert {item["id"] for item in before["items"]} == {"a", "b"}
        server.kill()
        server.restart()
        assert httpx.get(f"{url}/queries/shoes").json() == before


def test_many_features_take_no_memory(tmp_path: Path) -> None:
    """A policy that learns what features are worth keeps a number for each pair of them."""
    policy = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeLinTS"}
    with Running(tmp_path, **policy) as server, httpx.Client(base_url=f"{server.url}/v1/rankers/default") as client:
        for number, status in ((257, 422), (20_000, 422), (256, 200)):
            items = [{"id": name, "features": [0.5] * number} for name in ("a", "b")]
            answer = client.post("/rank", json={"query": "shoes", "items": items})
            assert answer.status_code == status
            assert status == 200 or f"features: {number} of an item" in answer.json()["detail"]
