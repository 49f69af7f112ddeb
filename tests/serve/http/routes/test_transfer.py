from __future__ import annotations

import base64
import json

from tests.serve.conftest import JSON, problem

ITEMS = ["a", "b", "c", 7]


def test_warmstart(http, ranker):
    url = ranker()
    rows = [{"query": "shoes", "ranking": ["a", "b"], "clicks": [1]}, {"query": "hats", "ranking": [7], "time": 12.5}]
    assert http.post(f"{url}/warmstart?batch=march", json=rows).json() == {"counted": 2, "duplicates": 0}
    assert http.post(f"{url}/warmstart?batch=march", json=rows).json() == {"counted": 0, "duplicates": 2}
    assert http.get(url).json()["steps"] == 2
    problem(http.post(f"{url}/warmstart", json=[*rows, {"query": "x", "ranking": []}]), 422, "row 3")
    problem(http.post(f"{url}/warmstart", json={"query": "x"}), 422)
    problem(http.post(f"{url}/warmstart?batch={'x' * 300}", json=rows), 422, "batch")
    dated = [{"query": "hats", "ranking": [7], "time": "2026-05-01"}]  # as of now would be wrong
    problem(http.post(f"{url}/warmstart", json=dated), 422, "time")
    problem(http.post("/v1/rankers/nobody/warmstart", json=rows), 404)
    assert http.get(url).json()["steps"] == 2


def test_export_and_import(http, ranker):
    one, other = ranker(), ranker()
    for n in range(30):
        event = http.post(f"{one}/rank", json={"query": f"q{n % 3}", "items": ITEMS, "event_id": f"e:{n}"}).json()
        http.post(f"{one}/feedback", json={"event_id": event["event_id"], "clicks": [1]})
    answer = http.get(f"{one}/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = answer.text.splitlines()
    assert [json.loads(line)["query"] for line in lines] == ["q0", "q1", "q2"]
    assert http.post(f"{other}/import", content=answer.content, headers=JSON).json() == {"counted": 3, "duplicates": 0}
    for n in range(10):
        asked = {"query": f"q{n % 3}", "items": ITEMS, "event_id": f"f:{n}"}
        lists = [http.post(f"{url}/rank", json=asked).json() for url in (one, other)]
        assert lists[0] == lists[1]
    third = ranker(policy="CascadeDUCB")
    problem(
        http.post(f"{third}/import", content=answer.content, headers=JSON),
        422,
        "of CascadeUCB1, this ranker has CascadeDUCB",
    )
    assert http.post(f"{other}/import", content=b"\n\n", headers=JSON).json()["counted"] == 0
    assert http.get(f"{third}/export").content == b""
    problem(http.get("/v1/rankers/nobody/export"), 404)
    problem(http.post(f"{other}/import", content="\n".join([lines[0], lines[1][:-5]]), headers=JSON), 400, "line 2: ")
    problem(http.post(f"{other}/import", json={"query": "q", "state": "?"}), 422, "base64")
    problem(http.post(f"{other}/import", json={"query": "q", "state": base64.b64encode(b"nonsense").decode()}), 422)
    problem(http.post(f"{other}/import", json={"state": ""}), 422, "query")


def test_times_that_are_not_numbers(http, ranker):
    """Taken for now, a list of last year would count as one of today."""
    rows = [{"query": "q", "ranking": ["a"], "time": "2020-01-01"}]
    problem(http.post(f"{ranker()}/warmstart", json=rows), 422, "time")
