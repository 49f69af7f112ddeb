"""One event: everything that led to it and came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.answers.event import event
from driftrank.wire import EventState, GivenItem, Item
from tests.serve.harness import Harness

NOW = 1_700_000_000.0
DEFAULT = "PriorRegimeTS:hash_bits=8"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path) as harness:
        yield harness


def see(harness: Harness, event_id: str) -> EventState:
    return harness.run(event(harness.service, "default", event_id))


def test_from_the_request_to_the_click(harness: Harness) -> None:
    answer = harness.rank("q", ["a", "b", "c", "d"], "e", k=2)
    found = see(harness, "e")
    assert (found.event_id, found.ranker, found.query, found.arm) == ("e", "default", "q", "live")
    assert (found.items, found.step, found.policy) == (answer.items, 1, "CascadeUCB1")
    assert found.candidates == ["a", "b", "c", "d"]
    assert found.time.timestamp() == NOW
    assert len(found.draw) == 16
    assert (found.outcome, found.learnt, found.feedback) == ("open", False, None)
    assert found.window_closes is not None
    assert found.window_closes.timestamp() == NOW + 1800
    harness.clock.now += 5
    harness.feedback("e", [2], time="client's")
    found = see(harness, "e")
    assert (found.outcome, found.learnt, found.window_closes) == ("counted", True, None)
    assert found.feedback is not None
    assert (found.feedback.how, found.feedback.clicks, found.feedback.client_time) == ("feedback", [2], "client's")
    assert found.feedback.time.timestamp() == NOW + 5
    harness.reset("q")
    found = see(harness, "e")
    assert (found.outcome, found.learnt) == ("forgotten", False)
    harness.put(policy="CascadeTS", k=3)
    assert see(harness, "e").policy is None, "the ranker has begun again"
    with harness.refused(404, "event_id='nothing': no ranking of ranker 'default' has it"):
        see(harness, "nothing")


@pytest.mark.parametrize(
    ("settings", "how", "outcomes"),
    [
        ({"silence": "drop"}, {}, ["open", "dropped"]),
        ({}, {}, ["open", "counted"]),
        ({"second_click": "update"}, {"clicks": [1]}, ["collected", "counted"]),
        ({"holdout": 0.999999}, {"clicks": [1]}, ["holdout", "holdout"]),
        ({}, {"shown": 0}, ["withdrawn", "withdrawn"]),
    ],
)
def test_outcomes(tmp_path: Path, settings: dict[str, Any], how: dict[str, Any], outcomes: list[str]) -> None:
    with Harness(tmp_path, ranker=settings) as harness:
        harness.rank("q", ["a", "b"], "e")
        if how:
            harness.feedback("e", **how)
        first = see(harness, "e")
        harness.advance(1801)
        last = see(harness, "e")
        assert [first.outcome, last.outcome] == outcomes
        assert last.feedback is not None
        if outcomes[0] == "collected":
            assert first.collected == [1]
            assert (last.collected, last.feedback.clicks) == ([], [1])


def test_deferred(harness: Harness) -> None:
    harness.rank("q", ["a", "b"], "e", defer=True)
    found = see(harness, "e")
    assert (found.outcome, found.deferred, found.window_opened, found.window_closes) == ("inactive", True, None, None)
    harness.clock.now += 100
    harness.activate("e")
    found = see(harness, "e")
    assert (found.outcome, found.deferred) == ("open", True)
    assert found.window_opened is not None
    assert found.window_opened.timestamp() == NOW + 100


@pytest.mark.parametrize("policy", ["CascadeUCB1", DEFAULT])
def test_candidates_are_recorded_once_as_long_as_they_are_the_same(tmp_path: Path, policy: str) -> None:
    many, other = [f"i{n}" for n in range(30)], [f"j{n}" for n in range(30)]
    with Harness(tmp_path, policy) as harness:
        for n in range(6):
            harness.rank("q", many, f"e{n}")
            harness.feedback(f"e{n}", [2])
        sizes = [len(entry.body) for entry in harness.store.read(0) if entry.id.startswith("r/")]
        assert max(sizes[1:]) < sizes[0] - 100, "without them"
        harness.rank("q", other, "other")
        harness.rank("q", many, "again")
        harness.clock.now += 86_401
        harness.rank("q", many, "tomorrow")
        harness.rank("q", many, "tomorrow-2")
        expected = {f"e{n}": many for n in range(6)} | {"other": other, "again": many, "tomorrow": many}
        expected["tomorrow-2"] = many
        assert {event_id: see(harness, event_id).candidates for event_id in expected} == expected
        harness.recover()
        assert {event_id: see(harness, event_id).candidates for event_id in expected} == expected
        harness.restart()
        assert {event_id: see(harness, event_id).candidates for event_id in expected} == expected
        # the log forgets: today's records do not depend on yesterday's
        harness.feedback("tomorrow", [1])
        harness.advance(3600)
        for name in ("other", "again"):
            harness.feedback(name, [])
        harness.checkpoint()
        first = next(entry.seq for entry in harness.store.read(0) if entry.id.endswith("/tomorrow"))
        harness.store.forget(first)
        assert see(harness, "tomorrow-2").candidates == many


def test_candidates_of_a_moved_state_are_recorded_again(harness: Harness, tmp_path: Path) -> None:
    harness.rank("q", ["a", "b", "c", "d"], "e")
    harness.feedback("e", [1])
    states = harness.export()
    (tmp_path / "other").mkdir()
    with Harness(tmp_path / "other") as other:
        for _ in range(5):
            other.rank("r", ["x"])
        other.import_(states)
        other.rank("q", ["a", "b", "c", "d"], "f")
        assert see(other, "f").candidates == ["a", "b", "c", "d"]


def test_why_each_item_is_where_it_was_with_the_numbers_of_then(tmp_path: Path) -> None:
    with Harness(tmp_path, DEFAULT) as harness:
        for n in range(40):
            harness.rank("q", ["a", "b", "c", "d"], f"e{n}")
            harness.feedback(f"e{n}", [1] if n % 2 else [])
        first, last = see(harness, "e0").reasons, see(harness, "e39").reasons
        assert all("not observed yet, a prior of 0." in reason for reason in first), first
        assert any(
            re.search(r"estimate 0\.\d+ \(from \d+ observations, and a prior of 0\.\d+ worth", it) for it in last
        )
        harness.put(policy="CascadeUCB1", k=3)
        assert [re.sub(r"[\d.]+", "N", reason) for reason in see(harness, "e39").reasons if "score" in reason][:1] in (
            ["by its score N"], ["to learn more about it, by its score N"],
        )  # fmt: skip


def test_what_the_request_said_of_the_items(tmp_path: Path) -> None:
    settings = {"stable": "1h", "values": {"add": 0.5}}
    with Harness(tmp_path, DEFAULT, ranker=settings) as harness:
        items = [Item(name, {"colour": "red", "price": 2.0}, score) for name, score in (("a", 3.0), ("b", 2.0))]
        for event_id in ("e", "same"):
            harness.rank("q", items, event_id, context={"season": "winter"}, subject="someone")
        harness.feedback("e", [1], kind="add")
        found, same = see(harness, "e"), see(harness, "same")
        by_id = dict(zip([it.id for it in found.items], found.given, strict=True))
        assert by_id == {"a": GivenItem(1, 1.0, [], 2), "b": GivenItem(2, -1.0, [], 2)}
        assert (found.context, found.offset, found.repeats) == (1, 0, 0)
        assert found.subject is not None
        assert re.fullmatch("[0-9a-f]{16}", found.subject)
        assert (same.subject, same.repeats) == (found.subject, found.number)
        assert found.feedback is not None
        assert found.feedback.values == {1: 0.5}
    (tmp_path / "linear").mkdir()
    with Harness(tmp_path / "linear", "CascadeLinUCB") as harness:
        harness.rank("q", [Item("a", [0.5, 1.0]), Item("b", [1.0, 0.25])], "e")
        found = see(harness, "e")
        assert {it.id: given.vector for it, given in zip(found.items, found.given, strict=True)} == {
            "a": [0.5, 1.0], "b": [1.0, 0.25],
        }  # fmt: skip
        assert found.subject is None
