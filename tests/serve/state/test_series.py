"""The traffic of a ranker over time: equal to a plain count of the log, through restarts, and bounded."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import msgpack

from driftrank.evaluation.sequences import mixture_width
from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.answers.series import series_of
from driftrank.serve.log.records import Clicked, Final, Ranked
from driftrank.serve.log.store.base import LogOnly
from driftrank.serve.monitoring.metrics import DELAYS, Metrics
from driftrank.serve.state.changes import Change
from driftrank.serve.state.checkpoint import CHECKPOINT, Checkpoint
from driftrank.serve.state.series import COUNTS, HOURS, MINUTES, Series, of_days
from driftrank.serve.state.state import State
from driftrank.wire import ArmSettings, SeriesState
from tests.serve.harness import Harness, differences

ITEMS = [f"i{n}" for n in range(6)]
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def traffic(harness: Harness, lists: int, seed: int = 0, pause: float = 40.0) -> None:
    """Lists with feedback of all kinds, and none."""
    users = random.Random(seed)
    for n in range(lists):
        event = f"e{seed}-{n}"
        harness.clock.now += users.random() * 2 * pause
        harness.rank(f"q{users.randrange(3)}", ITEMS, event, subject=f"u{users.randrange(400)}")
        harness.clock.now += users.random() * 20
        how = users.random()
        if how < 0.3:
            harness.feedback(event, [])
        elif how < 0.8:
            harness.feedback(event, sorted(users.sample((1, 2, 3), users.choice((1, 1, 2)))))
        elif how < 0.85:
            harness.feedback(event, shown=0)
        if not n % 20:
            harness.end_feedback_windows()


def recounted(harness: Harness, seconds: int) -> dict[str, Counter[tuple[int, str]]]:
    """The counts of each arm by period, from the records alone."""
    lists: dict[str, Ranked] = {}
    out: dict[str, Counter[tuple[int, str]]] = {}
    for _, record in harness.log():
        if isinstance(record, Ranked):
            lists[record.event_id] = record
            counts = out.setdefault(record.arm, Counter())
            at = int(record.time // seconds)
            counts[at, "lists"] += 1
            counts[at, "explored"] += "e" in record.why
        elif isinstance(record, Final):
            counts, at = out[lists[record.event_id].arm], int(record.time // seconds)
            counts[at, record.how] += 1
            counts[at, "clicked"] += bool(record.clicks)
            counts[at, "clicks"] += len(record.clicks)
    return out


def shown(harness: Harness, step: Any = "minute", since: float | None = None) -> SeriesState:
    return series_of(harness.state.rankers["default"], step, since, harness.clock.now)


@pytest.fixture
def harness(tmp_path: Path):
    ranker = {"holdout": 0.3, "arms": {"b": ArmSettings(share=0.2)}, "wait": "10m"}
    with Harness(tmp_path, ranker=ranker) as harness:
        yield harness


def test_series_are_a_plain_count_of_the_log(harness: Harness) -> None:
    traffic(harness, 300)
    for step, seconds in (("minute", MINUTE), ("hour", HOUR)):
        plain, found = recounted(harness, seconds), shown(harness, step)
        assert [arm.arm for arm in found.arms] == ["b", "holdout", "live"]
        assert found.times == sorted(found.times)
        for arm in found.arms:
            for column in COUNTS:
                expected = [plain[arm.arm][at // seconds, column] for at in found.times]
                assert getattr(arm, column) == expected, (step, arm.arm, column)
            assert sum(arm.lists) > 20
            assert sum(arm.value) == sum(arm.clicks) > 0
    records = harness.log()
    lists = {record.event_id: record for _, record in records if isinstance(record, Ranked)}
    ends = [record for _, record in records if isinstance(record, Final)]
    at = Counter(position for record in ends for position in record.clicks)
    assert found.positions.clicked == [at[n] for n in range(1, 22)]
    assert found.positions.shown == [300] * 3 + [0] * 18
    explored = [sum(record.why[n : n + 1] == "e" for record in lists.values()) for n in range(21)]
    assert found.positions.explored == explored
    delays = [record.time - lists[record.event_id].time for record in ends if record.clicks]
    buckets = Counter(bisect_left(DELAYS, delay) for delay in delays)
    assert found.delays.clicks == [buckets[n] for n in range(len(DELAYS) + 1)]
    later = sum(delay > 10 for delay in delays) / len(delays)
    assert found.delays.cut[found.delays.bounds.index(10.0)] == pytest.approx(later, abs=1e-6)
    assert found.delays.wait == 600


def test_series_survive_restarts_crashes_and_resets(harness: Harness) -> None:
    traffic(harness, 60, 1)
    harness.checkpoint()
    traffic(harness, 60, 2)
    harness.advance(600)
    before = series(harness).saved()
    harness.recover()
    assert series(harness).saved() == before
    harness.restart()
    assert harness.replay.records == 0, "it is in the checkpoint"
    assert series(harness).saved() == before
    state = State(LogOnly(harness.store), Metrics())
    for seq, record in harness.log():
        state.apply(seq, record)
    assert state.rankers["default"].series.saved() == before
    lists = sum(sum(arm.lists) for arm in shown(harness).arms)
    harness.reset()
    assert sum(sum(arm.lists) for arm in shown(harness).arms) == lists == 120, "what users did is not what was learnt"
    harness.put("shop", policy="CascadeUCB1", k=3)
    harness.rank("q", ITEMS, ranker="shop")
    harness.delete("shop")
    harness.put("shop", policy="CascadeUCB1", k=3)
    assert not harness.state.rankers["shop"].series.arms


def test_a_first_list_that_is_a_later_page_survives_a_restart(harness: Harness) -> None:
    """It counts for positions, and for no arm."""
    harness.put("shop", policy="CascadeUCB1", k=3, stable="1h")
    harness.rank("q", ITEMS, "e", ranker="shop", subject="s", offset=3)
    before = harness.state.rankers["shop"].series.saved()
    harness.restart()
    assert harness.replay.records == 0, "it is in the checkpoint"
    assert harness.state.rankers["shop"].series.saved() == before


def test_a_checkpoint_without_series_loads(harness: Harness) -> None:
    traffic(harness, 40)
    harness.checkpoint()
    stored = harness.store.get_snapshot(CHECKPOINT)
    assert stored is not None
    old = msgpack.decode(stored.body)
    of = old["rankers"]["default"]
    assert of.pop("series")["version"] == 1
    for pair in of["experiment"]["pairs"]:
        del pair["hours"]
    of["traffic"] = {query: row[:7] for query, row in of["traffic"].items()}  # it had no records
    loaded = Checkpoint.from_bytes(msgpack.encode(old)).rankers["default"]
    assert (loaded.series.arms, loaded.impressions) == ({}, harness.state.rankers["default"].impressions)
    assert loaded.traffic.queries["q0"].records() == []
    of["series"] = {"version": 9, "arms": {}, "days": [0, 0, b"", b"", b"", [], []]}
    assert not Checkpoint.from_bytes(msgpack.encode(old)).rankers["default"].series.arms
    assert Checkpoint.from_bytes(stored.body).rankers["default"].series.saved() == series(harness).saved()


def series(harness: Harness) -> Series:
    return harness.state.rankers["default"].series


def test_a_query_that_is_loaded_alone_counts_nothing(harness: Harness) -> None:
    traffic(harness, 10)
    before = series(harness).saved()
    copy = harness.state.rankers["default"].for_query()
    copy.series.ranked(ranked(2_000_000_000.0))
    assert series(harness).saved() == before


# -- periods -------------------------------------------------------------------------------------------------------


def ranked(time: float, arm: str = "live", why: str = "lle", offset: int = 0) -> Ranked:
    return Ranked("r", "q", "e", time, 1, [*"abc"], why, 1, arm=arm, offset=offset)


def ended(time: float, *clicks: int, how: str = "feedback", **more: Any) -> Final:
    return Final("r", "e", time, how, [*clicks], **more)


def lists(series: Series, of: str, first: int, last: int) -> list[int]:
    return [int(n) for n in getattr(series.arms["live"], of).between(first, last).counts[:, 0]]


def test_minutes_wrap_after_a_day_and_hours_after_92_days() -> None:
    series = Series()
    first = 20_000 * DAY
    series.ranked(ranked(first))
    series.ranked(ranked(first + 59.9))
    last = first // MINUTE + MINUTES
    series.ranked(ranked(first + DAY - 1))
    assert lists(series, "minutes", first // MINUTE, first // MINUTE) == [2]
    series.ranked(ranked(first + DAY))  # in the place of the first
    assert lists(series, "minutes", first // MINUTE, first // MINUTE) == [0]
    assert lists(series, "minutes", last - 2, last + 1) == [0, 1, 1, 0]
    assert series.arms["live"].minutes.between(last, last).counts_before[0] == 3, "they count in what was before"
    assert sum(lists(series, "hours", first // HOUR, first // HOUR + 30)) == 4
    before = series.nbytes
    series.ranked(ranked(first + (HOURS - 1) * HOUR))
    assert lists(series, "hours", first // HOUR, first // HOUR) == [2]
    series.ranked(ranked(first + HOURS * HOUR))
    assert lists(series, "hours", first // HOUR, first // HOUR + 24) == [0] * 23 + [1, 1]
    assert series.nbytes == before
    series.ranked(ranked(first))  # too long ago for all
    assert lists(series, "hours", first // HOUR, first // HOUR) == [0]
    series.ranked(ranked(first + 10**6 * DAY))  # long after
    now = (first + 10**6 * DAY) // HOUR
    assert lists(series, "hours", now - HOURS, now) == [0] * HOURS + [1]
    assert series.arms["live"].hours.between(now, now).counts_before[0] == 6


def test_records_out_of_order() -> None:
    """Clocks of several nodes differ a little."""
    series = Series()
    first = 1_700_000_040.0
    for time in (first, first - 70, first + 130, first + 65):
        series.ranked(ranked(time))
    at = int(first // MINUTE)
    assert lists(series, "minutes", at - 2, at + 2) == [1, 0, 1, 1, 1]
    assert series.arms["live"].minutes.first == int((first - 70) // MINUTE)


def test_ends_of_all_kinds() -> None:
    series = Series()
    time = 1_700_000_000.0
    for final, waited in [
        (ended(time, 1, 3), True),
        (ended(time, 2, values=[(2, 2.5)]), True),
        (ended(time), True),
        (ended(time, how="silence"), True),
        (ended(time, how="dropped"), True),
        (ended(time, how="withdrawn"), True),
        (ended(time, how="withdrawn"), False),
        (ended(time, 1), False),
    ]:
        series.ended(ranked(time), final, waited=waited)
    series.ended(ranked(time, offset=3), ended(time, 1, 20), waited=True)  # a second page: positions only
    minute = int(time // MINUTE)
    found = series.arms["live"].minutes.between(minute, minute)
    counts = dict(zip(COUNTS, found.counts[0].tolist(), strict=True))
    expected = {"feedback": 3, "silence": 1, "dropped": 1, "withdrawn": 2, "late": 1, "clicked": 2, "clicks": 3}
    assert counts == {"lists": 0, "explored": 0} | expected
    assert found.sums[0].tolist() == [4.5, 5.0]
    day = int(time // DAY)
    assert of_days(series, day, day).clicked == [1, 1, 1, 1, *[0] * 16, 1]


def test_positions_of_long_lists_and_of_pages() -> None:
    series, time = Series(), 1_700_000_000.0
    series.ranked(ranked(time, why="e" * 30))
    series.ranked(ranked(time, why="lel", offset=18))
    series.ranked(ranked(time, why="ll", offset=40))
    day = int(time // DAY)
    found = of_days(series, day, day)
    assert found.shown == [1] * 18 + [2, 2, 10 + 1 + 2]
    assert found.explored == [1] * 19 + [2, 10]
    assert of_days(series, day + 1, day + 5).shown == [0] * 21


def test_memory_is_bounded() -> None:
    series = Series()
    assert series.nbytes == 0
    for n in range(100):  # arms come and go
        series.ranked(ranked(1_700_000_000.0 + 60 * n, f"arm{n}"))
    assert len(series.arms) == 16
    assert "arm99" in series.arms
    assert "arm83" not in series.arms
    assert series.nbytes == 16 * 52 * (MINUTES + HOURS) + 92 * 4 * (4 * 21 + 1 + len(DELAYS) + 1)
    assert len(msgpack.encode(series.saved())) < 20_000, "only periods with lists are stored"


# -- bands ---------------------------------------------------------------------------------------------------------


def test_the_gain_by_hour_is_that_of_the_experiment(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.5, "wait": "1h"}) as harness:
        users = random.Random(4)
        seen = {}
        for n in range(640):
            harness.clock.now += 40
            answer = harness.rank("q", ITEMS, f"e{n}", subject=f"u{n}")
            likes = 0.1 if answer.items[0].why == "baseline" else 0.9
            harness.feedback(f"e{n}", [1] if users.random() < likes else [])
            (compared,) = experiment_of(harness.state.rankers["default"]).comparisons
            if not (n + 1) % 16 and compared.clicks is not None:
                seen[int(harness.clock.now // HOUR) * HOUR] = compared
        (gain,) = shown(harness, "hour").gains
        assert gain.times == list(seen)
        assert len(seen) > 3
        assert gain.lists == [it.lists for it in seen.values()]
        for name in ("difference", "low", "high"):
            expected = [round(getattr(it.clicks, name), 6) for it in seen.values()]
            assert getattr(gain, name) == expected
        assert gain.certain_since == compared.certain_since is not None
        assert gain.low[-1] > 0
        (later,) = shown(harness, "hour", since=gain.times[-1] + 60).gains
        assert (later.times, later.certain_since) == (gain.times[-1:], gain.certain_since)
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())


def test_the_band_of_an_arm_counts_what_was_before(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"wait": "1h"}) as harness:
        ranker, time = harness.state.rankers["default"], harness.clock.now
        clicks = [n % 3 for n in range(400)]
        for n, of in enumerate(clicks):
            ranker.series.ended(ranked(time + 60 * n), ended(time + 60 * n, *range(1, of + 1)), waited=True)
        harness.clock.now += 60 * 400
        (arm,) = shown(harness).arms
        assert arm.mean[:99] == [None] * 99
        for t in (100, 250, 400):
            done = clicks[:t]
            half = float(np.std(done)) * mixture_width(t, ranker.planned)
            found = arm.mean[t - 1], arm.low[t - 1], arm.high[t - 1]
            assert found == pytest.approx((np.mean(done), max(0, np.mean(done) - half), np.mean(done) + half), abs=2e-6)
        (late,) = shown(harness, since=harness.clock.now - 600).arms
        assert (len(late.mean), late.mean[-1], late.low[-1]) == (11, arm.mean[-1], arm.low[-1])


def test_changes_by_hour(harness: Harness) -> None:
    time = harness.clock.now
    harness.rank("q", ITEMS)
    harness.clock.now += 3 * HOUR
    changes = [Change(n, at, "q", 1, "a", False, 0.1, 0.2) for n, at in enumerate((time, time + 7300, time + 7400))]
    harness.state.rankers["default"].changes = changes
    assert shown(harness, "hour").changes == [1, 0, 2, 0]
    assert shown(harness, "hour", since=time + 3600).changes == [0, 2, 0]


def test_a_quiet_ranker_has_one_period(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        found = shown(harness)
        assert (len(found.times), found.arms, found.changes, found.gains) == (1, [], [0], [])
        assert found.delays.cut == [None] * len(DELAYS)


def test_clicks_that_are_collected_count_once(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"second_click": "update", "wait": "10m"}) as harness:
        harness.rank("q", ITEMS, "e")
        harness.clock.now += 7
        harness.feedback("e", [1])
        harness.clock.now += 60
        harness.feedback("e", [2])
        assert sum(isinstance(record, Clicked) for _, record in harness.log()) == 2
        (arm,) = shown(harness).arms
        assert sum(arm.clicks) == 0, "at the end"
        harness.advance(600)
        found = shown(harness)
        (arm,) = found.arms
        assert (sum(arm.clicks), sum(arm.clicked), sum(arm.feedback)) == (2, 1, 1)
        assert found.delays.clicks[:7] == [0, 0, 0, 1, 0, 0, 1]
