"""Traffic at the real service: its lists are those of learners, and are compared with the caller's order."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.client import Client
from driftrank.drive.against_caller import CLICKS
from driftrank.drive.asked_lists import AskedList, lists_of_traffic
from driftrank.drive.drive import Drive
from driftrank.drive.result import DriveResult
from driftrank.drive.session import FeedbackFaults, rank_request
from driftrank.environments import Traffic
from driftrank.environments.traffic.stream import QueryStream
from driftrank.wire import Item
from tests.serve.running import Running

SMALL = "Traffic:n_queries=30,candidates=8,K=3,catalogue=40,going_on=0.85"
PRIOR = "PriorRegimeTS:hash_bits=8"


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (PRIOR, ",jitter=1,examination_power=0.5,shuffle=60"),
        (PRIOR, ",caller=none"),
        pytest.param("CascadeTS", "", marks=pytest.mark.slow),
        pytest.param("CascadeLinUCB", "", marks=pytest.mark.slow),
    ],
)
def test_served_is_simulated(service: Running, ranker: Any, policy: str, more: str) -> None:
    name = ranker(policy=policy, k=4)  # one position more than are asked for
    drive = Drive(url=service.url, ranker=name, env=SMALL + more, steps=120)
    result = drive.run(check=True, progress=False)
    assert result.check is not None
    assert result.check.same
    assert "all 120 lists are the same as those of the learner" in str(result.check)
    assert result.outcomes == {"counted": 120}
    world = drive.environment()
    simulated = dr.simulate("CascadeUCB1", world, horizon=120, checkpoints=120, progress=False)
    caller = simulated.values_of("CascadeUCB1", "baseline")[0, 0]
    assert np.array_equal(np.cumsum(result.reference_reward[1, 0]), caller)  # the same queries, candidates and users
    with pytest.raises(ValueError, match=r"120 lists.* reset it"):
        drive.run(check=True, progress=False)


def test_a_difference_is_found(service: Running, ranker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftrank.drive.simulation_check.policy_of", lambda settings: dr.CascadeTS())
    result = Drive(url=service.url, ranker=ranker(policy="CascadeUCB1"), env=SMALL, steps=30).run(
        check=True, progress=False
    )
    assert result.check is not None
    assert result.check.difference is not None
    query, step = result.check.difference
    assert query == result.asked[step - 1]


def test_command(
    service: Running, ranker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log's stream: real queries and items, delays, losses, new items and a holdout."""
    monkeypatch.chdir(tmp_path)
    dr.logs.generate("log.parquet", dr.environments.Stationary(dr.queries.yandex_like(6), k=5), 400)
    name = ranker(policy=PRIOR, holdout=0.2)
    words = [
        "drive", "--url", service.url, "--ranker", name, "--env", "Traffic:stream=log.parquet,K=3,day=100,new=0.2",
        "--steps", "300", "--delay", "0.05", "--drop", "0.2", "--duplicate", "0.1", "--batch", "3", "--out", "out",
    ]  # fmt: skip
    assert run(words) == 0
    shown = capsys.readouterr().out
    for text in ("lists 1-30", "lists 271-300", "all lists", "query came 10-99 times before", "caller's order"):
        assert text in shown
    assert "caller.png" in shown
    assert (tmp_path / "out/caller.png").read_bytes()[:4] == b"\x89PNG"
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    rows = pyarrow.parquet.read_table("out/lists.parquet").to_pylist()
    assert summary["lists"] == len(rows) == 300
    assert summary["queries"] == 6
    stream = dr.logs.query_stream("log.parquet")
    assert [row["query"] for row in rows] == [stream.names[q] for q in stream.order[:300]]
    live = [row for row in rows if not row["held"]]
    assert 30 < 300 - len(live) < 100
    windows = summary["against_caller"]["expected"]
    assert sum(window["lists"] for window in windows) == len(live)
    gained = sum(row["reward"] - row["reward_baseline"] for row in live)
    assert sum(window["lists"] * window["gain"] for window in windows) == pytest.approx(gained)
    assert all(window["low"] <= window["gain"] <= window["high"] for window in windows)
    clicks = sum(row["clicks"] - row["clicks_baseline"] for row in live)
    assert sum(g["lists"] * g["gain"] for g in summary["by_age"]["realised"]) == pytest.approx(clicks)
    held = [row for row in rows if row["held"]]
    assert all(row["reward"] == row["reward_baseline"] for row in held)
    with Client(service.url, ranker=name, timeout=30) as client:
        assert client.query(stream.names[0]).lists == summary["lists"] - sum(
            row["query"] != stream.names[0] for row in rows
        )


# -- without a service -------------------------------------------------------------------------------------------------


def small(**more: Any) -> Traffic:
    return Traffic(**{"n_queries": 5, "candidates": 6, "K": 2, "catalogue": 12} | more)


def test_asked_lists_are_those_of_the_run() -> None:
    world = small(jitter=1.0, caller="perfect")
    run, seen = world.run(seed=4), [0] * 5
    for asked in lists_of_traffic(world, 40, 4):
        run.go_to(asked.t)
        seen[run.query] += 1
        slots = run.call()[0].tolist()
        assert asked.query == f"q{run.query}"
        assert asked.number == seen[run.query]
        assert asked.items == [int(run.items[a]) for a in slots]
        assert asked.references[:2] == (run.best, slots[:2])
        value, clicks = asked.meet([1, 0])
        assert value == run.value([1, 0])
        assert clicks == [n for n, c in enumerate(run.clicks([1, 0]), 1) if c]
        assert asked.ordered


def test_a_list_stays_when_the_run_moves_on() -> None:
    world = small()
    kept = list(lists_of_traffic(world, 20, 0))
    for early, late in zip(kept, lists_of_traffic(world, 20, 0), strict=True):
        assert early.meet([2, 3]) == late.meet([2, 3])
        assert early.names == late.names


def test_ids_of_a_stream_and_features() -> None:
    stream = QueryStream.of({"shoes": ["a", 7, "c"], "hats": ["a"]}, order=[0, 1])
    world = Traffic(stream=stream, K=2, caller="logged", day=1, new=1.0, d=2)
    first, second, third = lists_of_traffic(world, 3, 0, features=True)
    assert [(item.id, len(item.features or [])) for item in first.items if isinstance(item, Item)] == [
        ("a", 2), (7, 2), ("c", 2),
    ]  # fmt: skip
    assert (second.query, len(second.items), len(second.references[1])) == ("hats", 1, 1)
    assert [item.id for item in third.items if isinstance(item, Item)] == ["a~2", "7~2", "c~2"]  # new every day


def test_the_request_takes_the_draw_of_its_list() -> None:
    *_, asked = lists_of_traffic(small(caller="none", n_queries=1), 3, 0)
    request = rank_request("name", asked, None)
    assert request.items_unordered
    assert request.event_id == "name:q0:3"
    for odd in ("a\nb", "long " * 100):
        event = rank_request("name", dataclasses.replace(asked, query=odd), None).event_id or ""
        assert re.fullmatch("name:[0-9a-f]{16}:3", event)


def result_of(rows: list[tuple[str, float, float, bool]]) -> DriveResult:
    """A drive with these queries, values of the list and of the caller's, and held lists. All users click once."""
    drive = Drive(env="Traffic:n_queries=2,candidates=3,K=1,catalogue=3", steps=len(rows) + 1)
    result, seen = DriveResult.empty(drive, drive.environment()), {"a": 0, "b": 0}
    for t, (query, value, caller, held) in enumerate(rows, 1):
        seen[query] += 1
        asked = AskedList(0, t, query, seen[query], [], True, {}, [5], 1.0, (), lambda ranking: (0.0, []))
        result.put(asked, [0], value, 1, [(1.0, [1]), (caller, []), (0.0, [])], held=held)
    return result


def test_comparisons() -> None:
    result = result_of(
        [("a", 0.5, 0.25, False), ("b", 0.5, 0.5, False), ("a", 0.0, 0.0, True), ("a", 0.75, 0.0, False)]
    )
    first, second = result.against_caller(2)
    assert (first.name, first.lists, first.clicks, first.caller, first.gain) == ("1-2", 2, 0.5, 0.375, 0.125)
    assert first.error == pytest.approx(0.125)
    assert (second.name, second.lists, second.gain) == ("3-4", 1, 0.75)  # the held list does not count
    assert second.error != second.error
    assert [row.gain for row in result.against_caller(2, "realised")] == [1.0, 1.0]
    (young,) = result.by_age()
    assert (young.name, young.lists, young.regret) == ("0-9", 3, pytest.approx(1.25))
    assert len(result.against_caller()) == 3
    assert "lists 1-2" in str(result.caller_table(2))
    with pytest.raises(ValueError, match="clicks='all': must be one of"):
        result.by_age("all")
    with pytest.raises(ValueError, match="size=0"):
        result.against_caller(0)
    assert set(result.summary()["by_age"]) == set(CLICKS)


def test_nothing_to_compare(tmp_path: Path) -> None:
    """A ranker in shadow mode shows the caller's lists only."""
    result = result_of([("a", 0.25, 0.25, True), ("b", 0.5, 0.5, True)])
    assert not result.compared
    assert result.against_caller() == result.by_age() == []
    result.save(tmp_path)
    assert result.files == "lists.parquet, summary.json, drive.png"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drive.png", "lists.parquet", "summary.json"]


@pytest.mark.parametrize(
    ("settings", "check", "message"),
    [
        ({"env": SMALL + ",delay=5"}, False, "delay=5: must be 0 at a service: feedback is delayed by seconds"),
        ({"env": SMALL + ",warm=5"}, False, "warm=5: must be 0 at a service"),
        ({"env": SMALL + ",new=0.1"}, True, "new items replace old ones"),
        ({"env": SMALL, "faults": FeedbackFaults(drop=0.1)}, True, "delayed, dropped or duplicated"),
        ({"env": "Traffic:stream=nowhere.parquet"}, False, "nowhere.parquet: no such file"),
    ],
)
def test_bad_values(settings: dict[str, Any], check: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Drive(**settings).run(check=check, progress=False)
