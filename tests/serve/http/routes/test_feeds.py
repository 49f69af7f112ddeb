from __future__ import annotations

import time
from datetime import datetime
from urllib.parse import quote

import pytest

from tests.serve.conftest import problem


def visit(http, url: str, n: int, liked: str) -> None:
    event = http.post(f"{url}/rank", json={"query": "q", "items": ["a", "b", "c"], "event_id": f"e{n}"}).json()
    clicks = [liked] if liked in [item["id"] for item in event["items"]] else []
    http.post(f"{url}/feedback", json={"event_id": f"e{n}", "clicks": clicks})


def moment(text: str) -> float:
    """The time, which must be ISO 8601 in UTC."""
    out = datetime.fromisoformat(text)
    assert text.endswith("Z")
    return out.timestamp()


def test_changes_and_queries(http, ranker):
    began = time.time()
    url = ranker(policy="GLRTCascadeUCB:explore=0.2", k=2, horizon=1000)
    for n in range(200):
        visit(http, url, n, "a" if n < 100 else "c")
    http.post(f"{url}/rank", json={"query": "r", "items": ["a"]})
    found = http.get(f"{url}/changes").json()
    assert found
    assert began - 1 <= moment(found[-1]["time"]) <= time.time() + 1
    assert 100 < found[-1]["step"] <= 200
    assert {"query": "q", "everything": True}.items() <= found[-1].items()
    assert http.get(f"{url}/changes", params={"limit": 1}).json() == found[:1]
    assert http.get(f"{url}/changes", params={"before": found[0]["number"]}).json() == found[1:]
    assert http.get(f"{url}/changes", params={"query": "r"}).json() == []
    state = http.get(f"{url}/queries/q").json()
    assert (state["last_change"], state["last_change_time"]) == (found[0]["step"], found[0]["time"])
    busy = http.get(f"{url}/top-queries").json()
    assert [row["query"] for row in busy] == ["q", "r"]
    assert (busy[0]["lists"], busy[0]["live"]["lists"], busy[0]["changes"]) == (200, 200, len(found))
    assert busy[0]["last_change_time"] == found[0]["time"]
    assert moment(busy[0]["since"]) >= began - 1
    assert http.get(f"{url}/top-queries?by=change").json() == busy[:1]
    assert http.get(f"{url}/top-queries?by=loss").json() == [], "there is no holdout"
    assert http.get(f"{url}/top-queries?offset=1&limit=1").json() == busy[1:]
    problem(http.get(f"{url}/top-queries?by=name"), 422, "by='name': must be one of 'traffic', 'change', 'loss'")
    problem(http.get(f"{url}/changes?before=0"), 422, "before='0': must be an integer from 1")
    problem(http.get("/v1/rankers/nobody/changes"), 404, "no such ranker")


def test_operations_page_by_page(http, ranker):
    url = ranker()
    for k in (4, 5, 6):
        http.patch(url, json={"k": k}).raise_for_status()
    found = http.get(f"{url}/operations").json()
    assert [entry["kind"] for entry in found] == ["changed"] * 3 + ["created"]
    assert all(abs(moment(entry["time"]) - time.time()) < 600 for entry in found)
    assert http.get("/v1/operations?limit=4").json() == found
    pages, before = [], {}
    while page := http.get(f"{url}/operations", params={"limit": 3} | before).json():
        pages.append(page)
        before = {"before": page[-1]["number"]}
    assert pages == [found[:3], found[3:]]
    problem(http.get("/v1/operations?limit=1001"), 422, "limit='1001'")
    problem(http.get("/v1/operations?limt=1"), 422, "'limt': unknown parameter; must be one of ")
    problem(http.get(f"{url}?limit=1"), 422, "'limit': unknown parameter; there are no parameters")
    assert http.get("/healthz?t=1").status_code == 200, "a probe"


@pytest.mark.parametrize("event_id", ["e", "a/b", "x/activate", "two\nlines", "ä?&#%"])
def test_an_event(http, ranker, event_id):
    url = ranker()
    ranked = http.post(f"{url}/rank", json={"query": "q", "items": ["a", 7, "c", "d"], "event_id": event_id}).json()
    at = f"{url}/events/{quote(event_id, safe='')}"
    found = http.get(at).json()
    assert (found["event_id"], found["items"], found["outcome"]) == (event_id, ranked["items"], "open")
    assert found["candidates"] == ["a", 7, "c", "d"]
    assert moment(found["window_closes"]) == pytest.approx(moment(found["time"]) + 1800, abs=1e-5)
    http.post(f"{url}/feedback", json={"event_id": event_id, "clicks": [{"position": 2}]})
    found = http.get(at).json()
    assert (found["outcome"], found["learnt"], found["feedback"]["clicks"]) == ("counted", True, [2])
    problem(http.get(f"{url}/events/nothing"), 404, "no ranking of ranker")
    problem(http.get(f"{url}/events/{'x' * 300}"), 422, "event_id: an id of 300 characters")


def test_items_in_each_order(http, ranker):
    url = ranker()
    for n in range(20):
        visit(http, url, n, "b")
    http.post(f"{url}/rank", json={"query": "q", "items": ["a", "z", 3]})

    def ids(**parameters: object) -> list[object]:
        return [item["id"] for item in http.get(f"{url}/queries/q", params=parameters).json()["items"]]

    assert ids(sort="id") == [3, "a", "b", "c", "z"]
    assert ids(sort="id", offset=1, limit=2) == ["a", "b"]
    assert ids() == ids(sort="estimate")
    assert ids()[0] == "b"
    assert {*ids(sort="last_offered")[:3]} == {"a", "z", 3}
    state = http.get(f"{url}/queries/q", params={"sort": "samples"}).json()["items"]
    assert [item["samples"] for item in state] == sorted((item["samples"] for item in state), reverse=True)
    problem(http.get(f"{url}/queries/q?sort=size"), 422, "sort='size': must be one of 'estimate'")
