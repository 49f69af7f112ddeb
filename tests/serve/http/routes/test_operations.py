from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from driftrank.serve.app import build
from driftrank.serve.log.store.base import StoreFull
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings


class _Narrow(SQLiteStore):
    """A store whose disk is full if ``full`` is set."""

    full = False

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        if self.full:
            raise StoreFull("no room is left on the disk")
        return super().append(entries)


async def call(app: ASGIApp, method: str, path: str, **how: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.request(method, path, **how)


def test_alive_from_the_start_and_ready_when_it_can_write(tmp_path: Path) -> None:
    async def run() -> None:
        store = _Narrow(str(tmp_path / "x.db"))
        service = Service(store, ServerSettings())
        app = build(service)
        assert (await call(app, "GET", "/healthz")).json() == {"status": "ok"}
        early = await call(app, "GET", "/readyz")
        assert early.status_code == 503
        assert early.headers["retry-after"] == "1"
        assert early.json()["title"] == "Not ready"

        await service.start()
        try:
            assert (await call(app, "GET", "/readyz")).json() == {"status": "ready"}

            store.full = True
            assert (await call(app, "PUT", "/v1/rankers/shop", json={"k": 3})).status_code == 503
            failing = await call(app, "GET", "/readyz")
            assert failing.status_code == 503
            assert "no room is left" in failing.json()["detail"]
            assert "driftrank_ready 0.0" in (await call(app, "GET", "/metrics")).text

            store.full = False
            assert (await call(app, "PUT", "/v1/rankers/shop", json={"k": 3})).status_code == 200
            assert (await call(app, "GET", "/readyz")).status_code == 200
        finally:
            await service.stop()

    asyncio.run(run())


def test_metrics_are_for_prometheus(tmp_path: Path) -> None:
    async def run() -> httpx.Response:
        service = Service(SQLiteStore(str(tmp_path / "x.db")), ServerSettings())
        await service.start()
        try:
            return await call(build(service), "GET", "/metrics")
        finally:
            await service.stop()

    answer = asyncio.run(run())
    assert answer.headers["content-type"].startswith("text/plain; version=")
    for name in (
        "ready 1.0",
        'lists_pending{ranker="default"} 0.0',
        "replay_seconds",
        "store_bytes",
        "state_bytes 0.0",
    ):
        assert f"driftrank_{name}" in answer.text
