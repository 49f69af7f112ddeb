"""Both clients, blocking and asyncio, against a server that fails on demand."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from driftrank.client import (
    AsyncClient,
    Client,
    InvalidRequest,
    NotFound,
    ServiceError,
    ServiceUnreachable,
    Unauthorized,
)
from driftrank.client.calls import Call
from driftrank.client.connection import request_of
from driftrank.wire import Clicked, Feedback, Item, RankerSettings, RankRequest, WarmRow
from tests.client.awaited import Awaited
from tests.client.flaky import Flaky, flaky

ROOT = Path(__file__).parents[2]
BUSY = (503, {})
ITEMS = ["a", "b", "c", "d"]


@pytest.fixture(params=[Client, Awaited], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def server() -> Iterator[Flaky]:
    with flaky() as running:
        yield running


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


# -- calls -------------------------------------------------------------------------------------------------------------


def test_rank_and_feedback(make: Any, server: Flaky) -> None:
    with make(server.url, key="secret", ranker="shop/é") as client:
        answer = client.rank("q", [*ITEMS, Item(7, [0.5])], k=2, excluded=["c"], pinned={"a": 1}, event_id="e:1")
        assert answer.event_id == "e:1"
        assert [item.id for item in answer.items] == ["b", "a"]
        result = client.feedback("e:1", clicks=["b", 1, Clicked(7)], shown=2, time=5.0, wait=True)
    assert (result.event_id, result.outcome) == ("e:1", "counted")
    (_, path, ranked), (_, _, reported) = server.requests
    assert path == "/v1/rankers/shop%2F%C3%A9/rank"
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert ranked == {
        "query": "q", "items": [*ITEMS, {"id": 7, "features": [0.5]}], "k": 2, "event_id": "e:1", "excluded": ["c"],
        "pinned": {"a": 1},
    }  # fmt: skip
    assert reported == [{"event_id": "e:1", "clicks": ["b", 1, {"id": 7}], "shown": 2, "time": 5.0}]


def test_a_ranker_whose_policy_is_being_compiled_is_waited_for(make: Any, server: Flaky) -> None:
    """It took four attempts, each of which compiled the policy again, and failed."""
    info = {"name": "x", "settings": {}, "queries": 0, "lists": 0, "steps": 0, "clicks": 0, "pending": 0}

    def slow(path: str, body: Any) -> tuple[int, Any]:
        time.sleep(1)
        return 200, info

    server.answer = slow  # type: ignore[method-assign]
    with make(server.url, timeout=0.3, deadline=0.5) as client:
        assert client.put_ranker("x", RankerSettings(policy="CascadeMUCB")).name == "x"
    assert len(server.requests) == 1
    assert server.headers[0]["Prefer"] == "handling=strict"


def test_names_of_dots_are_quoted(make: Any, server: Flaky) -> None:
    """A reset of the query ".." must not reset the ranker."""
    with make(server.url + "/behind/") as client:
        for name in (".", ".."):
            for call in (client.reset, client.delete_query, client.query, client.ranker, client.activate):
                with pytest.raises(NotFound):
                    call(name)
    own = "/behind/v1/rankers/default"
    assert [path for _, path, _ in server.requests] == [
        path
        for dots in ("%2E", "%2E%2E")
        for path in (f"{own}/queries/{dots}/reset", f"{own}/queries/{dots}", f"{own}/queries/{dots}",
                     f"/behind/v1/rankers/{dots}", f"{own}/events/{dots}/activate")
    ]  # fmt: skip


def test_several_rankings_in_one_call(make: Any, server: Flaky) -> None:
    with make(server.url) as client:
        answers = client.rank_many([RankRequest("q", ["a", "b"]), RankRequest("r", ["c"], event_id="mine")])
        results = client.feedback_many([Feedback(answers[0].event_id, ["a"]), Feedback(""), Feedback("mine")])
        assert client.feedback_many([]) == []
    assert answers[1].event_id == "mine"
    assert [r.outcome for r in results] == ["counted", "orphan", "counted"]
    assert len(server.requests) == 2


def test_warmstart_is_sent_in_batches(make: Any, server: Flaky) -> None:
    with make(server.url) as client, pytest.raises(NotFound, match="no /v1/rankers/default/warmstart"):
        client.warmstart((WarmRow("q", ["a"], [1]) for _ in range(5)), batch=2)
    assert [len(body) for _, _, body in server.requests] == [2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.rank("q", "abc"), "items='abc': must be a list"),
        (lambda c: c.rank("q", [1.5]), "RankRequest: .*"),
        (lambda c: c.rank("q", [object()]), "RankRequest: .*"),
        (lambda c: c.rank(7, ["a"]), "RankRequest: .*query"),
        (lambda c: c.rank("q", ["a"], k="3"), "RankRequest: .*k"),
        (lambda c: c.feedback("e", clicks="a"), "clicks='a': must be a list"),
        (lambda c: c.feedback("e", clicks=[None]), "Feedback: .*clicks"),
        (lambda c: c.feedback("e", shown=1.5), "Feedback: .*shown"),
        (lambda c: c.warmstart([WarmRow("q", ["a"])], batch=0), "batch=0: must be an integer of at least 1"),
    ],
)
def test_invalid_values_raise_before_sending(make: Any, server: Flaky, call: Any, message: str) -> None:
    with make(server.url) as client, pytest.raises(ValueError, match=message):
        call(client)
    assert not server.requests


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "127.0.0.1:8080"}, "url='127.0.0.1:8080': must be like http://"),
        ({"url": "ftp://host"}, "url='ftp://host': must be like"),
        ({"url": "http://[::1"}, "url="),
        ({"url": "http://127.0.0.1:99999"}, "the port must be from 0 to 65535"),
        ({"url": "http://127.0.0.1:8080?a=b"}, "must be like"),
        ({"url": "http://a..b"}, "url='http://a..b': .*label empty or too long"),
        ({"url": "http://xn--a"}, "url='http://xn--a': "),
        ({"key": ""}, "key: must be a key"),
        ({"key": "a\nb"}, "key: must be a key"),
        ({"key": "secret "}, "key: must be a key"),  # httpx would refuse it, and repeat it in the error
        ({"timeout": 0}, "timeout=0: must be a number"),
        ({"deadline": -1}, "deadline=-1"),
        ({"retries": -1}, "retries=-1"),
        ({"batch": 0}, "batch=0"),
        ({"batch": 10, "queue": 5}, "queue=5: must be an integer of at least 10"),
        ({"flush_seconds": -1}, "flush_seconds=-1"),
    ],
)
def test_bad_settings(make: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        make(**settings)


# -- trouble -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [BUSY, (502, {}), (504, {}), (429, {}), "cut", "close", "lost"], ids=str)
def test_tries_again(make: Any, server: Flaky, trouble: Any) -> None:
    server.troubles = [trouble, trouble]
    with make(server.url) as client:
        answer = client.rank("q", ITEMS)
    bodies = [body for _, _, body in server.requests]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]  # the same event id: the same list
    assert answer.event_id == bodies[0]["event_id"]
    waits = [b - a for a, b in zip(server.times, server.times[1:], strict=False)]
    assert waits[0] >= 0.02
    assert waits[1] >= 0.04


def test_feedback_is_counted_once_when_the_answer_is_lost(make: Any, server: Flaky) -> None:
    server.troubles = ["lost"]
    with make(server.url) as client:
        assert client.feedback("e", ["a"], wait=True).outcome == "duplicate"
    assert server.feedback == {"e": ["a"]}


def test_respects_retry_after(make: Any, server: Flaky) -> None:
    server.troubles = [(429, {"Retry-After": "1"})]
    with make(server.url) as client:
        client.rank("q", ITEMS)
    assert server.times[1] - server.times[0] >= 1.0


def test_does_not_wait_beyond_the_deadline(make: Any, server: Flaky) -> None:
    server.troubles = [(503, {"Retry-After": "60"})]
    begin = time.monotonic()
    with make(server.url) as client, pytest.raises(ServiceUnreachable, match="later: not now") as caught:
        client.rank("q", ITEMS)
    assert (caught.value.status, caught.value.retry_after) == (503, 60.0)
    assert time.monotonic() - begin < 30


def test_gives_up(make: Any, server: Flaky) -> None:
    server.troubles = [BUSY] * 3
    with make(server.url, retries=2) as client, pytest.raises(ServiceUnreachable):
        client.rank("q", ITEMS)
    assert len(server.requests) == 3


@pytest.mark.parametrize("trouble", ["hang", "drip"])
def test_the_deadline_is_kept(make: Any, server: Flaky, trouble: str) -> None:
    server.troubles = [trouble] * 9
    begin = time.monotonic()
    with make(server.url, timeout=0.2, deadline=0.5, retries=9) as client:
        with pytest.raises(ServiceUnreachable, match="no answer to POST /v1/rankers/default/rank") as caught:
            client.rank("q", ITEMS, event_id="e")
        assert 0.2 < time.monotonic() - begin < 5  # the server takes 10 or 20
    assert caught.value.status == 0
    assert 1 <= len(server.requests) <= 4


def test_one_timeout_for_all_phases_of_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("driftrank.client.connection.monotonic", lambda: now, raising=False)
    with httpx.Client(base_url="http://127.0.0.1:1") as http:
        seconds = request_of(http, Call("GET", "/v1/rankers", bytes), 2.0, "http://a", {}).extensions["timeout"]
    assert {part: seconds.get(part) for part in seconds} == dict.fromkeys(("connect", "read", "write", "pool"), 2.0)
    now = 101.5  # connected
    assert seconds.get("read") == 0.5
    now = 103.0
    assert seconds.get("read") == 0.001


def test_connection_refused(make: Any) -> None:
    with make(f"http://127.0.0.1:{free_port()}", retries=1) as client, pytest.raises(ServiceUnreachable):
        client.rankers()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidRequest), (401, Unauthorized), (403, Unauthorized), (404, NotFound), (409, InvalidRequest),
     (413, InvalidRequest), (422, ValueError), (500, ServiceError), (301, ServiceError)],
)  # fmt: skip
def test_errors_are_not_repeated(make: Any, server: Flaky, status: int, kind: type[Exception]) -> None:
    server.troubles = [(status, {})]
    with make(server.url) as client, pytest.raises(kind, match="later: not now") as caught:
        client.rank("q", ITEMS, event_id="e")
    assert isinstance(caught.value, ServiceError)
    assert (caught.value.status, caught.value.title, caught.value.detail) == (status, "later", "not now")
    assert len(server.requests) == 1


def test_errors_can_be_pickled(make: Any, server: Flaky) -> None:
    server.troubles = [(503, {"Retry-After": "60"})]
    with make(server.url, retries=0) as client, pytest.raises(ServiceUnreachable) as caught:
        client.rank("q", ITEMS)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ServiceUnreachable
    assert (str(again), again.status, again.retry_after) == (str(caught.value), 503, 60.0)


def test_an_answer_of_another_program(make: Any, server: Flaky) -> None:
    server.troubles = ["nonsense"]
    with make(server.url) as client, pytest.raises(ServiceError, match=r"the answer to POST .*/rank cannot be read"):
        client.rank("q", ITEMS)


@pytest.mark.parametrize("status", [200, 500, 502])
@pytest.mark.parametrize(
    "body", [b'{"title": "\xff", "event_id": "\xff"}', b'{"x": ' + b"[" * 100_000], ids=["text", "deep"]
)
def test_an_answer_that_cannot_be_decoded(make: Any, server: Flaky, status: int, body: bytes) -> None:
    server.troubles = [(status, body)] * 2
    with make(server.url, retries=0, flush_seconds=0) as client:
        with pytest.raises(ServiceError) as caught:
            client.rank("q", ITEMS, event_id="e")
        assert caught.value.status == status
        client.feedback("e")
        assert client.flush(30)
    assert list(server.feedback) == ["e"]


def test_a_redirect_to_an_impossible_host(make: Any, server: Flaky) -> None:
    server.troubles = [(307, {"Location": "http://xn--a/"})]
    with make(server.url, timeout=30) as client:
        assert client.rank("q", ITEMS).items


@pytest.mark.parametrize(
    ("when", "seconds"),
    [("9" * 400, 300.0), ("99999999999", 300.0), ("Fri, 31 Dec 9999 23:59:59 GMT", 300.0),
     ("Wed, 21 Oct 9999999999999999999 07:28:00 GMT", None)],
)  # fmt: skip
def test_an_endless_retry_after(
    make: Any, server: Flaky, when: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread can wait for so long, and the sender must survive it."""
    died: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    server.troubles = [(503, {"Retry-After": when})] * 2
    with make(server.url, retries=0, flush_seconds=0) as client:
        with pytest.raises(ServiceUnreachable) as caught:
            client.rank("q", ITEMS)
        assert caught.value.retry_after == seconds
        client.feedback("e")
        while server.troubles:
            time.sleep(0.01)
        assert client.flush(30)
    assert not died


# -- fallback ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [BUSY, (500, {}), "hang", "drip", "nonsense", "close"], ids=str)
def test_fallback(make: Any, server: Flaky, trouble: Any) -> None:
    server.troubles = [trouble] * 9
    begin = time.monotonic()
    with make(server.url, timeout=0.3) as client:
        answer = client.rank("q", ITEMS, k=2, fallback=True)
        assert time.monotonic() - begin < 5  # the server takes 10 or 20
        assert answer.event_id == ""
        assert [(item.id, item.position, item.why) for item in answer.items] == [
            ("a", 1, "baseline"),
            ("b", 2, "baseline"),
        ]
        requests = len(server.requests)
        assert client.feedback(answer.event_id, ["a"]) is None
        assert client.feedback(answer.event_id, ["a"], wait=True).outcome == "orphan"
        assert (client.fallbacks, len(server.requests)) == (1, requests)
        asked = {body["event_id"] for _, _, body in server.requests}
        server.troubles.clear()
        server.released.set()
        assert client.flush(30)
        if trouble != BUSY:  # otherwise it depends on the last attempt, which may not have been answered
            assert set(server.feedback) == asked
    # a slow machine may see the last attempt to rank only now
    later = [body for _, path, body in server.requests[requests:] if path.endswith("/feedback")]
    assert all(body == [{"event_id": body[0]["event_id"], "shown": 0}] for body in later)


def test_a_service_that_is_down_costs_one_page(make: Any, server: Flaky, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("driftrank.client.breaker.time", SimpleNamespace(monotonic=lambda: now))
    server.troubles = [BUSY] * 2

    def asked() -> int:
        client.rank("q", ITEMS, fallback=True)
        return len([path for _, path, _ in server.requests if path.endswith("/rank")])

    with make(server.url, timeout=5, retries=0) as client:
        assert [asked() for _ in range(4)] == [1, 1, 1, 1]
        assert client.fallbacks == 4
        now += 1.1
        assert [asked() for _ in range(3)] == [2, 2, 2], "one tries again, and fails"
        now += 1.1
        assert asked() == 2, "the pause doubles"
        now += 1.0
        assert [asked() for _ in range(3)] == [3, 4, 5], "it is back"
        assert client.fallbacks == 8
        server.troubles = [BUSY] * 2
        for _ in range(2):  # without a fallback there is nothing else to do
            with pytest.raises(ServiceUnreachable):
                client.rank("q", ITEMS)


def test_a_fallback_is_as_long_as_the_lists_of_the_ranker(make: Any, server: Flaky) -> None:
    with make(server.url, timeout=30, retries=0) as client:
        server.shown = 2
        assert len(client.rank("q", ITEMS).items) == 2
        server.troubles = [BUSY]
        assert [item.id for item in client.rank("q", ITEMS, fallback=True).items] == ITEMS[:2]
        assert len(client.rank("q", ITEMS, k=3, fallback=True).items) == 3


def test_a_fallback_of_a_new_process_is_as_long_as_its_client_says(make: Any) -> None:
    many = [f"item {n}" for n in range(200)]
    with make(f"http://127.0.0.1:{free_port()}", k=10) as client:
        assert [item.id for item in client.rank("q", many, fallback=True).items] == many[:10]
        assert len(client.rank("q", many, k=3, fallback=True).items) == 3
        (one,) = client.rank_many([RankRequest("q", many)], fallback=True)
        assert len(one.items) == 10
    with pytest.raises(ValueError, match="k=0: must be"):
        Client(k=0)


def test_the_k_of_a_ranker_is_noted_from_its_settings(make: Any, server: Flaky) -> None:
    def info(path: str, body: Any) -> tuple[int, Any]:
        settings = body if "/x" in path else {"k": 7}
        counts = dict.fromkeys(("queries", "lists", "steps", "clicks", "pending"), 0)
        return 200, {"name": path.rpartition("/")[2], "settings": settings, **counts}

    server.answer = info  # type: ignore[method-assign]
    with make(server.url, ranker="x", k=4, retries=0) as client:
        client.put_ranker("x", RankerSettings(k=2))
        client.ranker("other")
        server.troubles = [BUSY]
        assert [item.id for item in client.rank("q", ITEMS, fallback=True).items] == ITEMS[:2]


def test_showing_a_ranking(make: Any, server: Flaky) -> None:
    with make(server.url) as client:
        if isinstance(client, Client):
            with client.showing("q", ITEMS, event_id="e") as page:
                page.click(page.items[0].id)
            with pytest.raises(RuntimeError), client.showing("q", ITEMS, event_id="f"):
                raise RuntimeError("the page failed")
            assert client.flush(30)
            sent = [body for _, path, bodies in server.requests if path.endswith("/feedback") for body in bodies]
            assert sent == [{"event_id": "e", "clicks": [{"id": "d"}]}, {"event_id": "f", "shown": 0}]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # by sockets of the loop that ended, which are closed then
def test_an_async_client_in_a_second_event_loop(server: Flaky) -> None:
    _use_in_two_event_loops(server.url)
    assert set(server.feedback) == {"e", "f"}
    gc.collect()  # here, so that no later test gets the warnings


def _use_in_two_event_loops(url: str) -> None:
    client = AsyncClient(url, flush_seconds=0.01)

    async def use(event: str) -> None:
        async with client.showing("q", ITEMS, event_id=event) as page:
            page.click(page.items[0].id)
        assert await client.flush(30)

    for event in ("e", "f"):
        asyncio.run(use(event))
    asyncio.run(client.close())


def test_without_a_fallback_the_ids_of_the_client_are_taken_back(make: Any, server: Flaky) -> None:
    server.troubles = ["close"] * 100
    with make(server.url, timeout=5, retries=1, flush_seconds=60) as client:
        for event_id in (None, "mine"):
            with pytest.raises(ServiceUnreachable):
                client.rank("q", ITEMS, event_id=event_id)
        with pytest.raises(ServiceUnreachable):
            client.rank_many([RankRequest("q", ITEMS), RankRequest("q", ITEMS, event_id="mine too")])
        server.troubles.clear()
        assert client.flush(30)
    assert len(server.feedback) == 2, "the caller may ask again for those it has named"
    assert not {"mine", "mine too"} & set(server.feedback)


def test_nothing_is_taken_back_if_nothing_was_sent(make: Any) -> None:
    with make(f"http://127.0.0.1:{free_port()}", timeout=2.0) as client:  # refused, not out of time
        client.rank("q", ITEMS, fallback=True)
        assert client.waiting == 0


def test_a_cancelled_call_is_taken_back(server: Flaky) -> None:
    server.troubles = ["hang"]

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.rank("q", ITEMS)
            assert await client.flush(30)

    asyncio.run(main())
    assert len(server.feedback) == 1


def test_fallback_respects_the_request(make: Any) -> None:
    with make(f"http://127.0.0.1:{free_port()}") as client:
        answer = client.rank(
            "q", [Item("a"), "b", "c", "d", "e"], baseline=["e", "d", "c", "b", "a"], excluded=["d"], pinned={"a": 2},
            fallback=True,
        )  # fmt: skip
        both = client.rank_many([RankRequest("q", ["x"]), RankRequest("r", ["y", "z"], k=1)], fallback=True)
        by_score = client.rank("q", [Item("a", score=1), "b", Item("c", score=2)], fallback=True)
    assert [item.id for item in by_score.items] == ["c", "a", "b"]
    assert [item.id for item in answer.items] == ["e", "a", "c", "b"]
    assert [[item.id for item in one.items] for one in both] == [["x"], ["y"]]


def test_no_fallback_for_an_error_of_the_caller(make: Any, server: Flaky) -> None:
    server.troubles = [(404, {})]
    with make(server.url) as client, pytest.raises(NotFound):
        client.rank("q", ITEMS, fallback=True)


# -- feedback in the background ----------------------------------------------------------------------------------------


def test_feedback_is_sent_in_batches(make: Any, server: Flaky) -> None:
    with make(server.url, batch=10, flush_seconds=60) as client:
        for n in range(25):
            client.feedback(f"e{n}", ["a"])
        assert client.flush(30)
        assert client.outcomes == {"counted": 25}
    assert list(server.feedback) == [f"e{n}" for n in range(25)]
    assert [len(body) for _, _, body in server.requests] == [10, 10, 5]


def test_feedback_that_is_not_counted_is_logged(make: Any, server: Flaky, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(path: str, body: Any) -> tuple[int, Any]:
        return 200, [{"event_id": f["event_id"], "outcome": "refused", "detail": "the reason"} for f in body]

    server.answer = refuse  # type: ignore[method-assign]
    with caplog.at_level("WARNING", "driftrank.client"), make(server.url) as client:
        client.feedback("e", ["a"])
        client.feedback("f", ["a"])
        client.feedback("g", ["a"])
        assert client.flush(30)
        assert (client.outcomes, client.dropped) == ({"refused": 3}, 0)
    assert caplog.messages == [
        f"feedback was sent, but not counted, {n} so far: event_id={event!r}: the reason"
        for n, event in ((1, "e"), (2, "f"))
    ]


def test_feedback_is_sent_after_flush_seconds(make: Any, server: Flaky) -> None:
    with make(server.url, flush_seconds=0.05) as client:
        client.feedback("e", ["a"])
        end = time.monotonic() + 30
        while client.waiting and time.monotonic() < end:
            time.sleep(0.01)
        assert server.feedback == {"e": ["a"]}


def test_closing_sends_the_rest(make: Any, server: Flaky) -> None:
    with make(server.url, flush_seconds=60) as client:
        client.feedback("e", ["a"])
    assert server.feedback == {"e": ["a"]}


def test_a_closed_client_refuses_feedback(server: Flaky) -> None:
    client = Client(server.url)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.feedback("e")


@pytest.mark.parametrize("trouble", [BUSY, (500, {}), (401, {}), (404, {}), "cut", "close", "nonsense"], ids=str)
def test_feedback_waits_until_the_service_is_back(make: Any, server: Flaky, trouble: Any) -> None:
    server.troubles = [trouble] * 3
    with make(server.url, flush_seconds=0) as client:
        for n in range(5):
            client.feedback(f"e{n}")
        assert client.flush(30)
        assert client.dropped == 0
    assert list(server.feedback) == [f"e{n}" for n in range(5)]


def test_feedback_survives_a_restart(make: Any) -> None:
    with flaky() as server:
        port = server.server_address[1]
        client = make(server.url, flush_seconds=0, batch=10)
        client.feedback("before")
        assert client.flush(30)
    with client:
        for n in range(30):
            client.feedback(f"e{n}")
        assert not client.flush(0.3)
        assert client.waiting == 30
        with flaky(port) as again:
            assert client.flush(30)
            assert list(again.feedback) == [f"e{n}" for n in range(30)]
    assert client.dropped == 0


def test_the_oldest_is_dropped_when_the_queue_is_full(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with make(f"http://127.0.0.1:{port}", batch=5, queue=20, flush_seconds=0) as client:
        for n in range(50):
            client.feedback(f"e{n}")
        assert not client.flush(0.2)
        assert (client.waiting, client.dropped) == (20, 30)
        with flaky(port) as server:
            assert client.flush(30)
        assert len(server.feedback) == 20
        assert "e49" in server.feedback
        assert client.outcomes == {"counted": 20}
    logged = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any(text.startswith("feedback waits until the service is back: no answer to POST") for text in logged)
    assert [t.split(",")[1].split()[0] for t in logged if t.startswith("feedback was dropped")] == [
        "1",
        "2",
        "4",
        "8",
        "16",
    ]


def test_feedback_unsent_at_close_is_counted(make: Any) -> None:
    client = make(f"http://127.0.0.1:{free_port()}", flush_seconds=60)
    client.feedback("e")
    begin = time.monotonic()
    client.close(0.2)
    if isinstance(client, Awaited):
        client.end()
    assert time.monotonic() - begin < 30  # not the 60 seconds
    assert client.dropped == 1


def test_flush_ends_when_the_client_is_closed(make: Any) -> None:
    client = make(f"http://127.0.0.1:{free_port()}", flush_seconds=60)
    client.feedback("e")
    sent: list[bool] = []
    waits = threading.Thread(target=lambda: sent.append(client.flush()), daemon=True)
    waits.start()
    while not client._flushing:
        time.sleep(0.01)
    client.close(0.1)
    waits.join(30)
    if isinstance(client, Awaited):
        client.end()
    assert sent == [False]


@pytest.mark.parametrize("header", ["9" * 400, "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_retry_after_is_bounded(make: Any, server: Flaky, monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    monkeypatch.setattr("driftrank.client.retrying.LONGEST_WAIT", 0.2)
    server.troubles = [(503, {"Retry-After": header})]
    with make(server.url, flush_seconds=0) as client:
        client.feedback("e")
        end = time.monotonic() + 30
        while client.waiting and time.monotonic() < end:  # without a flush
            time.sleep(0.01)
        assert client.outcomes == {"counted": 1}


def test_flush_does_not_wait_for_the_next_attempt(make: Any, server: Flaky, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftrank.client.outbox.backoff", lambda *_: 60.0)
    server.troubles = ["hang", BUSY]
    with make(server.url, timeout=0.4, flush_seconds=0) as client:
        client.feedback("e")
        while not server.requests:
            time.sleep(0.01)
        assert not client.flush(3)  # began during the first attempt; the second failed too
        assert len(server.requests) == 2
        assert client.flush(30)
    assert list(server.feedback) == ["e"]


def test_one_bad_feedback_does_not_spoil_the_others(make: Any, server: Flaky) -> None:
    server.refused = {"e3", "e7"}
    with make(server.url, batch=10, flush_seconds=60) as client:
        for n in range(25):
            client.feedback(f"e{n}")
        assert client.flush(30)
        assert client.dropped == 2
        assert client.outcomes == {"counted": 23}
    assert set(server.feedback) == {f"e{n}" for n in range(25)} - server.refused
    assert [len(body) for _, _, body in server.requests if isinstance(body, list)] == [10, *[1] * 10, 10, 5]


def test_tasks_share_a_client(server: Flaky) -> None:
    async def main() -> list[str]:
        async with AsyncClient(server.url, timeout=30) as client:
            lists = await asyncio.gather(*(client.rank("q", ITEMS, event_id=f"e{n}") for n in range(250)))
            return [one.event_id for one in lists]

    assert asyncio.run(main()) == [f"e{n}" for n in range(250)]
    assert len(server.sockets) <= 100


def test_cancelled_requests_do_not_block_others(server: Flaky) -> None:
    """At any point: a connection whose request was cancelled at its start was unusable from then on."""

    async def main() -> None:
        for turns in range(40):
            async with AsyncClient(server.url, timeout=10, retries=0) as client:
                asking = asyncio.create_task(client.rank("q", ITEMS))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
                await client.rank("q", ITEMS)

    asyncio.run(main())


def test_closing_leaves_no_connection_open(server: Flaky) -> None:
    async def main() -> None:
        client = AsyncClient(server.url, timeout=30, retries=0)
        server.troubles = ["hang"]
        asking = asyncio.create_task(client.rank("q", ITEMS, fallback=True))
        while not server.requests:
            await asyncio.sleep(0.01)
        await client.close()
        server.released.set()
        assert (await asking).event_id == ""
        assert not any(client._runtime._idle.values())
        with pytest.raises(RuntimeError, match="closed"):
            await client.rank("q", ITEMS)

    asyncio.run(main())


def test_a_repeated_delete_succeeds(make: Any, server: Flaky) -> None:
    server.troubles = ["close", (404, {})]
    with make(server.url) as client:
        assert client.delete_ranker("r") is None
        with pytest.raises(NotFound):
            client.delete_ranker("r")


def test_threads_share_a_client(server: Flaky) -> None:
    with Client(server.url, batch=50, flush_seconds=0.01) as client:

        def work(name: int) -> None:
            for n in range(50):
                client.feedback(client.rank("q", ITEMS, event_id=f"{name}/{n}").event_id)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.flush(30)
        assert client.outcomes == {"counted": 400}
    assert len(server.feedback) == 400


# -- the end of a program ----------------------------------------------------------------------------------------------

SYNC = """
import sys
from driftrank.client import Client
client = Client(sys.argv[1], flush_seconds=60)
for n in range(5):
    client.feedback(f"e{n}")
"""

ASYNC = """
import asyncio, sys
from driftrank.client import AsyncClient
async def main():
    client = AsyncClient(sys.argv[1], flush_seconds=60, key="k")
    for n in range(5):
        await client.feedback(f"e{n}")
    await asyncio.sleep(0)
asyncio.run(main())
"""

FORKED = """
import os, sys
from driftrank.client import Client
client = Client(sys.argv[1], flush_seconds=60)
client.rank("q", ["a"])
client.feedback("e0")
client.feedback("e1")
child = os.fork()
if not child:
    client.rank("q", ["a"])
    for n in range(2, 5):
        client.feedback(f"e{n}")
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
client.rank("q", ["a"])
"""

FORKED_ASYNC = (
    ASYNC
    + """
import os
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
)


@pytest.mark.parametrize(
    "program",
    [SYNC, SYNC + "raise KeyError('a bug')", ASYNC,
     *(pytest.param(program, marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"))
       for program in (FORKED, FORKED_ASYNC))],
    ids=["sync", "failing", "async", "forked", "forked async"],
)  # fmt: skip
def test_flush_at_exit(server: Flaky, program: str) -> None:
    command = [sys.executable, "-c", program, server.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == (1 if "KeyError" in program else 0), done.stderr
    assert set(server.feedback) == {f"e{n}" for n in range(5)}
    assert sum(len(body) for _, path, body in server.requests if path.endswith("/feedback")) == 5
    if program is FORKED:
        assert len(server.sockets) >= 2  # each process has its own connections


def test_missing_extra() -> None:
    code = "import sys; sys.modules['httpx'] = None; import driftrank.client"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "driftrank.extras.MissingExtra: needs httpx: pip install 'driftrank[client]'"


def test_the_client_is_light() -> None:
    """A web application that calls the service does not load NumPy."""
    code = "import sys, driftrank.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not {"numba", "numpy", "starlette", "uvicorn", "matplotlib"} & set(done.stdout.split())


def test_cancelled_close_counts_unsent_feedback(server: Flaky) -> None:
    async def main() -> None:
        client = AsyncClient(server.url, timeout=60, flush_seconds=0)
        await client.feedback("e")
        while not server.requests:
            await asyncio.sleep(0.01)
        closing = asyncio.create_task(client.close(0.01))
        while not client._closed:
            await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (client.waiting, client.dropped) == (0, 1)

    server.troubles = ["hang"]
    asyncio.run(main())
