from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.serve.conftest import problem

NAMES = ["", "a", "a b", "a/b", "a/reset", "reset", "x/queries", "ä?&#%", "😀"]


def quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


@pytest.mark.parametrize("name", NAMES)
def test_any_string_can_be_a_query(http, ranker, name):
    url = ranker()
    http.post(f"{url}/rank", json={"query": name, "items": ["a", 7], "event_id": "e"}).raise_for_status()
    http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [{"position": 1}]})
    answer = http.get(f"{url}/queries/{quoted(name)}")
    assert answer.status_code == 200, answer.text
    state = answer.json()
    assert (state["query"], state["steps"], state["lists"], state["clicks"]) == (name, 1, 1, 1)
    assert {str(item["id"]) for item in state["items"]} == {"a", "7"}
    for item in state["items"]:
        known = {"id", "estimate", "bonus", "samples", "score", "last_offered", "last_change", "why"}
        assert set(item) == known | ({"low", "high"} if item["samples"] else set())
        assert abs(datetime.fromisoformat(item["last_offered"]).timestamp() - time.time()) < 600
    clicked = [item for item in state["items"] if item["samples"]]
    assert [item["estimate"] for item in clicked if item["estimate"]] == [1.0]
    assert http.post(f"{url}/queries/{quoted(name)}/reset").status_code == 204
    state = http.get(f"{url}/queries/{quoted(name)}").json()
    assert (state["steps"], len(state["items"])) == (0, 2)
    assert http.delete(f"{url}/queries/{quoted(name)}").status_code == 204
    problem(http.get(f"{url}/queries/{quoted(name)}"), 404, "has no such query")
    problem(http.delete(f"{url}/queries/{quoted(name)}"), 404)
    problem(http.post(f"{url}/queries/{quoted(name)}/reset"), 404)
    assert http.get(url).json()["queries"] == 0


def test_names_page_by_page(http, ranker):
    url = ranker()
    http.post(f"{url}/rank", json=[{"query": name, "items": ["a"]} for name in NAMES]).raise_for_status()
    assert http.get(f"{url}/queries").json() == sorted(NAMES)
    got, after = [], {}
    while page := http.get(f"{url}/queries", params={"limit": 2} | after).json():
        got += page
        after = {"after": page[-1]}
    assert got == sorted(NAMES)
    for limit in ("0", "1001", "-1", "x", "1.5", "", "²"):
        problem(http.get(f"{url}/queries", params={"limit": limit}), 422, "limit")
    problem(http.get("/v1/rankers/nobody/queries"), 404)


def test_changes_that_were_detected(http, ranker):
    url = ranker(policy="GLRTCascadeUCB:explore=0.2", k=2, horizon=1000)
    for n in range(600):
        event = http.post(f"{url}/rank", json={"query": "q", "items": ["a", "b", "c"], "event_id": f"e{n}"}).json()
        liked = "a" if n < 250 else "c"
        clicks = [liked] if liked in [item["id"] for item in event["items"]] else []
        http.post(f"{url}/feedback", json={"event_id": f"e{n}", "clicks": clicks})
    state = http.get(f"{url}/queries/q").json()
    assert state["changes"] >= 1
    assert 250 < state["last_change"] <= 600
    assert any(item["last_change"] == state["last_change"] for item in state["items"])
