"""Live updates: rendered once for all who look, only while somebody looks, and only what has changed is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from driftrank.serve.page import broadcast
from driftrank.serve.page.broadcast import Broadcaster, Round, Topic
from driftrank.serve.problems import Refused

PAGE, OTHER = Topic("overview", (), None), Topic("overview", (), frozenset({"shop"}))


class Site:
    """Pages whose contents the test sets."""

    def __init__(self, most: int = 3) -> None:
        self.rendered: list[Topic] = []
        self.stopping = False
        self.now = {"a": "1", "b": "1"}
        self.broadcaster = Broadcaster(self._render, lambda: most, lambda: self.stopping)

    async def _render(self, topic: Topic, round_: Round) -> dict[str, str]:
        self.rendered.append(topic)
        return dict(self.now)

    def open(self, topic: Topic = PAGE, allowed: Any = lambda: True) -> AsyncIterator[bytes]:
        return self.broadcaster.listen(topic, allowed)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "INTERVAL", 0.01)
    monkeypatch.setattr(broadcast, "CHECK", 0.01)


async def next_of(events: AsyncIterator[bytes]) -> str:
    return (await asyncio.wait_for(anext(events), 10)).decode()


async def regions_of(events: AsyncIterator[bytes]) -> dict[str, str]:
    text = await next_of(events)
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    return dict(json.loads(text[6:]))


def test_all_regions_come_first_then_those_that_have_changed() -> None:
    async def run() -> None:
        site = Site()
        events = site.open()
        assert "event: version" in await next_of(events)
        assert await regions_of(events) == {"a": "1", "b": "1"}
        site.now["b"] = "two\nlines </script>"
        assert await regions_of(events) == {"b": "two\nlines </script>"}

    asyncio.run(run())


def test_a_page_is_rendered_once_for_all_who_look_at_the_same() -> None:
    async def run() -> None:
        site = Site()
        pages = [site.open(), site.open(), site.open(OTHER)]
        for page in pages:
            await next_of(page)
            assert await regions_of(page) == site.now
        n = len(site.rendered)
        assert abs(site.rendered.count(PAGE) - site.rendered.count(OTHER)) <= 1
        assert n >= 2

    asyncio.run(run())


def test_nothing_is_rendered_when_nobody_looks() -> None:
    async def run() -> None:
        site = Site()
        events = site.open()
        await next_of(events)
        await regions_of(events)
        await events.aclose()  # type: ignore[attr-defined]
        assert site.broadcaster.open == 0
        assert site.broadcaster._task is not None
        await asyncio.wait_for(site.broadcaster._task, 10)
        n = len(site.rendered)
        await asyncio.sleep(0.05)
        assert len(site.rendered) == n
        again = site.open()  # and it begins again
        await next_of(again)
        assert await regions_of(again) == site.now

    asyncio.run(run())


def test_the_number_of_open_pages_is_limited() -> None:
    async def run() -> None:
        site = Site(most=2)
        first, second = site.open(), site.open(OTHER)
        await next_of(first)
        await next_of(second)
        with pytest.raises(Refused, match="max_pages") as caught:
            site.open()
        assert caught.value.status == 503
        await first.aclose()  # type: ignore[attr-defined]
        await next_of(site.open())

    asyncio.run(run())


def test_a_page_that_does_not_read_gets_the_latest_only() -> None:
    async def run() -> None:
        site = Site()
        slow, other = site.open(), site.open()
        await next_of(slow)
        await next_of(other)
        await regions_of(other)
        for n in range(5):
            site.now["a"] = f"version {n}"
            await regions_of(other)
        assert (await regions_of(slow))["a"] == "version 4"

    asyncio.run(run())


@pytest.mark.parametrize("why", ["stopping", "ended"])
def test_it_ends_with_the_service_and_with_the_session(why: str) -> None:
    async def run() -> None:
        site, allowed = Site(), True
        events = site.open(allowed=lambda: allowed)
        await next_of(events)
        await regions_of(events)
        if why == "stopping":
            site.stopping = True
        else:
            allowed = False
        assert await next_of(events) == f"event: {why}\ndata:\n\n"
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        assert site.broadcaster.open == 0
        if why == "stopping":
            with pytest.raises(Refused):
                site.open()

    asyncio.run(run())


def test_a_page_that_cannot_be_rendered_says_so_and_recovers(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        site = Site()
        events = site.open()
        await next_of(events)
        await regions_of(events)
        render, fault = site._render, Refused(404, "No such ranker", "gone")
        now: list[Exception | None] = [fault]

        async def broken(topic: Topic, round_: Round) -> dict[str, str]:
            if now[0] is not None:
                site.rendered.append(topic)
                raise now[0]
            return await render(topic, round_)

        site.broadcaster._render = broken
        assert await next_of(events) == 'event: fault\ndata: "gone"\n\n'
        late = site.open()  # whoever comes now gets what there was, and the same
        assert "event: version" in await next_of(late)
        assert await regions_of(late) == site.now
        assert "gone" in await next_of(late)
        now[0] = None
        assert await next_of(events) == 'event: fault\ndata: ""\n\n', "all is as before, and live"
        now[0] = RuntimeError("a bug")
        assert "a fault of the service" in await next_of(events)
        n = len(site.rendered)
        while len(site.rendered) < n + 3:
            await asyncio.sleep(0.01)
        now[0], site.now["a"] = None, "2"
        assert await regions_of(events) == {"a": "2"}

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == ["cannot update the page overview"], "once"


def test_a_key_of_some_rankers_cannot_take_all_pages() -> None:
    async def run() -> None:
        site = Site(most=8)
        shop = [site.broadcaster.listen(OTHER, lambda: True, "key shop") for _ in range(2)]
        for page in shop:
            await next_of(page)
        with pytest.raises(Refused, match="of this key"):
            site.broadcaster.listen(OTHER, lambda: True, "key shop")
        await next_of(site.broadcaster.listen(OTHER, lambda: True, "key of another"))
        for _ in range(5):  # those with access to all share what is left
            await next_of(site.broadcaster.listen(PAGE, lambda: True, "key admin"))

    asyncio.run(run())


def test_what_pages_have_in_common_is_computed_once_in_a_round() -> None:
    async def run() -> None:
        site, rounds = Site(), {}
        render = site._render

        async def noted(topic: Topic, round_: Round) -> dict[str, str]:
            rounds.setdefault(topic, []).append(round_)
            return await render(topic, round_)

        site.broadcaster._render = noted
        pages = [site.open(), site.open(OTHER)]
        for page in pages:
            await next_of(page)
        while len(rounds.get(OTHER, [])) < 3:
            await asyncio.sleep(0.01)
        both = {id(it) for it in rounds[PAGE]} & {id(it) for it in rounds[OTHER]}
        assert len(both) >= 2
        assert len({id(it) for it in rounds[PAGE]}) == len(rounds[PAGE]), "a new one each time"

    asyncio.run(run())
