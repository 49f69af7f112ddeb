"""A service that is starting: the caller's order, marked as such, until it can rank."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftrank.serve.access.keys import hashed, new_key
from driftrank.serve.app import build
from driftrank.serve.log.records import Final
from driftrank.serve.log.store.base import StoreError, StoreUnknown
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.problems import Refused
from driftrank.serve.requests import compiler
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import Feedback, RankerSettings, RankRequest
from tests.serve.harness import Harness
from tests.serve.running import OUTSIDE

SHOP = {"query": "q", "items": ["a", "b", "c", "d"], "excluded": ["b"], "pinned": {"d": 1}, "event_id": "e"}


def test_the_callers_order_until_it_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled, real = threading.Event(), compiler.warm_up

    def slow(*how: Any) -> int:
        assert compiled.wait(60)
        return real(*how)

    monkeypatch.setattr(compiler, "warm_up", slow)
    monkeypatch.setattr(compiler, "_SOON", 0.01)
    caplog.set_level("INFO", "driftrank")
    key = new_key()[0]
    shop = RankerSettings(policy="CascadeUCB1", k=2, keys=[hashed(key)])
    settings = ServerSettings(admin_key=hashed("admin"), rankers={"default": shop, "shop": shop})

    async def run() -> None:
        service = Service(SQLiteStore(tmp_path / "x.db"), settings)
        transport = httpx.ASGITransport(build(service))
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
            starting = asyncio.create_task(service.start())
            while "compiling CascadeUCB1: the first time" not in caplog.text:
                await asyncio.sleep(0.01)
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["detail"]) == (503, "compiling CascadeUCB1")
            answer = await client.post("/v1/rankers/shop/rank", json=SHOP)
            assert answer.json() == {
                "event_id": "", "policy": "baseline", "step": 0, "degraded": "starting",
                "items": [{"id": "d", "position": 1, "score": None, "why": "pinned"},
                          {"id": "a", "position": 2, "score": None, "why": "baseline"}],
            }  # fmt: skip
            assert (await client.post("/v1/rankers/shop/rank", json=[SHOP, SHOP])).json()[1]["degraded"] == "starting"
            strict = {"Prefer": "handling=strict"}
            assert (await client.post("/v1/rankers/shop/rank", json=SHOP, headers=strict)).status_code == 503
            assert (await client.post("/v1/rankers/shop/rank", json={**SHOP, "items": []})).status_code == 422
            assert (await client.post("/v1/rankers/shop/feedback", json={"event_id": "e"})).status_code == 503
            other = await client.post("/v1/rankers/other/rank", json=SHOP)
            assert other.status_code == 403
            assert service.metrics.count("lists_degraded", ("shop", "starting")) == 3

            compiled.set()
            await starting
            answer = await client.post("/v1/rankers/shop/rank", json=SHOP)
            assert "degraded" not in answer.json()
            assert answer.json()["event_id"] == "e"
            assert service.info("shop").lists == 1  # nothing of the others is left
            unseen = await client.post("/v1/rankers/shop/feedback", json={"event_id": "", "clicks": ["a"]})
            assert (unseen.status_code, unseen.json()["outcome"]) == (404, "orphan")
        await service.stop()

    asyncio.run(run())


def test_the_callers_order_when_the_store_fails(tmp_path: Path) -> None:
    class Full(SQLiteStore):
        full = False

        def append(self, entries: Any) -> Any:
            if self.full:
                raise StoreError("the disk is full")
            return super().append(entries)

    with Harness(tmp_path, store=Full) as harness:
        known = harness.rank("q", ["a", "b"], "known")
        Full.full = True
        requests = [RankRequest("q", ["a", "b", "c"], event_id="new")]
        (answer,) = harness.run(harness.service.rank("default", requests, lenient=True))
        assert ([item.id for item in answer.items], answer.degraded, answer.event_id) == (["a", "b", "c"], "store", "")
        with harness.refused(503, "the disk is full"):
            harness.run(harness.service.rank("default", requests))
        with harness.refused(503, "the disk is full"):
            harness.feedback("known", [1])
        again = RankRequest("q", ["a", "b"], event_id="known")  # needs no record
        assert harness.run(harness.service.rank("default", [again], lenient=True)) == [known]
        Full.full = False
        assert harness.info().lists == 1


def test_a_list_whose_commit_is_unknown_is_taken_back(tmp_path: Path) -> None:
    """It was committed, nobody saw it, and silence taught dislike of it."""

    class Cut(SQLiteStore):
        cut = False

        def append(self, entries: Any) -> Any:
            out = super().append(entries)
            if self.cut:
                raise StoreUnknown("the connection was lost")
            return out

    with Harness(tmp_path, store=Cut) as harness:
        maintenance = harness.service.maintenance
        Cut.cut = True
        requests = [RankRequest("q", ["a", "b"], event_id=f"e{n}") for n in range(3)]
        (answer,) = harness.run(harness.service.rank("default", requests[:1], lenient=True))
        assert (answer.degraded, answer.event_id) == ("store", "")
        with harness.refused(503, "the outcome is unknown"):
            harness.run(harness.service.rank("default", requests[1:2]))
        # nobody waited for the caller's order: the same request may have been answered elsewhere
        harness.run(harness.service.rank("default", requests[2:], lenient=True, has_gone=lambda: True))
        with harness.refused(503, "the outcome is unknown"):
            harness.run(harness.service.rank("default", [RankRequest("q", ["a", "b"])]))
        with pytest.raises(StoreUnknown):  # it is tried again
            harness.run(maintenance.take_back_undelivered(harness.clock.now))
        Cut.cut = False
        harness.run(maintenance.take_back_undelivered(harness.clock.now))
        harness.recover()
        assert harness.info().pending == 4
        for event_id in ("e1", "e2"):
            assert harness.outcome(event_id, [1]) == "counted", "the same request would have settled it"
        harness.advance(10_000)
        assert (harness.info().pending, harness.info().steps) == (0, 2)
        assert [r.how for _, r in harness.log() if isinstance(r, Final)] == ["feedback"] * 2 + ["withdrawn"] * 2
        assert harness.dump() == harness.dump_of_log()


def test_no_callers_order_from_a_service_that_stops(tmp_path: Path) -> None:
    async def run() -> None:
        service = Service(SQLiteStore(tmp_path / "x.db"), ServerSettings(rankers={"default": RankerSettings(k=1)}))
        service.settings = ServerSettings(rankers={"default": RankerSettings(policy="CascadeUCB1")})
        await service.start()
        await service.stop()
        with pytest.raises(Refused, match="starting or stopping"):
            await service.rank("default", [RankRequest("q", ["a"])], lenient=True)
        with pytest.raises(Refused, match="starting or stopping"):
            await service.feedback("default", [Feedback("e")])

    asyncio.run(run())


def test_settings_are_loaded_again_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with Harness(tmp_path) as service:
        service.put("first", policy="CascadeUCB1", k=3)
        service.rank("q", ["a", "b"], "e")
        service.feedback("e", [1])
        loaded = {
            "first": RankerSettings(policy="CascadeUCB1", k=2),
            "new": RankerSettings(policy="CascadeUCB1"),
            "default": RankerSettings(policy="CascadeTS"),
        }
        with pytest.raises(ValueError, match=r"ranker default: .* would discard what was learnt from 1 rankings"):
            service.run(service.service.configure(ServerSettings(rankers=loaded)))
        assert service.info("first").settings.k == 3
        assert "new" not in service.state.rankers


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_stop_does_not_wait_for_the_compiler(tmp_path: Path, command: str) -> None:
    options = ["--no-open"] if command == "demo" else ["--store", f"sqlite:///{tmp_path}/x.db"]
    script = f"""if True:
        import time
        from driftrank.cli import main
        from driftrank.serve.requests import compiler
        def compiling(*_):
            print("compiling", flush=True)
            time.sleep(120)
        compiler.warm_up = compiling
        main({[command, "--port", "0", *options]!r})
    """
    environ = OUTSIDE | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "compiling\n"
        process.terminate()
        assert process.wait(60) == 0
    assert list(tmp_path.glob("driftrank-demo-*")) == []


@pytest.mark.slow
def test_a_first_start_and_one_after_compile(tmp_path: Path) -> None:
    """With an empty cache of kernels: half a minute of 503 before; with ``driftrank compile`` nothing to wait for."""
    variables = {**OUTSIDE, "DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1", "NUMBA_CPU_NAME": "generic"}

    def first_start(cache: Path) -> tuple[set[str], list[Any], str]:
        """Details of /readyz and answers until it is ready, and the log."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "driftrank", "serve", "--port", str(port), "--store", f"sqlite:///{cache}.db"]
        environ = {**variables, "DRIFTRANK_CACHE_DIR": str(cache)}
        process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        details, answers = set(), []
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                while True:
                    try:
                        ready = client.get("/readyz")
                    except httpx.ConnectError:
                        time.sleep(0.05)
                        continue
                    answer = client.post("/v1/rankers/default/rank", json={"query": "q", "items": ["a", "b"]})
                    answers.append(answer.json())
                    if ready.status_code == 200:
                        break
                    details.add(ready.json()["detail"])
        finally:
            process.terminate()
            _, log = process.communicate(timeout=60)
        orders = [[item["id"] for item in answer["items"]] for answer in answers if "degraded" in answer]
        assert orders == [["a", "b"]] * len(orders)
        return details, answers, log

    details, answers, log = first_start(tmp_path / "empty")
    assert "compiling CascadeUCB1" in details
    assert "compiling CascadeUCB1: the first time" in log
    assert (answers[0].get("degraded"), answers[-1].get("degraded")) == ("starting", None)
    cache = tmp_path / "prepared"
    environ = {**variables, "DRIFTRANK_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-m", "driftrank", "compile"], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    specs = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    assert "CascadeUCB1" in specs
    left = [f", {n} left" if n else "" for n in range(len(specs) - 1, -1, -1)]
    assert done.stderr.splitlines() == [f"compiling {spec}{more}" for spec, more in zip(specs, left, strict=True)]
    kernels = sorted(file.name for file in cache.rglob("*") if file.is_file())
    assert kernels
    first_start(cache)
    assert sorted(file.name for file in cache.rglob("*") if file.is_file()) == kernels, "nothing was compiled"
