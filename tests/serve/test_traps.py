"""Traps that would corrupt or erase what was learnt, at a real server."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from driftrank.client import Client
from tests.serve.conftest import problem
from tests.serve.running import Running

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


# -- rankings that nobody was shown ------------------------------------------------------------------------------------


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within half a minute")


@contextmanager
def stopped(server: Running) -> Iterator[None]:
    """The process hangs, while its kernel accepts connections."""
    os.kill(server._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server._process.pid, signal.SIGCONT)


def test_fallbacks_teach_nothing(server: Running, http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker(wait=1.5)
    with Client(server.url, ranker=url.rpartition("/")[2], timeout=0.3, flush_seconds=0.1) as client:
        with stopped(server):
            for _ in range(5):
                assert client.rank("q", ITEMS, fallback=True).event_id == ""
                client._breaker.succeeded()  # as though they were the pages of five processes
            assert client.waiting == 5
        assert client.flush(30)
        assert client.outcomes == {"withdrawn": 5}
        eventually(lambda: http.get(url).json()["lists"] == 5)
        time.sleep(2)
        info = http.get(url).json()
        assert (info["steps"], info["pending"]) == (0, 0)
        client.rank("q", ITEMS)
        eventually(lambda: bool(http.get(url).json()["steps"] == 1))


def test_answers_that_could_not_be_delivered_teach_nothing(
    server: Running, http: httpx.Client, ranker: Callable[..., str]
) -> None:
    url = ranker(wait=4)  # whoever asks again must do so within half of it

    def request(event: str) -> bytes:
        body = json.dumps({"query": "q", "items": ITEMS, "event_id": event}).encode()
        head = ("Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}")
        return "\r\n".join((f"POST {url}/rank HTTP/1.1", *head, "", "")).encode() + body

    with stopped(server):
        for n in range(5):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(request(f"e{n}"))
    eventually(lambda: http.get(url).json()["lists"] == 5)
    again = ranked(http, url, "e4")  # a retry that is answered
    eventually(lambda: http.get(url).json()["pending"] == 0)
    assert http.get(url).json()["steps"] == 1
    assert feedback(http, url, "e0", clicks=[1])["outcome"] == "refused"
    assert sum(n for n, _ in samples(http, url).values()) == len(again)


def test_a_ranking_can_be_taken_back(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker(wait=1000)
    ranked(http, url, "e")
    for _ in range(2):
        answer = http.post(f"{url}/feedback", json={"event_id": "e", "shown": 0})
        assert (answer.status_code, answer.json()) == (200, {"event_id": "e", "outcome": "withdrawn"})
    assert http.post(f"{url}/feedback", json={"event_id": "e", "clicks": [1]}).status_code == 409
    ranked(http, url, "f")
    problem(http.post(f"{url}/feedback", json={"event_id": "f", "clicks": [1], "shown": 0}), 422, "only 0 items")
    assert feedback(http, url, "f", clicks=[1])["outcome"] == "counted"
    assert feedback(http, url, "f", shown=0)["outcome"] == "refused"
    early = http.post(f"{url}/feedback", json={"event_id": "early", "shown": 0})
    assert (early.status_code, early.json()["outcome"]) == (200, "withdrawn")
    assert len(ranked(http, url, "early")) == 3
    info = http.get(url).json()
    assert (info["lists"], info["steps"], info["pending"]) == (3, 1, 0)
    ranked(http, url, "deferred", defer=True)
    assert feedback(http, url, "deferred", shown=0)["outcome"] == "withdrawn"
    problem(http.post(f"{url}/events/deferred/activate"), 409, "was taken back")


# -- several clicks ----------------------------------------------------------------------------------------------------


def test_clicks_that_are_not_used_are_reported(http: httpx.Client, ranker: Callable[..., str]) -> None:
    first, all_of_them, default = ranker(k=4), ranker(k=4, policy="DCMUCB"), ranker(k=4, policy="PriorRegimeTS")
    said_of_first = "CascadeUCB1 learns from the first click only, at position 1"
    for url, said in ((first, said_of_first), (all_of_them, None), (default, None)):
        ranked(http, url, "e")
        ranked(http, url, "f")
        assert feedback(http, url, "e", clicks=[1, 3]).get("warning") == said
        assert "warning" not in feedback(http, url, "f", clicks=[3])
    assert sum(n for n, _ in samples(http, first).values()) == 1 + 3
    assert sum(n for n, _ in samples(http, all_of_them).values()) == 3 + 3
    assert sum(n for n, _ in samples(http, default).values()) > 5.9  # 4 with first clicks only; old ones fade
    collecting = ranker(k=4, second_click="update")
    ranked(http, collecting, "e")
    assert "warning" not in feedback(http, collecting, "e", clicks=[3])
    assert "position 2" in str(feedback(http, collecting, "e", clicks=[2])["warning"])


# -- settings and operations -------------------------------------------------------------------------------------------


def learn(http: httpx.Client, url: str, event: str = "learnt") -> dict[object, tuple[float, float]]:
    ranked(http, url, event)
    assert feedback(http, url, event, clicks=[2])["outcome"] == "counted"
    return samples(http, url)


def steps(http: httpx.Client, url: str) -> int:
    found: int = http.get(url).json()["steps"]
    return found


@pytest.mark.parametrize("policy", ["CascadeUCB1", "PriorRegimeTS", "CascadeRegimeTS"])
def test_k_alone_costs_nothing(http: httpx.Client, ranker: Callable[..., str], policy: str) -> None:
    url = ranker(policy=policy)
    before = learn(http, url)
    pending = ranked(http, url, "pending")
    for k in (2, 8, 1, 5):
        http.put(url, json={"policy": policy, "k": k}).raise_for_status()
        assert http.get(url).json()["settings"]["k"] == k
        assert steps(http, url) == 1
        assert samples(http, url) == before
        assert len(ranked(http, url, f"with {k}")) == k
    http.patch(url, json={"k": 2}).raise_for_status()
    assert feedback(http, url, "pending", clicks=[3])["outcome"] == "counted"  # it had three positions
    after = samples(http, url)
    assert after[pending[0]][0] > before.get(pending[0], (0, 0))[0]
    if policy == "CascadeUCB1":
        assert all(after[item][0] - before[item][0] == 1 for item in pending[:2])
        assert after[pending[2]] == before[pending[2]]


def test_put_replaces_and_patch_changes(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker(silence="drop", wait="1h")
    learn(http, url)
    changed = http.patch(url, json={"k": 5}).json()["settings"]
    assert (changed["k"], changed["silence"], changed["wait"], changed["policy"]) == (5, "drop", "1h", "CascadeUCB1")
    replaced = http.put(url, json={"policy": "CascadeUCB1", "wait": "2h"}).json()["settings"]
    assert (replaced["k"], replaced["silence"], replaced["wait"]) == (10, "no_click", "2h")
    assert steps(http, url) == 1
    done = len(http.get(f"{url}/operations").json())
    http.patch(url, json={"wait": "2h"}).raise_for_status()
    http.put(url, json={"policy": "CascadeUCB1", "wait": "2h"}).raise_for_status()
    assert len(http.get(f"{url}/operations").json()) == done, "nothing has changed"
    problem(http.patch(url, json={"nonsense": 1}), 422, "nonsense")
    problem(http.patch("/v1/rankers/nobody", json={"k": 1}), 404)


def test_learning_is_not_discarded_by_accident(http: httpx.Client, ranker: Callable[..., str]) -> None:
    url = ranker()
    for settings in ({"policy": "CascadeTS"}, {"policy": "CascadeUCB1", "k": 4}):
        http.put(url, json=settings).raise_for_status()  # nothing is learnt yet
    before = learn(http, url)
    problem(http.put(url, json={"holdout": 0.1}), 409, "policy='PriorRegimeTS' instead of 'CascadeUCB1'")
    problem(http.patch(url, json={"seed": 3}), 409, "seed=3 instead of 0 would discard what was learnt from 1 rankings")
    problem(http.patch(url, json={"k": 9, "policy": "CascadeTS"}), 409, "'CascadeTS' instead of 'CascadeUCB1' would")
    problem(http.patch(f"{url}?discard=yes", json={"seed": 3}), 422, "discard")
    assert samples(http, url) == before
    http.patch(f"{url}?discard=true", json={"seed": 3}).raise_for_status()
    assert steps(http, url) == 0
    by_position = ranker(policy="RankedEXP3")
    learn(http, by_position)
    problem(http.patch(by_position, json={"k": 4}), 409, "k=4 instead of 3")


def test_operations_are_logged_and_can_be_undone(
    server: Running, http: httpx.Client, ranker: Callable[..., str]
) -> None:
    url = ranker(policy="PriorRegimeTS")
    before = learn(http, url)
    model = http.get(url).json()["shared"]

    def last() -> dict[str, object]:
        found: dict[str, object] = http.get(f"{url}/operations").json()[0]
        return found

    def undo(*, whole: bool = True) -> None:
        number = last()["number"]
        http.post(f"{url}/operations/{number}/undo").raise_for_status()
        assert last()["undoes"] == number
        assert samples(http, url) == before
        if not whole:  # what a ranker has learnt from its queries is counted when it is learnt
            return
        info = http.get(url).json()
        assert (info["queries"], info["steps"], info["clicks"], info["shared"]) == (1, 1, 1, model)

    http.put(f"{url}?discard=true", json={"policy": "CascadeTS"}).raise_for_status()
    entry = last()
    assert (entry["kind"], entry["by"], entry["discarded"]) == ("changed", "no key", 1)
    assert (entry["before"]["policy"], entry["after"]["policy"]) == ("PriorRegimeTS", "CascadeTS")  # type: ignore[index]
    assert time.time() - 60 < datetime.fromisoformat(str(entry["time"])).timestamp() <= time.time() + 1
    learn(http, url, "since")
    undo()
    http.post(f"{url}/reset").raise_for_status()
    undo()
    http.delete(url).raise_for_status()
    undo()
    http.delete(f"{url}/queries/q").raise_for_status()
    undo(whole=False)
    http.post(f"{url}/queries/q/reset").raise_for_status()
    undo(whole=False)
    done = steps(http, url)
    http.patch(url, json={"k": 7}).raise_for_status()
    number = last()["number"]
    learn(http, url, "more")
    assert http.post(f"{url}/operations/{number}/undo").json()["settings"]["k"] == 3
    assert steps(http, url) == done + 1, "nothing was discarded, so nothing is to be restored"
    problem(http.post(f"{url}/operations/1/undo"), 404, "number=1")
    problem(http.post(f"{url}/operations/x/undo"), 422, "number='x'")
    created = http.get(f"{url}/operations").json()[-1]
    assert created["kind"] == "created"
    problem(http.post(f"{url}/operations/{created['number']}/undo"), 409, "delete it instead")
    name = url.rpartition("/")[2]
    eventually(lambda: f"ranker {name}: deleted by no key" in server.log and f"ranker {name}: set by" in server.log)


def test_a_start_does_not_discard_by_accident(tmp_path: Path) -> None:
    """A variable that was forgotten, or a changed file."""
    settings = tmp_path / "driftrank.toml"
    settings.write_text('[rankers.shop]\npolicy = "CascadeUCB1"\nk = 5\nseed = 1\n')
    with Running(tmp_path, "--config", str(settings), DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            learn(http, "/v1/rankers/shop")
        assert server.stop() == 0
        settings.write_text('[rankers.shop]\npolicy = "CascadeUCB1"\nseed = 1\n')  # k is 10 then
        server.restart()
        with httpx.Client(base_url=server.url, timeout=60) as http:
            assert steps(http, "/v1/rankers/shop") == 1
            assert len(samples(http, "/v1/rankers/shop")) == 8
            operation = http.get("/v1/rankers/shop/operations").json()[0]
            assert (operation["by"], operation["before"]["k"], operation["after"]["k"]) == ("settings", 5, 10)
        assert server.stop() == 0
        settings.write_text('[rankers.shop]\npolicy = "CascadeUCB1"\n')
        with pytest.raises(AssertionError, match="seed=0 instead of 1 would discard what was learnt from 1 rankings"):
            server.restart()
        assert "--discard shop" in server.log
        assert "Traceback" not in server.log
        server.restart("--config", str(settings), "--discard", "shop")
        with httpx.Client(base_url=server.url, timeout=60) as http:
            assert steps(http, "/v1/rankers/shop") == 0
            number = http.get("/v1/rankers/shop/operations").json()[0]["number"]
            http.post(f"/v1/rankers/shop/operations/{number}/undo").raise_for_status()
            assert steps(http, "/v1/rankers/shop") == 1


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
