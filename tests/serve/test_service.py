"""The service without HTTP: rankings, feedback, silence, settings. The test sets the clock."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from driftrank.policies.registry import parse_policy
from driftrank.serve.log.records import Final, Ranked, RankerSet
from driftrank.wire import Clicked, Feedback, Item, RankerSettings, RankRequest, WarmRow
from tests.quick import others_are_slow
from tests.serve.harness import Harness, differences

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

ITEMS = ["a", "b", "c", "d", "e"]
LINEAR = "CascadeLinUCB"


@pytest.fixture
def harness(tmp_path):
    with Harness(tmp_path, ranker={"wait": 100, "forget_items": 1000}) as harness:
        yield harness
        assert not differences(harness.dump(), harness.dump_of_log())
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())


# -- rankings ----------------------------------------------------------------------------------------------------------


def test_changing_candidates(harness):
    chance = random.Random(1)
    for n in range(60):
        items = chance.sample([*ITEMS, *range(5)], chance.randint(1, 8))
        shown = harness.shown("q", items, f"e:{n}")
        assert len(shown) == min(3, len(items))
        assert set(shown) <= set(items)
        assert len(set(shown)) == len(shown)
        harness.feedback(f"e:{n}", [1])
    state = harness.query("q")
    assert {item.id for item in state.items} == {*ITEMS, *range(5)}
    assert state.steps == state.lists == state.clicks == 60


def test_seven_and_the_text_seven_are_two_items(harness):
    answer = harness.rank("q", [7, "7", 8], "e")
    assert {(type(item.id), item.id) for item in answer.items} == {(int, 7), (str, "7"), (int, 8)}
    shown = [item.id for item in answer.items]
    assert harness.feedback("e", ["7"]).clicks == 1
    (final,) = [record for _, record in harness.log() if isinstance(record, Final)]
    assert final.clicks == [shown.index("7") + 1]


def test_vanished_items_are_forgotten_and_their_slots_reused(harness):
    harness.rank("q", ITEMS)
    for n in range(50):
        harness.advance(300)
        harness.rank("q", ["a", "b", f"new{n}"])
    seen = harness.state.queries["default", "q"].seen
    assert {"a", "b"} <= seen.keys()
    assert "c" not in seen
    assert len(seen) < 12
    learner = harness.state.queries["default", "q"].learner
    assert set(learner.items) == seen.keys()
    assert len(learner._slots) < 16, "slots are reused"


def test_items_offered_by_all_calls_are_kept(harness):
    for _ in range(20):
        harness.rank("q", ITEMS)
        harness.advance(400)
    assert set(harness.state.queries["default", "q"].seen) == set(ITEMS)


def test_an_impression_that_waits_longer_than_its_items_are_kept(harness):
    """The service was down at the end of the window; when it is back, a request comes before the end is recorded."""
    harness.rank("q", ITEMS, "old")
    harness.clock.now += 5000
    harness.rank("q", ["x", "y"], "new")
    harness.end_feedback_windows()
    assert harness.info().steps == 1
    assert harness.info().pending == 1


def test_shorter_rankings(harness):
    assert len(harness.shown("q", ITEMS, k=1)) == 1
    assert len(harness.shown("q", ITEMS, k=3)) == 3
    assert len(harness.shown("q", ["a"])) == 1
    for k in (0, -1, 4, 10**30):
        with harness.refused(422, "k="):
            harness.rank("q", ITEMS, k=k)


def test_excluded_items(harness):
    assert set(harness.shown("q", ITEMS, excluded=["a", "b", "nobody", 7])) == {"c", "d", "e"}
    with harness.refused(422, "at least one that is not excluded"):
        harness.rank("q", ["a"], excluded=["a"])
    with harness.refused(422, "at least one that is not excluded"):
        harness.rank("q", [])


def test_pinned_items(harness):
    answer = harness.rank("q", ["a", "b", "c", 7, 8], "e", pinned={"7": 1, "c": 3})
    assert [item.id for item in answer.items][::2] == [7, "c"]
    assert [item.why == "pinned" for item in answer.items] == [True, False, True]
    assert [item.position for item in answer.items] == [1, 2, 3]
    assert harness.outcome("e", [Clicked(7)]) == "counted"
    assert harness.shown("q", [7, "7", 8], pinned={"7": 2})[1] == "7", "a string is the item with that string"
    assert harness.shown("q", ["a", "b"], pinned={"b": 1, "a": 2}) == ["b", "a"], "all of them"
    for pinned, says in (
        ({"x": 1}, "'x' is not among the items"),
        ({"a": 0}, "position 0"),
        ({"a": 4}, "position 4"),
        ({"a": 1, "b": 1}, "two items at position 1"),
    ):
        with harness.refused(422, says):
            harness.rank("q", ITEMS, pinned=pinned)
    with harness.refused(422, "or is excluded"):
        harness.rank("q", ITEMS, pinned={"a": 1}, excluded=["a"])


@pytest.mark.parametrize(
    "policy",
    ["BubbleRank:horizon=1000", "RankedEXP3", "CascadeSoftmax", "TopRank:horizon=1000", "BatchRank:horizon=1000"],
)
def test_pinned_items_and_policies_with_memos(tmp_path, policy):
    with Harness(tmp_path, policy) as harness:
        for n in range(30):
            shown = harness.shown(
                "q",
                ITEMS,
                f"e:{n}",
                pinned={"a": 1 + n % 3} if n % 2 else {},
                k=1 + n % 3 if n % 5 == 0 and not n % 2 else None,
            )
            assert harness.outcome(f"e:{n}", shown[:1]) == "counted"
        assert harness.info().steps == 30
        assert not differences(harness.dump(), harness.dump_of_log())


def test_the_same_event_id_is_the_same_ranking(harness):
    first = harness.rank("q", ITEMS, "once")
    for n in range(40):  # the learner moves on
        shown = harness.shown("q", ITEMS, f"e:{n}")
        harness.feedback(f"e:{n}", shown[-1:])
    assert harness.rank("q", ITEMS, "once") == first
    assert harness.rank("q", ITEMS, "once", pinned={"a": 1}) == first, "whatever else is in the request"
    harness.recover()
    assert harness.rank("q", ITEMS, "once") == first
    harness.restart()
    assert harness.rank("q", ITEMS, "once") == first
    harness.reset()
    assert harness.rank("q", ITEMS, "once").items == first.items
    with harness.refused(409, "used for another query"):
        harness.rank("p", ITEMS, "once")
    assert harness.info().lists == 0
    assert sum(isinstance(record, Ranked) for _, record in harness.log()) == 41


def test_concurrent_requests_with_one_event_id(harness):
    async def many() -> Any:
        return await asyncio.gather(
            *[harness.service.rank("default", [RankRequest("q", ITEMS, event_id="e")]) for _ in range(50)]
        )

    answers = harness.run(many())
    assert all(answer == answers[0] for answer in answers)
    assert harness.info().lists == 1

    async def others() -> Any:
        requests = [RankRequest("q", ITEMS, event_id="f"), RankRequest("p", ITEMS, event_id="f")]
        requests.append(RankRequest("q", ITEMS[:2], event_id="f"))
        calls = [harness.service.rank("default", [request]) for request in requests]
        return await asyncio.gather(*calls, return_exceptions=True)

    good, *bad = harness.run(others())
    assert good[0].event_id == "f"
    assert [error.status for error in bad] == [409, 409]


def test_an_impression_that_the_log_has_forgotten(tmp_path):
    """Its event id may be used again, even if its end is still in the log, or it is still in memory."""
    with Harness(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as harness:
        first = harness.rank("q", ITEMS, "e")
        harness.advance(600)
        harness.rank("q", ITEMS, "other")
        harness.feedback("e", [1])
        harness.advance(1201)
        harness.checkpoint()
        harness.forget_old()
        assert not [record for _, record in harness.log() if isinstance(record, Ranked) and record.event_id == "e"]
        assert harness.rank("q", ITEMS, "e") == first, "still in memory"
        assert harness.info().pending == 0
        harness.recover()
        harness.rank("q", ITEMS, "e")
        assert harness.info().pending == 1
        assert harness.outcome("e", [2]) == "counted"
        assert harness.outcome("e", [2]) == "duplicate"
        assert harness.info().pending == 0
        harness.rank("q", ITEMS, "f")
        harness.advance(2000)
        assert harness.info().pending == 0


def test_arrays_of_requests(harness):
    answers = harness.run(harness.service.rank("default", [RankRequest(f"q{n}", ITEMS) for n in range(5)]))
    assert len({answer.event_id for answer in answers}) == 5
    with harness.refused(422, "request 2 of 2: k=9"):
        harness.run(harness.service.rank("default", [RankRequest("q", ITEMS), RankRequest("q", ITEMS, k=9)]))
    assert harness.info().lists == 5, "one bad request rejects all"
    for requests in ([], [RankRequest("q", ITEMS)] * 1001):
        with harness.refused(422, "must be from 1 to 1000"):
            harness.run(harness.service.rank("default", requests))


def test_limits(harness):
    for request, says in (
        (RankRequest("q" * 513, ITEMS), "513 characters"),
        (RankRequest("q", list(range(1001))), "1001, at most 1000"),
        (RankRequest("q", ["a", "b", "a"]), "'a' occurs twice"),
        (RankRequest("q", ["", "b"]), "an id of 0 characters"),
        (RankRequest("q", ["x" * 257]), "257 characters"),
        (RankRequest("q", [2**63]), "64 bits"),
        (RankRequest("q", ITEMS, event_id=""), "event_id"),
        (RankRequest("q", ITEMS, event_id="x" * 257), "event_id"),
    ):
        with harness.refused(422, says):
            harness.run(harness.service.rank("default", [request]))
    assert harness.info().lists == 0
    assert len(harness.shown("", ["x" * 256, -(2**63), 2**63 - 1])) == 3
    with harness.refused(404, "no such ranker"):
        harness.rank("q", ITEMS, ranker="nobody")


# -- arms --------------------------------------------------------------------------------------------------------------


def test_holdout_depends_on_the_event_id_and_has_the_right_share(tmp_path):
    with Harness(tmp_path, ranker={"holdout": 0.25}) as harness:
        answers = harness.run(
            harness.service.rank(
                "default", [RankRequest("q", ITEMS, event_id=f"id{n}", baseline=["e", "d"]) for n in range(1000)]
            )
        )
        held = [answer for answer in answers if all(item.why == "baseline" for item in answer.items)]
        assert 200 < len(held) < 300
        assert {tuple(item.id for item in answer.items) for answer in held} == {("e", "d", "a")}
        for answer in held[:20]:
            assert harness.outcome(answer.event_id, [1]) == "holdout"
        assert (harness.info().steps, harness.info().clicks) == (0, 0)
    (tmp_path / "other").mkdir()
    with Harness(tmp_path / "other", ranker={"holdout": 0.25}) as harness:
        again = [n for n in range(200) if harness.rank("q", ITEMS, f"id{n}").items[0].why == "baseline"]
        assert again == [n for n in range(200) if answers[n] in held]


def test_shadow_shows_the_baseline_and_learns(tmp_path):
    with Harness(tmp_path, ranker={"mode": "shadow"}) as harness:
        for n in range(50):
            assert harness.shown("q", ITEMS, f"e:{n}", baseline=["c", "x", "b"]) == ["c", "b", "a"]
            assert harness.outcome(f"e:{n}", ["b"]) == "counted"
        assert {item.why for item in harness.rank("q", ITEMS).items} == {"baseline"}
        assert harness.shown("q", ITEMS) == ["a", "b", "c"], "the items as given"
        believed = {item.id: item.estimate for item in harness.query("q").items}
        assert believed["b"] > believed["c"]
        how = {"policy": "CascadeUCB1", "k": 3}
        harness.put(**how)  # live: what was learnt stays
        assert harness.info().steps == 50


def test_safe_stays_near_the_baseline(tmp_path):
    with Harness(tmp_path, None) as harness:
        harness.put("careful", mode="safe", k=3)
        assert harness.rank("p", ITEMS, ranker="careful").policy.startswith("BubbleRank:")
        baseline = ["d", "b", "e", "a", "c"]
        for n in range(20):
            shown = harness.shown("q", ITEMS, f"e:{n}", "careful", baseline=baseline)
            # items from below are tried at the last position
            assert all(abs(baseline.index(item) - place) <= 1 for place, item in enumerate(shown[:2]))
            harness.feedback(f"e:{n}", [], "careful")


# -- features ----------------------------------------------------------------------------------------------------------


def described(values: dict[Any, list[float]]) -> list[Item]:
    return [Item(id_, row) for id_, row in values.items()]


@pytest.fixture
def contextual(tmp_path):
    with Harness(tmp_path, LINEAR, ranker={"k": 2, "wait": 100, "forget_items": 100}) as harness:
        yield harness
        assert not differences(harness.dump(), harness.dump_of_log())
        harness.recover()
        assert not differences(harness.dump(), harness.dump_of_log())


def test_changing_features(contextual):
    chance = random.Random(3)
    for n in range(40):
        items = {id_: [chance.random(), chance.random()] for id_ in chance.sample("abcdef", chance.randint(1, 5))}
        shown = contextual.shown("q", described(items), f"e:{n}")
        assert contextual.outcome(f"e:{n}", shown[:1]) == "counted"
        contextual.advance(chance.choice([0, 1, 40]))


def test_features_that_do_not_fit(contextual):
    good = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    contextual.rank("q", described(good))
    for items, says in (
        ([Item("a", [1.0, 2.0]), "b"], "for all items or for none"),
        (described({"a": [1.0], "b": [2.0]}), "vectors of 2 numbers"),
        (described({"a": [1.0, 2.0], "c": [2.0]}), "features: 1 of one item and 2 of another"),
        (described({"a": [], "b": []}), "features"),
        (described({"a": [1e300, 0.0], "b": [0.0, 1.0]}), "features"),
        (described({"a": [float("inf"), 0.0], "b": [0.0, 1.0]}), "finite"),
        (["a", "new"], "features"),
    ):
        with contextual.refused(422, says):
            contextual.rank("q", items)
    assert set(contextual.shown("q", ["a", "b"])) == {"a", "b"}, "known items, with their last features"
    assert contextual.info().lists == 2
    contextual.reset("q")
    contextual.rank("q", described({"a": [1.0, 2.0, 3.0]}))


def test_without_features(contextual):
    assert len(contextual.shown("q", ITEMS, "e")) == 2
    assert contextual.outcome("e", [1]) == "counted"
    with contextual.refused(422, "features"):
        contextual.rank("q", described({"a": [1.0]}))
    with contextual.refused(422, "features: must be given for more than 64 items"):
        contextual.rank("p", list(range(100)))


def test_first_impressions_with_different_features_at_the_same_time(contextual):
    async def both() -> Any:
        calls = [
            described({"a": [1.0, 0.0]}), described({"b": [1.0]}), ["c"], described({"d": [1.0, 2.0]}),
        ]  # fmt: skip
        requests = [RankRequest("q", items, event_id=f"e{n}") for n, items in enumerate(calls)]
        return await asyncio.gather(*[contextual.service.rank("default", [request]) for request in requests])

    answers = contextual.run(both())
    assert [answer[0].items[0].id for answer in answers] == ["a", "b", "c", "d"]
    for n in range(4):
        contextual.feedback(f"e{n}", [1])
    contextual.checkpoint()
    assert contextual.shown("q", described({"a": [0.0, 1.0], "e": [1.0, 0.0]})) in (["a", "e"], ["e", "a"])


def test_an_old_log_for_a_query_with_features(contextual):
    contextual.rank("q", described({"a": [1.0, 0.0], "b": [0.0, 1.0]}))
    good = WarmRow("q", described({"b": [0.0, 1.0], "new": [0.5, 0.5]}), [1])
    for row, says in (
        (WarmRow("q", ["a", "other"], [1]), "features: must be given, as for the other items"),
        (WarmRow("q", described({"new": [0.0, 1.0, 2.0]})), "features"),
        (WarmRow("q", described({"a": [0.0, 1.0], "b": [1.0]})), "features: 1 of one item and 2 of another"),
        (WarmRow("q", [Item("a", [0.0, 1.0]), "b"]), "features: must be given for all items or for none"),
        (WarmRow("q", described({"a": [0.0, float("nan")]})), "features: must be finite numbers"),
    ):
        with contextual.refused(422, f"row 2: {says}"):
            contextual.warmstart([good, row])
    assert contextual.info().steps == 0, "all or none"
    assert contextual.warmstart([good, WarmRow("fresh", ["x", "y"], [2])]).counted == 2
    learner = contextual.state.query(contextual.state.rankers["default"], "q").learner
    own = parse_policy(LINEAR).start(["a", "b"], 2, features=[[1.0, 0.0], [0.0, 1.0]], query="q", slots=2)
    own.add_items(["new"], features=[[0.5, 0.5]])
    own.update(["b", "new"], [1, 0], now=contextual.clock.now)
    assert own.to_bytes() == learner.to_bytes()
    assert (contextual.info().steps, contextual.info().clicks) == (2, 2)
    contextual.checkpoint()
    contextual.recover()
    assert (contextual.info().steps, contextual.info().clicks) == (2, 2)
    assert contextual.shown("q", described({"a": [1.0, 0.0]})) == ["a"]


def test_features_of_an_old_log_for_a_policy_without_features(tmp_path):
    with Harness(tmp_path) as harness:
        assert harness.warmstart([WarmRow("q", described({"a": [1.0], "b": [2.0, 3.0]}), [1])]).counted == 1
        assert harness.query("q").clicks == 1


def test_an_old_log_for_many_positions_without_features(tmp_path):
    with Harness(tmp_path, LINEAR, ranker={"k": 2}) as harness:
        harness.put("long", policy=LINEAR, k=100)
        with harness.refused(422, "row 1: features: must be given for more than 64 items"):
            harness.warmstart([WarmRow("q", ["a", "b"], [1])], ranker="long")
        harness.recover()
        assert len(harness.shown("q", described({"a": [1.0], "b": [0.0]}), ranker="long")) == 2


def test_candidates_that_vanish_before_the_end_of_an_impression(contextual):
    contextual.rank("q", described({id_: [1.0, float(n)] for n, id_ in enumerate("abcdef")}), "old")
    contextual.clock.now += 90
    contextual.rank("q", described({"a": [0.5, 0.5]}))
    contextual.clock.now += 500  # the service was down
    contextual.rank("q", described({"a": [0.5, 0.5], "z": [1.0, 1.0]}))
    contextual.end_feedback_windows()
    assert contextual.info().steps == 2
    contextual.checkpoint()


# -- feedback ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feedback", "clicks"),
    [
        ([7], [3]), (["second"], [2]), ([{"id": 7}], [3]), ([{"position": 1}, "second"], [1, 2]), ([], []), (None, []),
        ([{"position": 1}, {"position": 1}, "first"], [1]), ([7, {"position": 1}], [1, 3]),
    ],
)  # fmt: skip
def test_clicks_by_id_and_by_position(tmp_path, feedback, clicks):
    with Harness(tmp_path, ranker={"mode": "shadow"}) as harness:
        harness.rank("q", ["first", "second", 7], "e")
        given = None if feedback is None else [Clicked(**c) if isinstance(c, dict) else c for c in feedback]
        (result,) = harness.run(harness.service.feedback("default", [Feedback("e", given)]))
        assert (result.outcome, result.clicks) == ("counted", len(clicks))
        (final,) = [record for _, record in harness.log() if isinstance(record, Final)]
        assert (final.clicks, final.how, final.shown) == (clicks, "feedback", None)


def test_a_ranking_taken_back_before_it_is_known(tmp_path):
    """The request may still be queued somewhere when its caller has given up."""
    with Harness(tmp_path, ranker={"wait": 100, "forget_items": 1000}) as harness:
        for n, between in enumerate([lambda: None, harness.recover, harness.restart, harness.checkpoint]):
            assert harness.outcome(f"e{n}", shown=0) == "withdrawn"
            between()
            assert harness.outcome(f"e{n}", shown=0) == "withdrawn"
            assert len(harness.shown("q", ITEMS, f"e{n}")) == 3
            assert (harness.outcome(f"e{n}", [1]), harness.outcome(f"e{n}", shown=0)) == ("refused", "withdrawn")

        async def at_once(event: str, *, late: bool) -> None:
            calls = [
                lambda: harness.service.rank("default", [RankRequest("q", ITEMS, event_id=event)]),
                lambda: harness.service.feedback("default", [Feedback(event, shown=0)]),
            ]
            await asyncio.gather(*[call() for call in (calls if late else calls[::-1])])

        for event, late in (("before", False), ("after", True)):
            harness.run(at_once(event, late=late))
            assert harness.outcome(event, [1]) == "refused"
        assert harness.outcome("too early", shown=0) == "withdrawn"
        harness.advance(101)
        harness.rank("q", ITEMS, "too early")
        harness.advance(101)
        info = harness.info()
        assert (info.lists, info.steps, info.pending) == (7, 1, 0), "an id is remembered for the feedback window"
        harness.outcome("other", shown=0)
        assert list(harness.state.rankers["default"].withdrawn) == ["other"]
        assert not differences(harness.dump(), harness.dump_of_log())


def test_killed_before_the_withdrawal_is_settled(tmp_path, monkeypatch):
    with Harness(tmp_path, ranker={"wait": 100, "forget_items": 1000}) as harness:
        harness.feedback("e", shown=0)

        async def killed(*_: object) -> None: ...

        with monkeypatch.context() as patch:
            patch.setattr("driftrank.serve.requests.rank.take_back", killed)
            harness.rank("q", ITEMS, "e")
        harness.recover()
        assert harness.info().pending == 1
        harness.advance(101)
        assert (harness.info().pending, harness.info().steps) == (0, 0)
        assert harness.outcome("e", shown=0) == "withdrawn"


def test_clicks_that_were_collected_are_not_taken_back(tmp_path):
    with Harness(tmp_path, ranker={"second_click": "update", "wait": 100}) as harness:
        for event in "ef":
            harness.rank("q", ITEMS, event)
        harness.feedback("e", [2])
        assert harness.outcome("e", shown=0) == "refused"
        assert harness.outcome("f", shown=0) == "withdrawn"
        assert harness.outcome("f", [2]) == "refused"
        harness.advance(101)
        assert (harness.info().steps, harness.info().clicks) == (1, 1)
        assert harness.outcome("e", shown=0) == "refused"


def test_malformed_feedback(harness):
    harness.rank("q", ITEMS, "e")
    for clicks, shown, says in (
        ([0], None, "position 0"), ([4], None, "position 4"), ([-1], None, "position -1"), (["z"], None, "'z' is not"),
        ([10**30], None, "position"), ([3], 2, "only 2 items were shown"), ([], -1, "shown=-1"), ([], 4, "shown=4"),
    ):  # fmt: skip
        with harness.refused(422, says):
            harness.feedback("e", clicks, shown=shown)
    with harness.refused(422, "event_id"):
        harness.feedback("x" * 300, [])
    with harness.refused(422, "feedback 2 of 2"):
        harness.run(harness.service.feedback("default", [Feedback("e", [1]), Feedback("e", [9])]))
    assert harness.info().pending == 1
    assert harness.info().steps == 0
    assert harness.service.metrics.count("feedback", ("default", "malformed")) == 10


def test_repeated_and_contradicting_feedback(harness):
    harness.rank("q", ITEMS, "e")
    assert harness.feedback("e", [2]).outcome == "counted"
    again = harness.feedback("e", [2], shown=3, time="whenever")
    assert (again.outcome, again.clicks) == ("duplicate", 1)
    other = harness.feedback("e", [1])
    assert (other.outcome, other.clicks) == ("refused", 1)
    assert harness.outcome("e", [2], shown=2) == "refused"
    assert (harness.info().steps, harness.info().clicks) == (1, 1)
    harness.recover()
    assert harness.outcome("e", [2]) == "duplicate"


def test_collected_clicks(tmp_path):
    with Harness(tmp_path, ranker={"second_click": "update", "wait": 100}) as harness:
        harness.rank("q", ITEMS, "e")
        assert harness.feedback("e", [2]).clicks == 1
        second = harness.feedback("e", [3])
        assert (second.outcome, second.clicks) == ("collected", 2)
        assert harness.outcome("e", [3]) == "duplicate"
        harness.recover()
        assert harness.outcome("e", [3]) == "duplicate"
        assert harness.info().steps == 0
        harness.advance(99)
        assert harness.outcome("e", []) == "collected"
        harness.advance(1)
        assert (harness.info().steps, harness.info().clicks, harness.info().pending) == (1, 2, 0)
        assert harness.outcome("e", [1]) == "refused"


@pytest.mark.parametrize(
    "order",
    [[([3], None), ([], 2)], [([], 2), ([3], None)], [([1], 1), ([2], 2)], [([], 1), ([], 2)], [([2], 2), ([1], 1)]],
)
def test_the_number_of_items_shown_is_collected_too(tmp_path, order):
    with Harness(tmp_path, ranker={"second_click": "update", "wait": 100}) as harness:
        harness.rank("q", ITEMS, "e")
        for clicks, shown in order:
            harness.feedback("e", clicks, shown=shown)
        harness.advance(100)
        (final,) = [record for _, record in harness.log() if isinstance(record, Final)]
        assert final.clicks == sorted({click for clicks, _ in order for click in clicks})
        assert final.shown == (None if any(shown is None for _, shown in order) else 2)
        assert harness.info().steps == 1


def test_collected_clicks_when_the_settings_change(tmp_path):
    with Harness(tmp_path, ranker={"second_click": "update", "wait": 100}) as harness:
        harness.rank("q", ITEMS, "e")
        harness.feedback("e", [1])
        harness.put(policy="CascadeUCB1", k=3, wait=100)
        assert harness.outcome("e", [2]) == "collected"
        harness.advance(100)
        assert (harness.info().steps, harness.info().clicks) == (1, 2)


def test_arrays_of_feedback(harness):
    for n in range(3):
        harness.rank("q", ITEMS, f"e{n}")
    harness.feedback("e0", [1])
    sent = [
        Feedback("e0", [1]),
        Feedback("e1", [2]),
        Feedback("e1", [2]),
        Feedback("nobody"),
        Feedback("e1", [1]),
        Feedback("e2"),
    ]
    results = harness.run(harness.service.feedback("default", sent))
    assert [result.event_id for result in results] == [feedback.event_id for feedback in sent]
    assert [result.outcome for result in results] == [
        "duplicate",
        "counted",
        "duplicate",
        "orphan",
        "refused",
        "counted",
    ]
    assert harness.info().steps == 3


def test_feedback_after_a_reset_is_forgotten(harness):
    for n in range(4):
        harness.rank("q", ITEMS, f"e{n}")
    harness.reset("q")
    assert harness.outcome("e0", [1]) == "forgotten"
    harness.reset("q", gone=True)
    assert harness.outcome("e1", [1]) == "forgotten"
    harness.rank("q", ITEMS)
    assert harness.outcome("e2", [1]) == "forgotten"
    harness.reset()
    assert harness.outcome("e3", [1]) == "forgotten"
    assert harness.outcome("e3", [1]) == "duplicate"
    assert harness.info().steps == 0


def test_feedback_on_an_impression_of_another_ranker_is_an_orphan(harness):
    harness.put("other", policy="CascadeUCB1", k=3)
    harness.rank("q", ITEMS, "e")
    assert harness.outcome("e", [1], "other") == "orphan"
    harness.rank("q", ITEMS, "e", "other")
    assert harness.outcome("e", [1], "other") == "counted"
    assert harness.outcome("e", [1]) == "counted"


def test_a_ranker_created_again_shares_nothing_with_the_first(harness):
    how = {"policy": "CascadeUCB1", "k": 3, "wait": 100, "forget_items": 1000}
    harness.rank("q", ["secret1", "secret2"], "e")
    harness.delete("default")
    harness.put(**how)
    assert harness.outcome("e", [1]) == "orphan"
    assert harness.shown("other", ITEMS[:1], "e") == ["a"]
    assert harness.names() == ["other"]
    harness.recover()
    assert harness.outcome("e", [1]) == "counted"


def test_deferred_impressions(harness):
    harness.rank("q", ITEMS, "e", defer=True)
    assert harness.outcome("e", [1]) == "inactive"
    harness.advance(10_000)
    assert harness.info().pending == 0
    assert harness.activate("e").outcome == "activated"
    assert harness.activate("e").outcome == "duplicate"
    assert harness.info().pending == 1
    harness.recover()
    harness.advance(99)
    assert harness.outcome("e", [1]) == "counted"
    harness.rank("q", ITEMS, "f")
    assert harness.activate("f").outcome == "duplicate", "it was not deferred"
    with harness.refused(404, "no ranking has it"):
        harness.activate("nobody")
    harness.put("other", policy="CascadeUCB1", k=3)
    for ranker in ("default", "other"):
        harness.rank("q", ITEMS, "both", ranker, defer=True)
    with harness.refused(409, "several rankers"):
        harness.run(harness.service.activate("both", ["default", "other", "nobody"]))


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silence", "steps"), [("no_click", 1), ("drop", 0)])
def test_silence(tmp_path, silence, steps):
    with Harness(tmp_path, ranker={"wait": 100, "silence": silence}) as harness:
        harness.rank("q", ITEMS, "e")
        harness.advance(99)
        assert harness.info().pending == 1
        harness.recover()  # the window stays open
        assert harness.info().pending == 1
        harness.advance(1)
        assert (harness.info().pending, harness.info().steps, harness.info().clicks) == (0, steps, 0)
        assert harness.outcome("e", [1]) == "late"
        assert harness.outcome("e", []) == "late"
        believed = harness.query("q").items
        assert sorted(item.samples for item in believed) == ([0, 0, 1, 1, 1] if steps else [0] * 5), "all were examined"


def test_feedback_after_the_window_but_before_its_end_is_recorded(harness):
    harness.rank("q", ITEMS, "e")
    harness.clock.now += 100
    assert harness.outcome("e", [1]) == "late"
    harness.end_feedback_windows()
    assert (harness.info().steps, harness.info().clicks) == (1, 0)


def test_quiet_traffic(tmp_path):
    """Feedback windows end without any request."""
    with Harness(tmp_path, ranker={"wait": 1}) as harness:
        harness.rank("q", ITEMS, "e")

        async def wait() -> None:
            harness.clock.now += 1
            while harness.info().pending:
                await asyncio.sleep(0.01)

        harness.run(asyncio.wait_for(wait(), 30))
        assert harness.info().steps == 1


def test_a_clock_that_is_set_back(harness):
    harness.rank("q", ITEMS, "e")
    harness.clock.now -= 1_000_000
    harness.rank("q", ITEMS, "f")
    assert harness.outcome("e", [1]) == "counted"
    times = [record.time for _, record in harness.log()]
    assert times == sorted(times)
    harness.recover()
    harness.clock.now += 1_000_050
    harness.rank("q", ITEMS, "g")
    harness.advance(50)
    assert harness.info().pending == 1, "f has ended, g has not"


def test_a_clock_that_is_set_back_between_two_requests_of_one_commit(harness):
    async def both() -> None:
        first = asyncio.ensure_future(harness.service.rank("default", [RankRequest("q", ITEMS)]))
        await asyncio.sleep(0)
        harness.clock.now -= 500
        await asyncio.gather(first, harness.service.rank("default", [RankRequest("q", ITEMS)]))

    harness.run(both())
    times = [record.time for _, record in harness.log()]
    assert times == sorted(times)


def test_a_state_from_a_machine_whose_clock_is_ahead(tmp_path):
    policy = "CascadeDUCB:half_life=1m"
    with Harness(tmp_path, policy) as harness:
        harness.clock.now += 1_000_000
        for n in range(20):
            harness.rank("q", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [1])
        states = harness.export()
    (tmp_path / "other").mkdir()
    with Harness(tmp_path / "other", policy) as harness:
        harness.import_(states)
        for n in range(20):
            harness.rank("q", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [1])
        state = harness.query("q")
        assert all(item.estimate is not None and 0 <= item.estimate <= 1 for item in state.items), state
        assert all(item.samples is not None and 0 <= item.samples <= 200 for item in state.items), state


# -- rankers -----------------------------------------------------------------------------------------------------------


def test_settings_that_keep_what_was_learnt(harness):
    how = {"policy": "CascadeUCB1", "k": 3, "wait": 100, "forget_items": 1000}
    harness.rank("q", ITEMS, "e")
    harness.feedback("e", [1])
    changes = [{"mode": "shadow"}, {"holdout": 0.5}, {"wait": 50}, {"silence": "drop"}, {"context": ["x"]}]
    for change in [*changes, {"k": 4}, {"k": 2}]:
        assert harness.put(**how | change).steps == 1
    for change in ({"seed": 1}, {"horizon": 5}, {"policy": "CascadeUCB1:exploration=2"}):
        assert harness.put(**how | change).steps == 0
        assert harness.put(**how).queries == 0
        with harness.refused(404, "has no such query"):
            harness.query("q")
        harness.rank("q", ITEMS, str(change))
        harness.feedback(str(change), [1])
        assert harness.info().steps == 1


@pytest.mark.parametrize("policy", ["CascadeUCB1", "CascadeSWUCB:window=5", "PBMUCB", "PriorRegimeTS:hash_bits=6"])
@pytest.mark.parametrize("tiny", [False, True])
def test_k_changes_while_it_learns(tmp_path, policy, tiny):
    """Queries in memory and in snapshots, changed at once and later, and the log alone: the same state."""
    chance = random.Random(3)
    how = {"policy": policy, "wait": 100, "forget_items": 1000}
    with Harness(tmp_path, policy, tiny=tiny, ranker=how) as harness:
        for n in range(60):
            query = f"q{chance.randrange(4)}"
            harness.rank(query, "abcdefgh", f"e{n}")
            if n % 3:
                harness.feedback(f"e{n - chance.randrange(3)}", [1])
            if n % 7 == 0:
                harness.put(**how, k=chance.choice([1, 2, 5, 8]))
            if n % 11 == 0:
                harness.checkpoint()
            if tiny:
                harness.evict()
            if n % 17 == 0:
                harness.recover()
        assert harness.info().steps > 20
        harness.advance(101)
        assert harness.info().steps == 60
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_start_appends_no_records(tmp_path):
    with Harness(tmp_path) as harness:
        n = len(harness.log())
        harness.restart()
        harness.recover()
        assert len(harness.log()) == n
        assert sum(isinstance(record, RankerSet) for _, record in harness.log()) == n == 2


def test_nothing_is_accepted_before_the_replay_is_over(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("q", ITEMS, "e", defer=True)
        harness.service.ready = False
        for work in (
            harness.service.put_ranker("x", harness.state.rankers["default"].settings),
            harness.service.activate("e", ["default"]),
            harness.service.rank("default", [RankRequest("q", ITEMS)]),
            harness.service.feedback("default", [Feedback("e")]),
            harness.service.delete_ranker("default"),
            harness.service.reset("default"),
            harness.transfer.warmstart("default", [WarmRow("q", ["a"])], None),
            harness.transfer.import_("default", []),
        ):
            with harness.refused(503, "starting or stopping"):
                harness.run(work)
        harness.service.ready = True
        assert len(harness.log()) == 3


def test_bad_settings(harness):
    for settings, says in (
        ({"policy": "Nobody"}, "unknown policy"), ({"k": 0}, "k="), ({"wait": "soon"}, "wait"),
        ({"holdout": 1.0}, "holdout"), ({"policy": "StaticOracle"}, "oracle"), ({"keys": ["secret"]}, "keys"),
        ({"seed": -1}, "seed"), ({"mode": "safe", "policy": "CascadeUCB1"}, "BubbleRank"),
        ({"wait": "2h", "forget_items": "1h"}, "forget_items"),
    ):  # fmt: skip
        with harness.refused(422, says):
            harness.put(**settings)
    for name in ("", "a/b", "-x", "x" * 65, "ä"):
        with harness.refused(422, "ranker="):
            harness.put(name, policy="CascadeUCB1")


def test_names_of_queries_page_by_page(tmp_path):
    with Harness(tmp_path) as harness:
        names = sorted(["", "a", "ä", "a/b", "a b", "😀", *[f"n{n:03}" for n in range(150)]])
        harness.run(harness.service.rank("default", [RankRequest(name, ["x"]) for name in names]))
        harness.checkpoint()
        harness.reset()  # 156 outdated snapshots
        kept = [*names[100:], "fresh"]
        for tiny in (False, True):
            harness.run(harness.service.rank("default", [RankRequest(name, ["x"]) for name in kept]))
            got, after = [], None
            while page := harness.run(harness.introspection.names("default", after, 7)):
                assert len(page) == 7 or len(got) + len(page) == len(kept)
                got += page
                after = page[-1]
            assert got == sorted(kept)
            harness.service.maintenance._memory = 1
            harness.evict()
            assert not harness.state.queries, tiny


# -- identity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    others_are_slow(
        ["CascadeUCB1", "CascadeSWUCB:window=50", "CascadeTS", "CascadeRegimeTS", "RankedEXP3", "BatchRank"],
        ["CascadeSWUCB:window=50", "RankedEXP3"],
    ),
)
@pytest.mark.parametrize("tiny", [False, True])
def test_served_rankings_equal_those_of_the_library(tmp_path, spec, tiny):
    policy = parse_policy(spec)
    L, k, seed, horizon = 8, 3, 11, 1000
    learner = policy.start(list(range(L)), k, seed=seed, horizon=horizon, query="q")
    users = random.Random(7)
    with Harness(tmp_path, spec, tiny=tiny, ranker={"seed": seed, "horizon": horizon}) as harness:
        for t in range(1, 301 if not tiny else 61):
            answer = harness.rank("q", list(range(L)), f"x:{t}", draw=t)
            ranking = learner.rank()
            assert [item.id for item in answer.items] == list(ranking)
            assert answer.step == t
            clicks = [position for position, item in enumerate(ranking, 1) if users.random() < item / 20]
            vector = [int(position in clicks) for position in range(1, k + 1)]
            learner.update(ranking, vector)
            assert harness.outcome(f"x:{t}", [Clicked(position=click) for click in clicks]) == "counted"
            if tiny:
                harness.evict()
            if t % 25 == 0:
                harness.recover()


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["CascadeDUCB:half_life=5m", "CascadeTS", "RankedEXP3"])
def test_answers_do_not_depend_on_the_memory(tmp_path, policy):
    def answers(folder, tiny):
        folder.mkdir()
        chance = random.Random(4)
        out = []
        with Harness(folder, policy, tiny=tiny, ranker={"wait": 100, "forget_items": 100}) as harness:
            for n in range(120):
                query = f"q{chance.randrange(6)}"
                items = chance.sample(range(9), chance.randint(2, 9))
                out.append(harness.rank(query, items, f"e:{n}"))
                if chance.random() < 0.7:
                    out.append(harness.feedback(f"e:{chance.randint(0, n)}", [Clicked(position=1)]))
                if chance.random() < 0.1:
                    harness.advance(60)
                if chance.random() < 0.05:
                    harness.reset(query)
                if chance.random() < 0.05:
                    harness.checkpoint()
                if tiny:
                    harness.evict()
                    assert not harness.state.queries
                    if n % 20 == 0:
                        harness.recover()
            out.append({name: harness.query(name) for name in harness.names()})
        return out

    assert answers(tmp_path / "plenty", False) == answers(tmp_path / "tiny", True)


# -- a later version -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"k": 3, "wait": 100}])
def test_a_later_version_with_another_default_policy(tmp_path, monkeypatch, how):
    """A ranker with the default policy keeps the one it has learnt with; one created later has the new default."""
    settings = {"rankers": {"default": RankerSettings(**how)}} if how else {}
    with Harness.at(tmp_path, **settings) as harness:
        harness.rank("q", ["a", "b"], "e")
        harness.feedback("e", [1])
        first = harness.info().settings.policy
        harness.checkpoint()
    monkeypatch.setattr("driftrank.serve.settings.ranker.default_policy", lambda: parse_policy("CascadeUCB1"))
    with Harness.at(tmp_path, **settings) as harness:
        assert (harness.info().settings.policy, harness.info().steps) == (first, 1)
        harness.put(**how, holdout=0.5)
        assert (harness.info().settings.policy, harness.info().steps) == (first, 1)
        assert harness.put("new").settings.policy == "CascadeUCB1"
        assert harness.put(mode="safe").settings.policy.startswith("BubbleRank")
        assert harness.put(**how).settings.policy == "CascadeUCB1"
        harness.recover()
        assert harness.put("new", policy="CascadeTS").settings.policy == "CascadeTS"
        assert harness.put("new").settings.policy == "CascadeUCB1", "a policy that was named is not kept"
