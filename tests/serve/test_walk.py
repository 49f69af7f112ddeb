"""What an operator needs, from outside: one server, asked by HTTP and killed once. Other files have the details."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from driftrank.serve.offline.click_log import convert_store
from tests.serve.running import Running

ITEMS = ["a", "b", "c", "d"]
SETTINGS = """
[rankers.default]
policy = "CascadeUCB1"
k = 2
holdout = 0.3
stable = "1h"
values = {purchase = 1.0, dwell = 0.3}
second_click = "update"
wait = "2s"

[rankers.default.arms.other]
share = 0.3
policy = "CascadeTS"
"""
LISTS = 40


class Walk:
    """A server, and what it answered."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.http = httpx.Client(timeout=60)
        self.arms: dict[str, str] = {}  #: by subject

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, self.server.url + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def own(self, path: str, body: Any = None) -> Any:
        return self.ask("GET" if body is None else "POST", f"/v1/rankers/default/{path}", body)

    def visit(self, n: int) -> Any:
        """A subject comes; every second list has a click that lasts."""
        request = {"query": "tents", "items": ITEMS, "event_id": f"visit-{n}", "subject": f"user-{n % 20}"}
        ranking = self.own("rank", request)
        assert self.arms.setdefault(request["subject"], ranking["arm"]) == ranking["arm"]
        clicks: dict[str, Any] = {"clicks": [ranking["items"][0]["id"]], "kind": "dwell"} if n % 2 else {"clicks": []}
        assert self.own("feedback", {"event_id": f"visit-{n}", **clicks})["outcome"] == "collected"
        return ranking


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "driftrank.toml").write_text(SETTINGS)
    with Running(folder, "--config", "driftrank.toml") as server:
        walk = Walk(server)
        with walk.http:
            for n in range(LISTS // 2):
                walk.visit(n)
            server.kill()
            server.restart()
            while not walk.http.get(f"{server.url}/readyz").is_success:
                time.sleep(0.05)
            for n in range(LISTS // 2, LISTS):
                walk.visit(n)
            while walk.ask("GET", "/v1/rankers/default")["pending"]:
                time.sleep(0.05)
            yield walk


def test_counts_of_arms_survive_a_kill(walk: Walk) -> None:
    assert set(walk.arms.values()) == {"live", "holdout", "other"}
    found = walk.own("experiment")
    made = Counter(walk.arms[f"user-{n % 20}"] for n in range(LISTS))
    assert {arm["arm"]: arm["lists"] for arm in found["arms"]} == made
    assert found["by"] == "subject"
    assert sum(arm["value"] for arm in found["arms"]) == pytest.approx(0.3 * LISTS / 2)


def test_one_event_says_what_was_shown_and_why(walk: Walk) -> None:
    event = walk.own("events/visit-1")
    assert (event["candidates"], event["query"], event["arm"]) == (ITEMS, "tents", walk.arms["user-1"])
    assert len(event["items"]) == 2
    assert all(item["why"] for item in event["items"])
    assert event["feedback"]["how"] == "feedback"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z", event["time"])
    assert [operation["kind"] for operation in walk.own("operations")] == ["created"]
    assert walk.own("changes") == []
    (query,) = walk.own("top-queries?by=traffic")
    assert query["query"] == "tents"


def test_a_subject_gets_the_same_list_and_further_pages(walk: Walk) -> None:
    request = {"query": "stoves", "items": ITEMS, "subject": "user-1"}
    first, again, below = (
        [item["id"] for item in walk.own("rank", request | more)["items"]] for more in ({}, {}, {"offset": 2})
    )
    assert first == again
    assert sorted(first + below) == ITEMS


def test_the_log_is_a_click_log(walk: Walk) -> None:
    folder = walk.server.folder
    convert_store(f"sqlite:///{folder / 'driftrank.db'}", folder / "log.parquet")
    rows = pq.read_table(folder / "log.parquet").to_pylist()
    visits = [row for row in rows if row["query"] == "tents"]
    assert Counter(row["arm"] for row in visits) == Counter(walk.arms[f"user-{n % 20}"] for n in range(LISTS))
    assert sum(row["value"] for row in visits) == pytest.approx(0.3 * LISTS / 2)
    assert len({row["user"] for row in visits}) == 20


def test_metrics_by_arm_position_and_delay(walk: Walk) -> None:
    text = walk.http.get(f"{walk.server.url}/metrics").text
    for name in ("click_delay_seconds_count", "event_loop_lag_seconds_count", "items_shown_total"):
        assert re.search(rf"^driftrank_{name}\S* [1-9]", text, re.MULTILINE), name
    for arm in ("live", "holdout", "other"):
        assert re.search(rf'^driftrank_lists_total{{arm="{arm}",ranker="default"}} [1-9]', text, re.MULTILINE), arm
