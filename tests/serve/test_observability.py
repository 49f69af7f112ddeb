"""What an operator sees: lines of the log, and metrics that say how users click."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.harness import Harness
from tests.serve.running import Running

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_clicks_and_exploration_by_position(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        metrics = harness.service.metrics
        for n, clicks in enumerate(([1], [2], [], [2])):
            harness.rank("q", ["a", "b", "c"], f"e{n}")
            harness.clock.now += 20
            harness.feedback(f"e{n}", clicks)
        assert [metrics.count("clicks_by_position", ("default", p)) for p in ("1", "2", "3")] == [1, 2, 0]
        explored = [metrics.count("explored_by_position", ("default", p)) for p in ("1", "2", "3")]
        assert sum(explored) == metrics.count("items_shown", ("default", "explore")) > 0
        text = metrics.render().decode()
        assert 'driftrank_click_delay_seconds_bucket{le="10.0",ranker="default"} 0.0' in text
        assert 'driftrank_click_delay_seconds_bucket{le="30.0",ranker="default"} 3.0' in text
        assert 'driftrank_click_delay_seconds_sum{ranker="default"} 60.0' in text


def test_collected_clicks_have_the_delay_of_each(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"second_click": "update", "wait": "1h"}) as harness:
        harness.rank("q", ["a", "b", "c"], "e")
        for clicks in ([1], [3]):
            harness.clock.now += 20
            harness.feedback("e", clicks)
        harness.advance(7200)
        text = harness.service.metrics.render().decode()
        assert 'driftrank_click_delay_seconds_sum{ranker="default"} 60.0' in text
        assert 'driftrank_click_delay_seconds_count{ranker="default"} 2.0' in text


def test_a_deleted_ranker_leaves_no_metrics(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.put("shop", policy="CascadeUCB1", k=3)
        harness.rank("q", ["a", "b", "c"], "e", ranker="shop")
        harness.feedback("e", [1], ranker="shop")
        harness.delete("shop")
        assert 'ranker="shop"' not in harness.service.metrics.render().decode()


def test_changes_and_checkpoints_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "driftrank")

    def found() -> list[Any]:
        return [record for record in caplog.records if record.message == "a change of users was found"]

    with Harness(tmp_path, "GLRTCascadeKLUCB", ranker={"k": 1, "horizon": 10_000}) as harness:
        for n in range(400):
            item = harness.shown("shoes", ["a", "b"], f"e{n}")[0]
            harness.feedback(f"e{n}", [1] if (item == "a") == (n < 200) else [])
        changes = harness.query("shoes").changes
        assert changes == sum(len(record.items) for record in found()) > 0
        assert (found()[0].ranker, found()[0].query) == ("default", "shoes")
        harness.checkpoint()
        assert any("checkpoint at record" in record.message for record in caplog.records)
        assert "driftrank_checkpoint_duration_seconds_count 1.0" in harness.service.metrics.render().decode()
        n = len(found())
        harness.recover()
        assert harness.query("shoes").changes == changes
        assert len(found()) == n, "a replay logs nothing again"


def test_lines_of_requests(tmp_path: Path) -> None:
    variables = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}
    with Running(tmp_path, "--access-log", **variables) as server:
        body = {"query": "secret", "items": ["a"]}
        url = f"{server.url}/v1/rankers/default/rank"
        answer = httpx.post(url, json=body, headers={"Traceparent": TRACE})
        assert answer.headers["traceparent"] == TRACE
        assert "traceparent" not in httpx.post(url, json=body, headers={"Traceparent": "x\t00"}).headers
        assert "driftrank_event_loop_lag_seconds_count" in httpx.get(f"{server.url}/metrics").text
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log.splitlines()]
        line, other = (line for line in lines if line.get("path") == "/v1/rankers/default/rank")
        wanted = {"method": "POST", "route": "/v1/rankers/{ranker}/rank", "ranker": "default", "status": 200}
        assert wanted.items() <= line.items()
        assert (line["traceparent"], "traceparent" in other) == (TRACE, False)
        assert "secret" not in server.log
        assert any(line["message"].startswith("checkpoint at record") for line in lines)
