from __future__ import annotations

import pytest

from tests.serve.conftest import problem

BODY = {"query": "shoes", "items": ["a", "b", "c"], "event_id": "e"}


def test_create_change_and_delete_a_ranker(http, ranker):
    url = ranker(wait="10m")
    name = url.rpartition("/")[2]
    info = http.get(url).json()
    assert info["name"] == name
    assert info["settings"] | {"policy": "CascadeUCB1", "k": 3, "wait": "10m", "mode": "live"} == info["settings"]
    assert {key: info[key] for key in ("queries", "lists", "steps", "clicks", "pending")} == dict.fromkeys(
        ("queries", "lists", "steps", "clicks", "pending"), 0
    )
    http.post(f"{url}/rank", json=BODY)
    http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [1, 2]})
    info = http.get(url).json()
    assert (info["queries"], info["lists"], info["steps"], info["clicks"], info["pending"]) == (1, 1, 1, 2, 0)
    assert name in [other["name"] for other in http.get("/v1/rankers").json()]
    assert http.put(url, json={"policy": "CascadeUCB1", "k": 3}).json()["steps"] == 1
    assert http.put(url, json={"policy": "CascadeUCB1", "k": 2}).json()["steps"] == 1
    assert http.put(f"{url}?discard=true", json={"policy": "CascadeUCB1", "seed": 2}).json()["steps"] == 0
    answer = http.delete(url)
    assert (answer.status_code, answer.content) == (204, b"")
    problem(http.get(url), 404, name)
    problem(http.delete(url), 404, name)
    problem(http.post(f"{url}/rank", json=BODY), 404, name)
    assert name not in [other["name"] for other in http.get("/v1/rankers").json()]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"policy": "Nobody"}, "unknown policy"), ({"policy": "CascadeSWUCB:window=0"}, "window"), ({"k": 0}, "k=0"),
        ({"k": "3"}, "k='3': must be an integer"),
        ({"mode": "bold"}, "mode='bold': must be one of 'live', 'shadow', 'safe'"),
        ({"wait": -1}, "wait"), ({"wait": "soon"}, "wait"), ({"polcy": "x"}, "did you mean policy?"),
        ({"seed": 2**64}, "seed"), ({"horizon": 0}, "horizon"),
        ({"silence": None}, "silence=None: must be one of"), ({"keys": ["x"]}, "keys"), ([], ""),
        ({"policy": "CascadeUCB1", "k": 1000, "horizon": 2**53}, None),
        ({"policy": "CUCBBoB", "horizon": 2**53}, "more than the memory"),
        ({"policy": "BubbleRank"}, "horizon"), ({"policy": "CascadeSWUCB", "horizon": 2**53}, None),
    ],
)  # fmt: skip
def test_settings(http, settings, says):
    """Refused with a reason, or taken, and then it works."""
    answer = http.put("/v1/rankers/odd", json=settings)
    if says is not None:
        problem(answer, 422, says)
    elif answer.status_code != 200:
        problem(answer, 422)
    else:
        assert http.post("/v1/rankers/odd/rank", json={"query": "q", "items": ["a"]}).status_code == 200


@pytest.mark.parametrize("name", ["-x", "x" * 65, "%C3%A4", "a%20b", ".x"])
def test_invalid_names(http, name):
    problem(http.put(f"/v1/rankers/{name}", json={"k": 3}), 422, "ranker=")


def test_reset(http, ranker):
    url = ranker()
    http.post(f"{url}/rank", json=BODY)
    assert http.post(f"{url}/reset").status_code == 204
    assert http.get(url).json()["queries"] == 0
    assert http.get(f"{url}/queries").json() == []
    problem(http.post("/v1/rankers/nobody/reset"), 404)
