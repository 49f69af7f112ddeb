"""The node of a query, as the client chooses it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from driftrank.client import Client
from driftrank.client import nodes as module
from driftrank.client.nodes import Nodes
from driftrank.client.outbox import Outbox
from driftrank.wire import ROUTE_HEADER, route_in, route_of

URLS = [f"http://n{n}:8080" for n in range(5)]
ROUTES = [route_of("shop", f"query {n}") for n in range(2000)]


def test_queries_are_spread_over_all_nodes() -> None:
    nodes = Nodes(URLS)
    shares = Counter(nodes.choose(route, set()) for route in ROUTES)
    assert set(shares) == set(URLS)
    assert all(300 < n < 500 for n in shares.values())


def test_a_node_that_is_gone_moves_its_own_queries_only() -> None:
    before, after = Nodes(URLS), Nodes(URLS[::-1][1:])
    moved = Counter()
    for route in ROUTES:
        first, now = before.choose(route, set()), after.choose(route, set())
        if first == URLS[-1]:
            moved[now] += 1
        else:
            assert now == first
    assert set(moved) == set(URLS[:-1])


def test_a_node_that_did_not_answer_is_the_last_choice_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    nodes = Nodes(URLS)
    first = nodes.choose("4f2a", set())
    second = nodes.choose("4f2a", {first})
    assert first != second
    nodes.failed(first)
    assert nodes.choose("4f2a", set()) == second
    assert nodes.choose("4f2a", set(URLS) - {first}) == first, "those tried already come after it"
    now += 1.1
    assert nodes.choose("4f2a", set()) == first


@contextmanager
def _node(seen: list[tuple[str, list[str]]]) -> Iterator[str]:
    """A service that counts every feedback, and notes the route and the events of each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.headers.get(ROUTE_HEADER, ""), [one["event_id"] for one in sent]))
            body = json.dumps([{"event_id": one["event_id"], "outcome": "counted"} for one in sent]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_feedback_in_the_background_goes_to_the_node_of_its_query() -> None:
    seen: list[list[tuple[str, list[str]]]] = [[], []]
    events = [f"{n}@{route}" for n, route in enumerate(ROUTES[:60])] + ["mine"]
    with _node(seen[0]) as one, _node(seen[1]) as two:
        with Client([one, two], flush_seconds=0.05, batch=50) as client:
            for event in events:
                client.feedback(event, [1])
            assert client.flush(10)
        nodes = Nodes([one, two])
        for url, requests in zip((one, two), seen, strict=True):
            assert 1 <= len(requests) <= 6, "in batches"
            for route, its in requests:
                assert its == ["mine"] or {nodes.choose(route_in(event), set()) for event in [*its, f"@{route}"]} == {
                    url
                }
    sent = [event for requests in seen for _, its in requests for event in its]
    assert sorted(sent) == sorted(events)


def test_a_batch_is_taken_by_node_and_what_failed_comes_first() -> None:
    box = Outbox(batch=4, flush_seconds=1.0, queue=6)
    for route in "abab":
        box.put(route.encode(), route)
    assert [one.route for one in box.take()] == ["a", "a"]
    assert box.full, "the rest of a batch does not wait for more"
    assert [one.route for one in box.take()] == ["a", "a"], "it had no outcome"
    box.sent([])
    assert [one.route for one in box.take()] == ["b", "b"]
    box.put(b"c", "c")
    box.sent([])
    assert not box.full
    assert [one.route for one in box.take()] == ["c"]
    for _ in range(6):
        box.put(b"d", "d")
    assert len(box) == 6, "the oldest is dropped"
    box.sent([])
    assert [one.route for one in box.take()] == ["d"] * 4
