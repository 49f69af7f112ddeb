"""The changes that were detected: what is remembered of them, and that no start loses one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftrank.serve.answers.feeds import changes
from driftrank.serve.state.changes import KEPT, FoundChange, noted, numbered
from driftrank.wire import WarmRow
from tests.serve.harness import Harness, differences

POLICY = "GLRTCascadeUCB:explore=0.2"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, POLICY, ranker={"k": 2, "horizon": 1000}) as harness:
        yield harness


def visits(harness: Harness, query: str, n: int, liked: str, users: random.Random) -> None:
    for _ in range(n):
        harness.clock.now += 1
        event = f"{query}-{users.random()}"
        shown = harness.shown(query, ["a", "b", "c"], event)
        clicks = [item for item in shown if users.random() < (0.9 if item == liked else 0.05)]
        harness.feedback(event, clicks[:1])


def test_a_change_has_its_time_and_estimates(harness: Harness) -> None:
    users = random.Random(0)
    visits(harness, "q", 150, "a", users)
    assert changes(harness.service, "default", None, None, 10) == []
    flipped = harness.clock.now
    visits(harness, "q", 100, "c", users)
    found = changes(harness.service, "default", None, None, 10)
    assert found
    first = found[-1]
    assert (first.query, first.everything) == ("q", True)
    assert first.number % 64 == 0
    assert [change.number for change in found] == sorted({change.number for change in found}, reverse=True)
    assert first.item in ("a", "c")
    assert flipped < first.time.timestamp() <= harness.clock.now
    assert first.time.timestamp() - 1_700_000_000 == first.step, "a list a second"
    assert first.before is not None
    assert first.after is None, "it begins again"
    assert (first.before > 0.7) == (first.item == "a"), first
    state = harness.query("q")
    assert state.last_change == found[0].step
    assert state.last_change_time == found[0].time
    assert {item.last_change_time for item in state.items} == {found[0].time}


def test_no_start_loses_a_change(harness: Harness) -> None:
    users = random.Random(1)
    for query in ("q", "r", "s"):
        visits(harness, query, 80, "a", users)
    harness.checkpoint()
    for query in ("q", "r", "s"):
        visits(harness, query, 80, "c", users)
    seen = harness.dump()["default"]["changes"]
    assert {change.query for change in seen} == {"q", "r", "s"}
    # the snapshots of two queries are ahead of the checkpoint, so that a replay does not fold their records again
    harness.run(harness.service.maintenance.snapshot([("default", "q"), ("default", "s")]))
    visits(harness, "s", 60, "b", users)
    before = harness.dump()
    assert len(before["default"]["changes"]) > len(seen)
    harness.recover()
    assert not differences(before, harness.dump())
    harness.recover()
    assert not differences(before, harness.dump())
    assert not differences(before, harness.dump_of_log())
    harness.restart()
    assert not differences(before, harness.dump())
    harness.reset("s", gone=True)
    assert {change.query for change in harness.dump()["default"]["changes"]} == {"q", "r"}
    before = harness.dump()
    harness.recover()
    assert not differences(before, harness.dump())
    assert not differences(before, harness.dump_of_log())


def test_changes_that_could_not_be_written_are_written_later(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    users = random.Random(2)
    visits(harness, "q", 80, "a", users)
    harness.checkpoint()
    visits(harness, "q", 80, "c", users)
    put = harness.store.put_snapshots
    monkeypatch.setattr(harness.store, "put_snapshots", lambda *_, **__: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        harness.run(harness.service.maintenance.snapshot([("default", "q")]))
    monkeypatch.setattr(harness.store, "put_snapshots", put)
    harness.run(harness.service.maintenance.snapshot([("default", "q")]))
    before = harness.dump()
    assert before["default"]["changes"]
    harness.recover()
    assert not differences(before, harness.dump())


def test_rows_of_an_old_log_have_changes_too(harness: Harness) -> None:
    rows = [WarmRow("q", ["a", "b"], [1] if n < 200 else [2], 1_600_000_000.0 + n) for n in range(300)]
    harness.warmstart(rows)
    found = changes(harness.service, "default", "q", None, 10)
    assert found
    assert 200 < found[-1].time.timestamp() - 1_600_000_000 < 300
    assert changes(harness.service, "default", "other", None, 10) == []


def test_the_latest_are_kept() -> None:
    found = [FoundChange(7, "a", False, 0.1, 0.2)]
    kept = noted([], numbered(7, "q", 1.0, found * (KEPT - 1)))
    kept = noted(kept, numbered(100, "r", 2.0, found * 3))
    assert [kept[0].number, kept[-1].number, len(kept)] == [7 * 64 + 2, 100 * 64 + 2, KEPT]
    assert [change.query for change in kept[-4:]] == ["q", "r", "r", "r"]
