from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serve.conftest import JSON, problem

BODY = {"query": "shoes", "items": ["a", "b", "c", 7]}


def test_the_default_ranker_exists_from_the_start(http):
    answer = http.post("/v1/rankers/default/rank", json=BODY)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert [item["id"] for item in body["items"]] == ["a", "b", "c", 7], "the caller's order"
    assert [item["position"] for item in body["items"]] == [1, 2, 3, 4]
    assert body["policy"] == "PriorRegimeTS"
    assert body["step"] == 1
    assert {item["why"] for item in body["items"]} == {"prior"}
    clicked = http.post("/v1/rankers/default/feedback", json={"event_id": body["event_id"], "clicks": ["a"]})
    assert clicked.json() == {"event_id": body["event_id"], "outcome": "counted", "clicks": 1}


def test_one_and_many(http, ranker):
    url = ranker()
    one = http.post(f"{url}/rank", json=BODY).json()
    assert len(one["items"]) == 3
    many = http.post(f"{url}/rank", json=[BODY, BODY | {"query": "hats", "k": 1}]).json()
    assert [len(answer["items"]) for answer in many] == [3, 1]


def test_propensities_if_the_policy_defines_them(http, ranker):
    url = ranker(policy="CascadeSoftmax")
    body = http.post(f"{url}/rank", json=BODY).json()
    assert all(0 < item["propensity"] <= 1 for item in body["items"])
    pinned = http.post(f"{url}/rank", json=BODY | {"pinned": {"7": 2}}).json()
    assert pinned["items"][1] == {"id": 7, "position": 2, "score": None, "why": "pinned", "propensity": 1.0}
    assert http.put(url, json={"policy": "RankedEXP3", "k": 3}).status_code == 200
    again = http.post(f"{url}/rank", json=BODY | {"event_id": body["event_id"]}).json()
    assert again["items"] == body["items"], "also when the ranker has become another"
    plain = http.post(f"{ranker()}/rank", json=BODY).json()
    assert all("propensity" not in item for item in plain["items"])


def test_the_same_event_id_by_many_at_once(http, ranker):
    url = ranker(policy="CascadeTS")
    with ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(http.post, f"{url}/rank", json=BODY | {"event_id": "once"}) for _ in range(64)]
        answers = {call.result().text for call in calls}
    assert len(answers) == 1
    assert http.get(url).json()["lists"] == 1
    problem(http.post(f"{url}/rank", json=BODY | {"event_id": "once", "query": "hats"}), 409, "another query")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, ""),
        (b"\xff", 400, ""),
        (b"[" * 100_000, 422, ""),
        (b"null", 422, ""),
        (b"[]", 422, "must be from 1"),
        (b"{}", 422, "query"),
        ({"query": 7, "items": ["a"]}, 422, "query"),
        ({"query": "q", "items": []}, 422, "at least one that is not excluded"),
        ({"query": "q", "items": [True]}, 422, "items"),
        ({"query": "q", "items": [1.5]}, 422, "items"),
        ({"query": "q", "items": [None]}, 422, "items"),
        ({"query": "q", "items": ["a", "a"]}, 422, "twice"),
        ({"query": "q", "items": ["a"], "k": 0}, 422, "k=0"),
        ({"query": "q", "items": ["a"], "k": 4}, 422, "k=4"),
        ({"query": "q", "items": ["a"], "k": "2"}, 422, "k"),
        ({"query": "q", "items": ["a"], "qeury": 1}, 422, "qeury"),
        ({"query": "q", "items": ["a"], "pinned": {"a": 1.5}}, 422, "pinned"),
        ({"query": "q", "items": ["a"], "pinned": {"b": 1}}, 422, "pinned"),
        ({"query": "q", "items": ["a"], "event_id": ""}, 422, "event_id"),
        ({"query": "q" * 600, "items": ["a"]}, 422, "600 characters"),
        ({"query": "q", "items": [2**63]}, 422, "64 bits"),
        (b'{"query": "q", "items": [1e400]}', 422, ""),
        (b'{"query": "q", "items": [{"id": "a", "features": [NaN]}]}', 400, ""),
        ([BODY, {"query": "q", "items": ["a"], "k": 9}], 422, "request 2 of 2"),
    ],
)  # fmt: skip
def test_wrong_bodies(http, ranker, body, status, says):
    url = ranker()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    problem(http.post(f"{url}/rank", content=content, headers=JSON), status, says)
    assert http.get(url).json()["lists"] == 0


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00x", "\\u0000", "\\ufffe", "\\ud83d\\ude00"])
@pytest.mark.parametrize(
    "place",
    ['"query": "?", "items": ["a"]', '"query": "q", "items": ["?"]', '"query": "q", "items": ["a"], "event_id": "?"'],
)
def test_odd_strings(http, ranker, text, place):
    """Taken or refused, but no fault; and what is taken is the same when it is asked for again."""
    url = ranker()
    answer = http.post(f"{url}/rank", content=("{" + place.replace("?", text) + "}").encode(), headers=JSON)
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code == 200:
        again = http.post(f"{url}/feedback", json={"event_id": answer.json()["event_id"], "clicks": [1]})
        assert again.json()["outcome"] == "counted"
        assert http.get(f"{url}/queries").json() == [json.loads(f'"{text}"') if '"query": "?"' in place else "q"]


def test_no_such_ranker(http):
    problem(http.post("/v1/rankers/nobody/rank", json=BODY), 404, "'nobody': no such ranker; add it")
    problem(http.get("/v1/rankers/nobody"), 404, "nobody")
    problem(http.post("/v1/rankers/a%2Fb/rank", json=BODY), 404)


def test_too_much(http, ranker):
    url = ranker()
    problem(http.post(f"{url}/rank", json=BODY | {"items": list(range(1001))}), 422, "1000")
    problem(http.post(f"{url}/rank", content=b" " * 1_000_001, headers=JSON), 413)
    problem(http.post(f"{url}/rank", content=iter([b" " * 600_000] * 2), headers=JSON), 413)
    problem(http.post(f"{url}/rank", json=[BODY] * 1001), 422, "1000")
    assert len(http.post(f"{url}/rank", json=[BODY] * 1000).json()) == 1000


def test_wrong_methods_and_paths(http, ranker):
    url = ranker()
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        problem(http.request(method, f"{url}/rank"), 405, f"{method} is not allowed")
    assert http.head(f"{url}/rank").status_code == 405
    problem(http.get("/v1/nothing"), 404, "no such path: /v1/nothing; see /docs")
    problem(http.get("/v1"), 404)
    problem(http.post(f"{url}/rankk", json=BODY), 404)
    assert http.head("/healthz").status_code in (200, 405)


def test_an_empty_body(http):
    problem(http.post("/v1/rankers/default/rank"), 400, "the body is empty")


def test_examples_are_valid(http, ranker):
    """One after the other, as somebody would try them on the page."""
    paths = http.get("/openapi.json").json()["paths"]
    url = ranker(policy="CascadeUCB1")

    def example(path: str):
        return paths[path]["post"]["requestBody"]["content"]["application/json"]["example"]

    for call in ("rank", "feedback", "warmstart"):
        answer = http.post(f"{url}/{call}", json=example(f"/v1/rankers/{{ranker}}/{call}"))
        assert answer.status_code == 200, answer.text
    where = {p["name"]: p.get("example") for p in paths["/v1/rankers/{ranker}/queries/{query}"]["get"]["parameters"]}
    assert http.get(f"{url}/queries/{where['query']}").json()["steps"] == 2
    for path, methods in paths.items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert all(p["description"] for p in operation.get("parameters", [])), (method, path)
