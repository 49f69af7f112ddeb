"""A real service, and rankers on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from driftrank.client import Client
from driftrank.wire import RankerSettings
from tests.serve.running import Running


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("service"), "--durability", "relaxed") as running:
        yield running


@pytest.fixture
def ranker(service: Running, request: pytest.FixtureRequest) -> Any:
    """Makes rankers of this test's own."""

    def make(name: str = "r", **settings: Any) -> str:
        own = f"{name}-{abs(hash(request.node.nodeid)) % 10**9}"
        with Client(service.url, timeout=30, deadline=60) as client:
            client.put_ranker(own, RankerSettings(**{"policy": "CascadeUCB1", "k": 3} | settings))
        return own

    return make
