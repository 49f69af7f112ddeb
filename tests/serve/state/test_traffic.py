"""The traffic of queries: a bounded table, in whole numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftrank.serve.state import traffic
from driftrank.serve.state.traffic import Traffic
from tests.serve.harness import Harness, differences

DAY = 86_400.0


def test_recent_rankings_count_half_with_each_day() -> None:
    table = Traffic()
    for n in range(9):
        table.ranked(n + 1, "q", 100 * DAY)
    found = table.queries["q"]
    assert (found.since, found.begun, found.impressions, found.recent) == (1, 100 * DAY, 9, 9)
    assert [found.recent_at(day) for day in (99, 100, 101, 102, 104, 100_000)] == [9, 9, 4, 2, 0, 0]
    table.ranked(20, "q", 102.5 * DAY)
    assert (found.impressions, found.recent, found.day) == (10, 3, 102)


def test_the_busiest_of_late_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "KEPT", 3)
    table = Traffic()
    seq = 0
    for query, day, times in [
        ("old", 0, 20),
        ("busy", 9, 8),
        ("quiet", 9, 1),
        ("rare", 9, 1),
        ("late", 9, 2),
        ("x", 9, 2),
    ]:
        for _ in range(times):
            seq += 1
            table.ranked(seq, query, day * DAY)
    assert len(table.queries) == 6, "up to twice as many"
    table.ranked(seq + 1, "new", 9 * DAY)
    assert [*table.queries] == ["busy", "late", "x"]
    for n in range(100):
        table.ranked(seq + 2 + n, f"one-{n}", 9 * DAY)
    assert len(table.queries) <= 6
    assert {"busy", "late", "x"} <= {*table.queries}


def test_clicks_by_arm() -> None:
    table = Traffic()
    table.ranked(5, "q", 0.0)
    for arm, clicks in [("live", 2), ("safe", 0), ("holdout", 1), ("holdout", 0), ("holdout", 3), ("shadow", 1)]:
        table.ended(5, "q", arm, clicks)
    table.ended(4, "q", "live", 7)  # of a time before it was reset
    table.ended(6, "other", "live", 7)
    found = table.queries["q"]
    assert (found.ranked.lists, found.ranked.clicks, found.ranked.squares) == (2, 2, 4)
    assert (found.holdout.lists, found.holdout.clicks, found.holdout.squares) == (3, 4, 10)


def test_it_survives_restarts_and_crashes(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.5}) as harness:
        for n in range(40):
            harness.rank(f"q{n % 3}", ["a", "b", "c"], f"e{n}")
            harness.feedback(f"e{n}", [1] if n % 2 else [])
            if n in (10, 20):
                harness.checkpoint()
        harness.reset("q1")
        harness.reset("q2", gone=True)
        harness.feedback("e38", [1])  # of q2, which is gone
        before = harness.dump()
        found = before["default"]["traffic"]
        assert set(found) == {"q0"}
        assert not differences(before, harness.dump_of_log())
        harness.recover()
        assert not differences(before, harness.dump())
        harness.restart()
        assert not differences(before, harness.dump())
        harness.reset()
        assert harness.dump()["default"]["traffic"] == {}
        assert not differences(harness.dump(), harness.dump_of_log())
