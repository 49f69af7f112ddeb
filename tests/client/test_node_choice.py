"""The node of a query, as the client chooses it."""

from __future__ import annotations

from collections import Counter

import pytest

from driftrank.client import nodes as module
from driftrank.client.nodes import Nodes
from driftrank.wire import route_of

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
