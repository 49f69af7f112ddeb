"""The simulated users of the demo."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from driftrank.serve.page.broadcast import Round
from driftrank.serve.page.sandbox import ITEMS, KEPT, RANKER, Sandbox
from driftrank.serve.page.views import VIEWS, Looking
from driftrank.serve.service import Service
from tests.serve.harness import CHEAP, Harness


def test_a_change_of_minds_changes_the_favourites_and_not_what_can_be_won() -> None:
    sandbox = Sandbox(seed=1)
    before, best = [item for item, _ in sandbox.taste], sandbox.best
    sandbox._attraction = sandbox._new_taste(before[:3])
    after = [item for item, _ in sandbox.taste]
    assert sorted(after) == sorted(before) == sorted(ITEMS)
    assert not set(after[:3]) & set(before[:3])
    assert set(after[-3:]) == set(before[:3])
    assert sandbox.best == best == pytest.approx(0.38 + 0.62 * 0.9 * (0.30 + 0.70 * 0.9 * 0.24))
    assert 0 < sandbox.fixed <= best


def test_counts_are_by_second_and_bounded() -> None:
    sandbox = Sandbox()
    for n in range(2 * KEPT):
        sandbox._count(n / 2 + 1e6, 1, n % 2)
        sandbox._count(n / 2 + 1e6, 0, 0)  # a list in the fixed order
    assert (len(sandbox.seconds), sandbox.seconds[-1][:3]) == (KEPT, (int(1e6 + KEPT - 1), 2, 1))


def test_users_come_and_change_their_minds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = structs.replace(Sandbox().settings, policy=CHEAP)
    monkeypatch.setattr(Sandbox, "settings", property(lambda self: cheap))
    sandbox = Sandbox(rate=400)
    with Harness(tmp_path, None) as harness:
        harness.run(_until(harness.service, sandbox, 60))
        looking = Looking(harness.service, {}, None, sandbox, Round())
        first = harness.run(VIEWS["try"](looking))
        assert first["said"].startswith(("It is learning", "It has found"))
        assert [p for _, p, *_ in first["taste"]] == sorted((p for _, p, *_ in first["taste"]), reverse=True)
        sandbox.change_minds()
        harness.run(_until(harness.service, sandbox, harness.info(RANKER).steps + 60))
        second = harness.run(VIEWS["try"](looking))
        assert second["said"] == "Users have changed their minds; it has not noticed yet."
        assert len(sandbox.changed) == 1
        assert first["taste"][0][0] != second["taste"][0][0]
        assert "marker made" in second["chart"]
        assert harness.info(RANKER).settings.holdout == 0.1


async def _until(service: Service, sandbox: Sandbox, steps: int) -> None:
    users = asyncio.create_task(sandbox.run(service))
    try:
        while RANKER not in service.state.rankers or service.info(RANKER).steps < steps:
            await asyncio.wait_for(asyncio.sleep(0.02), 60)
            assert not users.done()
    finally:
        users.cancel()
        await asyncio.gather(users, return_exceptions=True)
