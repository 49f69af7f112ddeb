from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.serve.conftest import problem

ITEMS = ["a", "b", "c", "d"]


def visit(http, url: str, n: int, clicks: list[int]) -> None:
    http.post(f"{url}/rank", json={"query": "a/b", "items": ITEMS, "event_id": f"e{n}"}).raise_for_status()
    positions = [{"position": at} for at in clicks]
    http.post(f"{url}/feedback", json={"event_id": f"e{n}", "clicks": positions}).raise_for_status()


def test_a_ranker_over_time(http, ranker):
    began = time.time()
    url = ranker(policy="CascadeUCB1", k=3)
    for n in range(6):
        visit(http, url, n, [1] if n % 2 else [])
    for step, seconds in (("minute", 60), ("hour", 3600)):
        found = http.get(f"{url}/series", params={"step": step}).json()
        assert found["step"] == step
        assert began - seconds <= found["times"][0] <= found["times"][-1] <= time.time()
        (arm,) = found["arms"]
        assert [sum(arm[name]) for name in ("lists", "feedback", "clicked", "clicks", "silence")] == [6, 6, 3, 3, 0]
        assert {len(column) for column in arm.values() if isinstance(column, list)} == {len(found["times"])}
    assert found["positions"]["shown"][:4] == [6, 6, 6, 0]
    assert found["positions"]["clicked"][0] == sum(found["delays"]["clicks"]) == 3
    assert found == http.get(f"{url}/series?step=hour").json()
    now = datetime.now(UTC)
    later = http.get(f"{url}/series", params={"since": now.isoformat()}).json()
    assert later["times"][0] >= now.timestamp() - 60
    problem(http.get(f"{url}/series?step=day"), 422, "step='day': must be one of 'minute', 'hour'")
    problem(http.get(f"{url}/series?since=yesterday"), 422, "since='yesterday': must be a time such as")
    problem(http.get("/v1/rankers/nobody/series"), 404, "no such ranker")


def test_the_lists_of_a_query(http, ranker):
    url = ranker(policy="CascadeUCB1", k=3)
    for n in range(5):
        visit(http, url, n, [2] if n == 4 else [])
    http.post(f"{url}/rank", json={"query": "a/b", "items": ITEMS, "event_id": "open"}).raise_for_status()
    found = http.get(f"{url}/lists/a/b", params={"limit": 3}).json()
    assert [entry["event_id"] for entry in found["lists"]] == ["open", "e4", "e3"]
    assert [entry.get("clicks") for entry in found["lists"]] == [None, [2], []]
    assert [entry.get("how") for entry in found["lists"]] == [None, "feedback", "feedback"]
    newest = http.get(f"{url}/events/e4").json()
    assert found["lists"][1]["items"] == [item["id"] for item in newest["items"]]
    assert len(found["times"]) == 6
    clicked = {item["id"]: sum(item["clicked"]) for item in found["items"]}
    assert clicked.pop(newest["items"][1]["id"]) == 1
    assert not any(clicked.values())
    assert sum(sum(item["shown"]) for item in found["items"]) == 18
    problem(http.get(f"{url}/lists/x"), 404, "has no such query")
    problem(http.get(f"{url}/lists/a/b?limit=0"), 422, "limit='0': must be an integer from 1 to 1000")


def test_an_overview(http, ranker):
    url = ranker(policy="CascadeUCB1", k=3)
    for n in range(4):
        visit(http, url, n, [1])
    found = http.get("/v1/overview").json()
    mine = next(row for row in found["rankers"] if row["ranker"] == url.rpartition("/")[2])
    assert (mine["lists_hour"], mine["lists_day"], mine["pending"], mine["changes_day"]) == (4, 4, 0, 0)
    (arm,) = mine["arms"]
    assert (arm["arm"], arm["hour"]["lists"], arm["day"]["clicked"], arm["day"]["share"]) == ("live", 4, 4, 1.0)
    assert not {"low", "high"} & set(arm["day"])  # intervals of one look would be compared at any time
    service = found["service"]
    assert 0 < service["rank_p50"] <= service["rank_p99"]
    assert service["requests"] > 4
    assert min(service["store_bytes"], service["state_bytes"]) > 0
