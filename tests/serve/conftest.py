"""A server in a process of its own, for all tests that only talk to one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from driftrank.serve.problems import TITLES, TYPE
from tests.serve.running import Running

#: the header of a body that is given as bytes
JSON = {"Content-Type": "application/json"}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("server"), "--durability", "relaxed") as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture(scope="session")
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:  # the first list of a policy waits for the compiler
        yield client


@pytest.fixture
def ranker(http: httpx.Client) -> Callable[..., str]:
    """Makes a ranker that no other test has, and says where it is."""

    def make(**settings: Any) -> str:
        url = f"/v1/rankers/r{next(_numbers)}"
        http.put(url, json={"policy": "CascadeUCB1", "k": 3} | settings).raise_for_status()
        return url

    return make


def problem(answer: httpx.Response, status: int, says: str = "") -> None:
    """The answer is a problem document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert set(body) == {"type", "title", "status", "detail"}
    assert TITLES[body["title"]] == status
    assert body["type"] == TYPE + body["title"].lower().replace(" ", "-")
    assert says in body["detail"], body
