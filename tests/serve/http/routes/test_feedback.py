from __future__ import annotations

import json

import pytest

from tests.serve.conftest import JSON, problem

BODY = {"query": "shoes", "items": ["a", "b", "c"], "event_id": "e"}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("counted", 200),
        ("duplicate", 200),
        ("refused", 409),
        ("orphan", 404),
        ("inactive", 409),
        ("holdout", 200),
        ("forgotten", 200),
        ("collected", 200),
    ],
)
def test_outcomes(http, ranker, outcome, status):
    how = {"holdout": {"holdout": 0.999_999}, "collected": {"second_click": "update"}}
    url = ranker(**how.get(outcome, {}))
    if outcome != "orphan":
        http.post(f"{url}/rank", json=BODY | {"defer": outcome == "inactive"}).raise_for_status()
    if outcome in ("duplicate", "refused"):
        http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [1] if outcome == "duplicate" else []})
    if outcome == "forgotten":
        assert http.post(f"{url}/reset").status_code == 204
    answer = http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [1]})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["event_id"] == "e"
    assert answer.json()["outcome"] == outcome
    several = http.post(f"{url}/feedback", json=[{"event_id": "e", "clicks": [1]}])
    assert several.status_code == 200


def test_late(http, ranker):
    url = ranker(wait=0.05)
    http.post(f"{url}/rank", json=BODY)
    for _ in range(1000):
        if http.get(url).json()["pending"] == 0:
            break
    answer = http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [1]})
    assert (answer.status_code, answer.json()["outcome"]) == (200, "late")


def test_feedback_for_a_baseline_that_was_answered_instead(http, ranker):
    """It has no event id: one that batches its feedback must not lose all of it for that."""
    answer = http.post(f"{ranker()}/feedback", json=[{"event_id": "", "clicks": ["a"]}])
    assert (answer.status_code, answer.json()[0]["outcome"]) == (200, "orphan")


@pytest.mark.parametrize("clicks", [[1], ["a"], [{"id": "a"}], [{"position": 1}], [], None, [1, 2], ["a", 3]])
def test_forms_of_clicks(http, ranker, clicks):
    url = ranker(mode="shadow")
    http.post(f"{url}/rank", json=BODY)
    answer = http.post(
        f"{url}/feedback", json={"event_id": "e", "clicks": clicks, "shown": 3, "time": "2026-11-15T12:00"}
    )
    body = answer.json()
    assert ("warning" in body) == (len(clicks or []) > 1)
    assert (body["outcome"], body["clicks"]) == ("counted", len(clicks or []))
    again = http.post(f"{url}/feedback", json={"event_id": "e", "clicks": clicks, "time": 12.5})
    assert again.json()["outcome"] == "duplicate"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"nonsense", b"null", b"[]", b"{}", {"event_id": 7}, {"event_id": "e", "clicks": [0]},
        {"event_id": "e", "clicks": [4]},
        {"event_id": "e", "clicks": ["z"]}, {"event_id": "e", "clicks": [1.5]}, {"event_id": "e", "clicks": [True]},
        {"event_id": "e", "clicks": 1}, {"event_id": "e", "clicks": [{"id": 9}]}, {"event_id": "e", "shown": -1},
        {"event_id": "e", "shown": 4}, {"event_id": "e", "clicks": [3], "shown": 2},
        {"event_id": "e", "click": [1]}, [{"event_id": "e", "clicks": [1]}, {"event_id": "e", "clicks": [9]}],
        [{"event_id": "e", "clicks": [1]}, 7],
    ],
)  # fmt: skip
def test_malformed_feedback_changes_nothing(http, ranker, body):
    url = ranker()
    http.post(f"{url}/rank", json=BODY)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = http.post(f"{url}/feedback", content=content, headers=JSON)
    problem(answer, answer.status_code)
    assert answer.status_code in (400, 422)
    info = http.get(url).json()
    assert (info["steps"], info["pending"]) == (0, 1)


def test_activation(http, ranker):
    url = ranker()
    for event in ("a/b c", "e:1"):
        http.post(f"{url}/rank", json=BODY | {"event_id": event, "defer": True}).raise_for_status()
    assert http.get(url).json()["pending"] == 0
    answer = http.post(f"{url}/events/a%2Fb%20c/activate")
    assert (answer.status_code, answer.json()) == (200, {"event_id": "a/b c", "outcome": "activated"})
    assert http.post(f"{url}/events/a/b c/activate").json()["outcome"] == "duplicate"
    assert http.post("/v1/events/e:1/activate").json()["outcome"] == "activated"
    assert http.get(url).json()["pending"] == 2
    problem(http.post(f"{url}/events/nobody/activate"), 404, "nobody")
    problem(http.post("/v1/events/nobody/activate"), 404, "nobody")
    problem(http.post("/v1/rankers/nobody/events/e:1/activate"), 404)
    problem(http.post(f"{url}/events/{'x' * 300}/activate"), 422, "300 characters")
    other = ranker()
    http.post(f"{other}/rank", json=BODY | {"event_id": "e:1", "defer": True})
    problem(http.post("/v1/events/e:1/activate"), 409, "several rankers")
    assert http.post(f"{other}/events/e:1/activate").json()["outcome"] == "activated"
