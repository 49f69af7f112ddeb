"""Long requests: everybody else is answered meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftrank.serve.answers.feeds import operations_on
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.operations.undo import undo
from driftrank.serve.slices import Slices
from driftrank.wire import Feedback, RankRequest
from tests.serve.harness import Harness
from tests.serve.running import Running

BATCH = [RankRequest(f"q{n}", [f"{m}" for m in range(100)], event_id=f"e{n}") for n in range(600)]


async def longest_wait(work: Any) -> tuple[float, float]:
    """Run the work; the longest time that another task had to wait, and the time of all, in seconds of this thread:
    others may use the machine as well.
    """
    gc.disable()  # with all that other tests have left, it takes as long as many slices
    began = last = time.thread_time()
    longest, task = 0.0, asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
        await task
    finally:
        gc.enable()
    return longest, last - began


def test_batches_let_others_run(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        service = harness.service
        harness.run(service.rank("default", [RankRequest("first", BATCH[0].items, event_id="first")]))
        harness.feedback("first", [1])  # kernels are loaded now
        longest, took = harness.run(longest_wait(service.rank("default", BATCH)))
        assert longest < took / 4
        feedbacks = [Feedback(request.event_id or "", [1]) for request in BATCH]
        longest, took = harness.run(longest_wait(service.feedback("default", feedbacks)))
        assert longest < took / 2
        assert harness.info().steps == 1 + len(BATCH)


def test_what_happens_during_a_batch_keeps_its_place_in_the_log(tmp_path: Path) -> None:
    """The batch has the time at which it is appended, after others that came while it was computed."""
    with Harness(tmp_path) as harness:

        async def both() -> list[Any]:
            batch = asyncio.ensure_future(harness.service.rank("default", BATCH))
            while not batch.done():
                harness.clock.now += 1
                await harness.service.rank("default", [RankRequest("other", ["a", "b"])])
            return await batch

        answers = harness.run(both())
        assert [answer.event_id for answer in answers] == [request.event_id for request in BATCH]
        ranked = [record for _, record in harness.log() if isinstance(record, Ranked)]
        times = [record.time for record in ranked]
        assert len(set(times)) > 2, "others were ranked meanwhile"
        assert times == sorted(times)
        assert harness.dump() == harness.dump_of_log()


def test_calls_of_one_request_are_recorded_in_the_order_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if some take longer than a slice, and others do not."""
    over = iter([True, False] * 100)
    monkeypatch.setattr(Slices, "over", property(lambda _: next(over)))
    with Harness(tmp_path) as harness:

        async def at_once() -> None:
            await asyncio.gather(*[harness.service.rank("default", [request]) for request in BATCH[:6]])
            feedbacks = [Feedback(request.event_id or "", [1]) for request in BATCH[:6]]
            await asyncio.gather(*[harness.service.feedback("default", [feedback]) for feedback in feedbacks])

        harness.run(at_once())
        for kind in (Ranked, Final):
            events = [record.event_id for _, record in harness.log() if isinstance(record, kind)]
            assert events == [f"e{n}" for n in range(6)]


def test_a_bad_request_at_the_end_of_a_batch_leaves_nothing(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness, harness.refused(422, "request 601 of 601"):
        harness.run(harness.service.rank("default", [*BATCH, RankRequest("q", [])]))
    with Harness.at(tmp_path) as harness:
        assert harness.info().lists == 0


def test_a_query_cannot_have_any_number_of_items(tmp_path: Path) -> None:
    with Harness(tmp_path, max_query_items=50) as harness:
        harness.rank("q", [f"a{n}" for n in range(40)])
        harness.rank("q", [f"a{n}" for n in range(30)] + [f"b{n}" for n in range(10)])
        with harness.refused(422, "the query would have 51, at most 50 are allowed"):
            harness.rank("q", ["c"])
        assert len(harness.shown("q", ["a1", "b1"])) == 2


def test_items_come_in_pages(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        for n in range(3):
            harness.rank("q", [f"{m}" for m in range(n * 500, n * 500 + 500)], f"e{n}")
            harness.feedback(f"e{n}", [1])
        first = harness.query("q")
        assert (len(first.items), first.items_total) == (1000, 1500)
        pages = [
            harness.run(harness.introspection.state("default", "q", offset, 400)).items
            for offset in range(0, 1600, 400)
        ]
        assert [len(page) for page in pages] == [400, 400, 400, 300]
        assert len({item.id for page in pages for item in page}) == 1500
        assert [item.id for item in pages[0] + pages[1]] == [item.id for item in first.items[:800]]


async def exported(harness: Harness) -> dict[str, bytes]:
    return {query: state async for query, state in harness.transfer.export("default")}


def test_long_answers_are_made_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every slice was over at once: how often others may run does not depend on the machine then."""
    paused = 0

    async def pause(_: Slices) -> None:
        nonlocal paused
        paused += 1

    monkeypatch.setattr(Slices, "over", True)
    monkeypatch.setattr(Slices, "pause", pause)
    with Harness(tmp_path) as harness:
        for n in range(5):
            harness.rank("q", [f"{m}" for m in range(n * 500, n * 500 + 500)])
        paused = 0
        assert harness.query("q").items_total == 2500
        assert paused >= 3, "some hundred items at a time"
        harness.run(harness.service.rank("default", [RankRequest(f"r{n:04}", ["a"]) for n in range(1000)]))
        harness.checkpoint()
        paused = 0
        assert len(harness.names()) == 1000
        assert paused >= 10, "some names of the store at a time"
        paused = 0
        assert len(harness.run(exported(harness))) == 1001
        assert paused >= 1000, "some states at a time"


def test_a_reset_and_its_undo_work_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above. A reset of 10,000 queries freed them at once, and its undo packed all of them at once."""
    paused = 0

    async def pause(_: Slices) -> None:
        nonlocal paused
        paused += 1

    monkeypatch.setattr(Slices, "over", True)
    monkeypatch.setattr(Slices, "pause", pause)
    with Harness(tmp_path) as harness:
        harness.run(harness.service.rank("default", [RankRequest(f"r{n}", ["a", "b"]) for n in range(320)]))
        states, queries = harness.export(), harness.state.queries
        freed, free = [], queries.free
        monkeypatch.setattr(queries, "free", lambda most: freed.append(most) or free(most))
        harness.reset()
        assert (len(queries), queries.nbytes, harness.names()) == (0, 0, [])
        harness.run(harness.service.maintenance.free_dropped())
        assert max(freed) <= 320 / 20
        assert sum(freed) >= 320
        assert not queries._dropped
        (operation, *_) = operations_on(harness.service, "default")
        paused = 0
        harness.run(undo(harness.service, "default", operation.number, "me"))
        assert paused >= 320 + 320, "records to be folded, and states to be packed"
        assert harness.export().keys() == states.keys()
        assert harness.dump() == harness.dump_of_log()


def test_a_batch_does_not_stop_others(tmp_path: Path) -> None:
    """1,000 new queries of 150 items: health checks waited for 2.3 of 2.5 seconds."""
    worst, stop = [0.0], threading.Event()
    with Running(tmp_path, DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:

        def probe() -> None:
            with httpx.Client(base_url=server.url, timeout=60) as client:
                while not stop.is_set():
                    began = time.perf_counter()
                    assert client.get("/healthz").status_code == 200
                    worst[0] = max(worst[0], time.perf_counter() - began)

        batch = [{"query": f"b{n}", "items": [f"{m}" for m in range(150)], "event_id": f"b-{n}"} for n in range(1000)]
        probing = threading.Thread(target=probe)
        probing.start()
        began = time.perf_counter()
        answer = httpx.post(f"{server.url}/v1/rankers/default/rank", json=batch, timeout=120)
        took = time.perf_counter() - began
        stop.set()
        probing.join()
        assert len(answer.json()) == 1000
        assert worst[0] < took / 2, (worst[0], took)
