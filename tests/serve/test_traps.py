"""Traps that would corrupt or erase what was learnt, at a real server."""

from __future__ import annotations

import random
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest

from tests.serve.conftest import problem

ITEMS = list("abcdefgh")


def ranked(http: httpx.Client, url: str, event: str | None = None, **how: object) -> list[object]:
    body = {"query": "q", "items": ITEMS, "event_id": event} | how
    answer = http.post(f"{url}/rank", json={name: value for name, value in body.items() if value is not None})
    answer.raise_for_status()
    return [item["id"] for item in answer.json()["items"]]


def feedback(http: httpx.Client, url: str, event: str, **how: object) -> dict[str, object]:
    answer: dict[str, object] = http.post(f"{url}/feedback", json=[{"event_id": event} | how]).json()[0]
    return answer


def samples(http: httpx.Client, url: str, query: str = "q") -> dict[object, tuple[float, float]]:
    """Samples and estimate of each item."""
    state = http.get(f"{url}/queries/{quote(query, safe='')}").json()
    return {item["id"]: (item["samples"], item["estimate"]) for item in state["items"]}


# -- randomness --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["s{}:1", "2026-11-16T10:30:{}:15", "u-{}-x", "order:{}"])
def test_the_look_of_an_event_id_does_not_choose_the_randomness(
    http: httpx.Client, ranker: Callable[..., str], form: str
) -> None:
    url = ranker(policy="CascadeTS")
    lists = {tuple(ranked(http, url, form.format(n))) for n in range(20)}
    assert len(lists) > 15
    drawn = [ranked(http, url, form.format(f"d{n}"), draw=1) for n in range(3)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert ranked(http, url, form.format("other"), draw=2) != drawn[0]
    for draw in (-1, 2**64, 1.5):
        problem(http.post(f"{url}/rank", json={"query": "q", "items": ITEMS, "draw": draw}), 422, "draw")


# -- ids that are numbers ----------------------------------------------------------------------------------------------


def test_a_number_is_the_id_of_an_item_whose_id_is_a_number(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url, users = ranker(), random.Random(1)
    for n in range(60):
        shown = ranked(http, url, f"e{n}", items=[1, 2, 3, 4, 5])
        liked = next((item for item in shown if users.random() < (0.9 if item == 3 else 0.02)), None)
        assert feedback(http, url, f"e{n}", clicks=[] if liked is None else [liked])["outcome"] == "counted"
    estimates = {item: estimate for item, (_, estimate) in samples(http, url).items()}
    assert estimates[3] > 0.6
    assert max(estimates[item] for item in (1, 2, 4, 5)) < 0.3


def test_positions_have_a_form_of_their_own(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker()
    shown = ranked(http, url, "e", items=[30, 20, 10])
    assert feedback(http, url, "e", clicks=[{"position": 2}])["outcome"] == "counted"
    assert samples(http, url)[shown[1]] == (1.0, 1.0)
    ranked(http, url, "f", items=[30, 20, 10])
    for clicks in ([2], [{"position": 4}], [{"id": 30, "position": 1}], [{}]):
        problem(http.post(f"{url}/feedback", json={"event_id": "f", "clicks": clicks}), 422, "clicks")
    texts = ranked(http, url, "g", query="texts")
    assert feedback(http, url, "g", clicks=[2])["outcome"] == "counted"  # no id is a number
    assert samples(http, url, "texts")[texts[1]] == (1.0, 1.0)
    mixed = ranked(http, url, "h", query="mixed", items=[1, "b", "c"])
    assert feedback(http, url, "h", clicks=[1])["outcome"] == "counted"
    assert samples(http, url, "mixed")[1] == (1.0, 1.0), mixed


# -- one event id, two requests ----------------------------------------------------------------------------------------


def test_an_event_id_is_for_one_request(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker()
    asked = {"query": "q", "items": ITEMS, "k": 2, "event_id": "e"}
    first = http.post(f"{url}/rank", json=asked).json()
    again = http.post(f"{url}/rank", json=asked | {"items": ITEMS[::-1]})
    assert again.json() == first
    for change in ({"items": [*ITEMS, "x"]}, {"items": ITEMS[:5]}, {"query": "p"}, {"k": 3}, {"excluded": ["a"]}):
        problem(http.post(f"{url}/rank", json=asked | change), 409, "was used for another query, other items or k")
        both = [asked | {"event_id": "both"}, asked | {"event_id": "both"} | change]
        problem(http.post(f"{url}/rank", json=both), 409, "both")


# -- several clicks ----------------------------------------------------------------------------------------------------


def test_clicks_that_are_not_used_are_reported(http: httpx.Client, ranker: Callable[..., str]) -> None:
    first, all_of_them = ranker(k=4), ranker(k=4, policy="DCMUCB")
    for url, said in ((first, "CascadeUCB1 learns from the first click only, at position 1"), (all_of_them, None)):
        ranked(http, url, "e")
        ranked(http, url, "f")
        assert feedback(http, url, "e", clicks=[1, 3]).get("warning") == said
        assert "warning" not in feedback(http, url, "f", clicks=[3])
    assert sum(n for n, _ in samples(http, first).values()) == 1 + 3
    assert sum(n for n, _ in samples(http, all_of_them).values()) == 3 + 3
    collecting = ranker(k=4, second_click="update")
    ranked(http, collecting, "e")
    assert "warning" not in feedback(http, collecting, "e", clicks=[3])
    assert "position 2" in str(feedback(http, collecting, "e", clicks=[2])["warning"])


# -- names of queries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query", ["a\nb", "\n", "a\n", "\nreset", "a\r\nb", "a/b", "/", "a//b", "a/reset", "..", "a\0b", "", "?#%"]
)
def test_any_query_can_be_read_reset_and_deleted(http: httpx.Client, ranker: Callable[..., str], query: str) -> None:
    url = ranker()
    name = quote(query, safe="").replace(".", "%2E")
    ranked(http, url, "e", query=query)
    feedback(http, url, "e", clicks=[1])
    assert http.get(f"{url}/queries/{name}").json()["query"] == query
    assert http.post(f"{url}/queries/{name}/reset").status_code == 204
    assert http.get(f"{url}/queries/{name}").json()["steps"] == 0
    assert http.delete(f"{url}/queries/{name}").status_code == 204
    problem(http.get(f"{url}/queries/{name}"), 404, "no such query")


def test_a_line_break_is_part_of_a_path(http: httpx.Client, ranker: Callable[..., str]) -> None:
    for path in ("/healthz%0A", "/v1/rankers%0A", f"{ranker()}%0A", "/v1/rankers/default/queries%0A"):
        problem(http.get(path), 404)
