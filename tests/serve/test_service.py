"""What the routes call: lists, feedback, silence, settings; with time in the test's hands."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from driftrank.policies.registry import parse_policy
from driftrank.serve.records import Final, Ranked, RankerSet
from driftrank.wire import Clicked, Feedback, Item, RankerSettings, RankRequest, WarmRow
from tests.serve.house import House, differences

ITEMS = ["a", "b", "c", "d", "e"]
LINEAR = "CascadeLinUCB"


@pytest.fixture
def house(tmp_path):
    with House(tmp_path, ranker={"wait": 100, "forget_items": 1000}) as house:
        yield house
        assert not differences(house.state(), house.folded_anew())
        before = house.state()
        house.recover()
        assert not differences(before, house.state())


# -- lists -------------------------------------------------------------------------------------------------------------


def test_candidates_differ_from_call_to_call(house):
    chance = random.Random(1)
    for n in range(60):
        items = chance.sample([*ITEMS, *range(5)], chance.randint(1, 8))
        shown = house.shown("q", items, f"e:{n}")
        assert len(shown) == min(3, len(items))
        assert set(shown) <= set(items)
        assert len(set(shown)) == len(shown)
        house.feedback(f"e:{n}", [shown[0]] if isinstance(shown[0], str) else [1])
    state = house.query("q")
    assert {item.id for item in state.items} == {*ITEMS, *range(5)}
    assert state.steps == state.lists == state.clicks == 60


def test_seven_and_the_text_seven_are_two_items(house):
    answer = house.rank("q", [7, "7", 8], "e")
    assert {(type(item.id), item.id) for item in answer.items} == {(int, 7), (str, "7"), (int, 8)}
    shown = [item.id for item in answer.items]
    assert house.feedback("e", ["7"]).clicks == 1
    (final,) = [record for _, record in house.log() if isinstance(record, Final)]
    assert final.clicks == [shown.index("7") + 1]


def test_vanished_items_are_forgotten_and_their_slots_used_again(house):
    house.rank("q", ITEMS)
    for n in range(50):
        house.pass_(300)
        house.rank("q", ["a", "b", f"new{n}"])
    seen = house.fold.queries["default", "q"].seen
    assert {"a", "b"} <= seen.keys()
    assert "c" not in seen
    assert len(seen) < 12
    learner = house.fold.queries["default", "q"].learner
    assert set(learner.items) == seen.keys()
    assert len(learner._slots) < 16, "slots are used again"


def test_items_that_all_calls_offer_stay(house):
    for _ in range(20):
        house.rank("q", ITEMS)
        house.pass_(400)
    assert set(house.fold.queries["default", "q"].seen) == set(ITEMS)


def test_a_list_that_waited_longer_than_its_items_were_kept(house):
    """The service was not there when the wait was over; when it is back, a list comes before the silence is noticed."""
    house.rank("q", ITEMS, "old")
    house.clock.now += 5000
    house.rank("q", ["x", "y"], "new")
    house.finalise()
    assert house.info().steps == 1
    assert house.info().pending == 1


def test_shorter_lists(house):
    assert len(house.shown("q", ITEMS, k=1)) == 1
    assert len(house.shown("q", ITEMS, k=3)) == 3
    assert len(house.shown("q", ["a"])) == 1
    for k in (0, -1, 4, 10**30):
        with house.refused(422, "k="):
            house.rank("q", ITEMS, k=k)


def test_excluded_items(house):
    assert set(house.shown("q", ITEMS, excluded=["a", "b", "nobody", 7])) == {"c", "d", "e"}
    with house.refused(422, "none to show"):
        house.rank("q", ["a"], excluded=["a"])
    with house.refused(422, "none to show"):
        house.rank("q", [])


def test_pinned_items(house):
    answer = house.rank("q", ["a", "b", "c", 7, 8], "e", pinned={"7": 1, "c": 3})
    assert [item.id for item in answer.items][::2] == [7, "c"]
    assert [item.why == "pinned" for item in answer.items] == [True, False, True]
    assert [item.position for item in answer.items] == [1, 2, 3]
    assert house.outcome("e", [Clicked(7)]) == "counted"
    assert house.shown("q", [7, "7", 8], pinned={"7": 2})[1] == "7", "a text means the text"
    assert house.shown("q", ["a", "b"], pinned={"b": 1, "a": 2}) == ["b", "a"], "all of them"
    for pinned, says in (
        ({"x": 1}, "'x' is not among the items"),
        ({"a": 0}, "position 0"),
        ({"a": 4}, "position 4"),
        ({"a": 1, "b": 1}, "two items at position 1"),
    ):
        with house.refused(422, says):
            house.rank("q", ITEMS, pinned=pinned)
    with house.refused(422, "or is excluded"):
        house.rank("q", ITEMS, pinned={"a": 1}, excluded=["a"])


@pytest.mark.parametrize(
    "policy",
    ["BubbleRank:horizon=1000", "RankedEXP3", "CascadeSoftmax", "TopRank:horizon=1000", "BatchRank:horizon=1000"],
)
def test_pinned_items_and_policies_that_remember_lists(tmp_path, policy):
    with House(tmp_path, policy) as house:
        for n in range(30):
            shown = house.shown(
                "q",
                ITEMS,
                f"e:{n}",
                pinned={"a": 1 + n % 3} if n % 2 else {},
                k=1 + n % 3 if n % 5 == 0 and not n % 2 else None,
            )
            assert house.outcome(f"e:{n}", shown[:1]) == "counted"
        assert house.info().steps == 30
        assert not differences(house.state(), house.folded_anew())


def test_the_same_event_id_is_the_same_list(house):
    first = house.rank("q", ITEMS, "once")
    for n in range(40):  # the learner moves on
        shown = house.shown("q", ITEMS, f"e:{n}")
        house.feedback(f"e:{n}", shown[-1:])
    assert house.rank("q", ITEMS, "once") == first
    assert house.rank("q", ["x"], "once", k=1) == first, "whatever else it says"
    house.recover()
    assert house.rank("q", ITEMS, "once") == first
    house.restart()
    assert house.rank("q", ITEMS, "once") == first
    house.reset()
    assert house.rank("q", ITEMS, "once").items == first.items
    with house.refused(409, "used for another query"):
        house.rank("p", ITEMS, "once")
    assert house.info().lists == 0
    assert sum(isinstance(record, Ranked) for _, record in house.log()) == 41


def test_the_same_event_id_by_many_at_once(house):
    async def many() -> Any:
        return await asyncio.gather(
            *[house.service.rank("default", [RankRequest("q", ITEMS[n % 3 :], event_id="e")]) for n in range(50)]
        )

    answers = house.run(many())
    assert all(answer == answers[0] for answer in answers)
    assert house.info().lists == 1

    async def others() -> Any:
        calls = [house.service.rank("default", [RankRequest(query, ITEMS, event_id="f")]) for query in "pq"]
        return await asyncio.gather(*calls, return_exceptions=True)

    good, bad = house.run(others())
    assert good[0].event_id == "f"
    assert bad.status == 409


def test_a_list_so_old_that_the_log_has_forgotten_it(tmp_path):
    """Its event id may be used again, also while what came of it is still in the log, or it is still in memory."""
    with House(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as house:
        first = house.rank("q", ITEMS, "e")
        house.pass_(600)
        house.rank("q", ITEMS, "other")
        house.feedback("e", [1])
        house.pass_(1201)
        house.checkpoint()
        house.forget_old()
        assert not [record for _, record in house.log() if isinstance(record, Ranked) and record.event == "e"]
        assert house.rank("q", ITEMS, "e") == first, "still in memory"
        assert house.info().pending == 0
        house.recover()
        house.rank("q", ITEMS, "e")
        assert house.info().pending == 1
        assert house.outcome("e", [2]) == "counted"
        assert house.outcome("e", [2]) == "duplicate"
        assert house.info().pending == 0
        house.rank("q", ITEMS, "f")
        house.pass_(2000)
        assert house.info().pending == 0


def test_arrays_of_requests(house):
    answers = house.run(house.service.rank("default", [RankRequest(f"q{n}", ITEMS) for n in range(5)]))
    assert len({answer.event_id for answer in answers}) == 5
    with house.refused(422, "request 2 of 2: k=9"):
        house.run(house.service.rank("default", [RankRequest("q", ITEMS), RankRequest("q", ITEMS, k=9)]))
    assert house.info().lists == 5, "a bad one among them, and none is made"
    for requests in ([], [RankRequest("q", ITEMS)] * 1001):
        with house.refused(422, "must be from 1 to 1000"):
            house.run(house.service.rank("default", requests))


def test_limits(house):
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
        with house.refused(422, says):
            house.run(house.service.rank("default", [request]))
    assert house.info().lists == 0
    assert len(house.shown("", ["x" * 256, -(2**63), 2**63 - 1])) == 3
    with house.refused(404, "there is none of this name"):
        house.rank("q", ITEMS, ranker="nobody")


# -- arms --------------------------------------------------------------------------------------------------------------


def test_holdout_is_by_event_id_and_about_as_large_as_it_should_be(tmp_path):
    with House(tmp_path, ranker={"holdout": 0.25}) as house:
        answers = house.run(
            house.service.rank(
                "default", [RankRequest("q", ITEMS, event_id=f"id{n}", baseline=["e", "d"]) for n in range(1000)]
            )
        )
        held = [answer for answer in answers if all(item.why == "baseline" for item in answer.items)]
        assert 200 < len(held) < 300
        assert {tuple(item.id for item in answer.items) for answer in held} == {("e", "d", "a")}
        for answer in held[:20]:
            assert house.outcome(answer.event_id, [1]) == "holdout"
        assert (house.info().steps, house.info().clicks) == (0, 0)
    (tmp_path / "other").mkdir()
    with House(tmp_path / "other", ranker={"holdout": 0.25}) as house:
        again = [n for n in range(200) if house.rank("q", ITEMS, f"id{n}").items[0].why == "baseline"]
        assert again == [n for n in range(200) if answers[n] in held]


def test_shadow_answers_the_baseline_and_learns(tmp_path):
    with House(tmp_path, ranker={"mode": "shadow"}) as house:
        for n in range(50):
            assert house.shown("q", ITEMS, f"e:{n}", baseline=["c", "x", "b"]) == ["c", "b", "a"]
            assert house.outcome(f"e:{n}", ["b"]) == "counted"
        assert {item.why for item in house.rank("q", ITEMS).items} == {"baseline"}
        assert house.shown("q", ITEMS) == ["a", "b", "c"], "the items as given"
        believed = {item.id: item.estimate for item in house.query("q").items}
        assert believed["b"] > believed["c"]
        how = {"policy": "CascadeUCB1", "k": 3}
        house.put(**how)  # live: what was learnt stays
        assert house.info().steps == 50


def test_safe_is_around_the_baseline(tmp_path):
    with House(tmp_path, None) as house:
        house.put("careful", mode="safe", k=3)
        assert house.rank("p", ITEMS, ranker="careful").policy.startswith("BubbleRank:")
        baseline = ["d", "b", "e", "a", "c"]
        for n in range(20):
            shown = house.shown("q", ITEMS, f"e:{n}", "careful", baseline=baseline)
            # at the last position items from below are tried
            assert all(abs(baseline.index(item) - place) <= 1 for place, item in enumerate(shown[:2]))
            house.feedback(f"e:{n}", [], "careful")


# -- features ----------------------------------------------------------------------------------------------------------


def described(values: dict[Any, list[float]]) -> list[Item]:
    return [Item(id_, row) for id_, row in values.items()]


@pytest.fixture
def contextual(tmp_path):
    with House(tmp_path, LINEAR, ranker={"k": 2, "wait": 100, "forget_items": 100}) as house:
        yield house
        assert not differences(house.state(), house.folded_anew())
        house.recover()
        assert not differences(house.state(), house.folded_anew())


def test_features_that_change_from_call_to_call(contextual):
    chance = random.Random(3)
    for n in range(40):
        items = {id_: [chance.random(), chance.random()] for id_ in chance.sample("abcdef", chance.randint(1, 5))}
        shown = contextual.shown("q", described(items), f"e:{n}")
        assert contextual.outcome(f"e:{n}", shown[:1]) == "counted"
        contextual.pass_(chance.choice([0, 1, 40]))


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
    assert set(contextual.shown("q", ["a", "b"])) == {"a", "b"}, "those known, as they were described last"
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


def test_first_lists_with_other_features_at_the_same_time(contextual):
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
    learner = contextual.fold.query(contextual.fold.rankers["default"], "q").learner
    own = parse_policy(LINEAR).start(["a", "b"], 2, features=[[1.0, 0.0], [0.0, 1.0]], query="q", slots=2)
    own.add_items(["new"], features=[[0.5, 0.5]])
    own.update(["b", "new"], [1, 0], now=contextual.clock.now)
    assert own.to_bytes() == learner.to_bytes()
    assert (contextual.info().steps, contextual.info().clicks) == (2, 2)
    contextual.checkpoint()
    contextual.recover()
    assert (contextual.info().steps, contextual.info().clicks) == (2, 2)
    assert contextual.shown("q", described({"a": [1.0, 0.0]})) == ["a"]


def test_features_of_an_old_log_for_a_policy_that_looks_at_none(tmp_path):
    with House(tmp_path) as house:
        assert house.warmstart([WarmRow("q", described({"a": [1.0], "b": [2.0, 3.0]}), [1])]).counted == 1
        assert house.query("q").clicks == 1


def test_an_old_log_for_many_positions_without_features(tmp_path):
    with House(tmp_path, LINEAR, ranker={"k": 2}) as house:
        house.put("long", policy=LINEAR, k=100)
        with house.refused(422, "row 1: features: must be given for more than 64 items"):
            house.warmstart([WarmRow("q", ["a", "b"], [1])], ranker="long")
        house.recover()
        assert len(house.shown("q", described({"a": [1.0], "b": [0.0]}), ranker="long")) == 2


def test_candidates_that_vanish_before_the_end_of_a_list(contextual):
    contextual.rank("q", described({id_: [1.0, float(n)] for n, id_ in enumerate("abcdef")}), "old")
    contextual.clock.now += 90
    contextual.rank("q", described({"a": [0.5, 0.5]}))
    contextual.clock.now += 500  # the service was away
    contextual.rank("q", described({"a": [0.5, 0.5], "z": [1.0, 1.0]}))
    contextual.finalise()
    assert contextual.info().steps == 2
    contextual.checkpoint()


# -- feedback ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "clicks"),
    [
        ([1], [1]), ([3], [3]), (["second"], [2]), ([{"id": 7}], [3]), ([1, "second"], [1, 2]), ([1, 1, "first"], [1]),
        ([], []), (None, []), ([3, 1], [1, 3]),
    ],
)  # fmt: skip
def test_clicks_by_id_and_by_position(tmp_path, said, clicks):
    with House(tmp_path, ranker={"mode": "shadow"}) as house:
        house.rank("q", ["first", "second", 7], "e")
        given = None if said is None else [Clicked(**click) if isinstance(click, dict) else click for click in said]
        result = house.feedback("e", given)
        assert (result.outcome, result.clicks) == ("counted", len(clicks))
        (final,) = [record for _, record in house.log() if isinstance(record, Final)]
        assert (final.clicks, final.how, final.shown) == (clicks, "feedback", None)


def test_feedback_that_means_nothing(house):
    house.rank("q", ITEMS, "e")
    for clicks, shown, says in (
        ([0], None, "position 0"), ([4], None, "position 4"), ([-1], None, "position -1"), (["z"], None, "'z' is not"),
        ([10**30], None, "position"), ([3], 2, "only 2 items were shown"), ([], 0, "shown=0"), ([], 4, "shown=4"),
    ):  # fmt: skip
        with house.refused(422, says):
            house.feedback("e", clicks, shown=shown)
    with house.refused(422, "event_id"):
        house.feedback("", [])
    with house.refused(422, "feedback 2 of 2"):
        house.run(house.service.feedback("default", [Feedback("e", [1]), Feedback("e", [9])]))
    assert house.info().pending == 1
    assert house.info().steps == 0
    assert house.service.metrics.count("feedback", ("default", "malformed")) == 10


def test_the_same_twice_and_another(house):
    house.rank("q", ITEMS, "e")
    assert house.feedback("e", [2]).outcome == "counted"
    again = house.feedback("e", [2], shown=3, time="whenever")
    assert (again.outcome, again.clicks) == ("duplicate", 1)
    other = house.feedback("e", [1])
    assert (other.outcome, other.clicks) == ("refused", 1)
    assert house.outcome("e", [2], shown=2) == "refused"
    assert (house.info().steps, house.info().clicks) == (1, 1)
    house.recover()
    assert house.outcome("e", [2]) == "duplicate"


def test_clicks_that_are_collected(tmp_path):
    with House(tmp_path, ranker={"second_click": "update", "wait": 100}) as house:
        house.rank("q", ITEMS, "e")
        assert house.feedback("e", [2]).clicks == 1
        second = house.feedback("e", [3])
        assert (second.outcome, second.clicks) == ("collected", 2)
        assert house.outcome("e", [3]) == "duplicate"
        house.recover()
        assert house.outcome("e", [3]) == "duplicate"
        assert house.info().steps == 0
        house.pass_(99)
        assert house.outcome("e", []) == "collected"
        house.pass_(1)
        assert (house.info().steps, house.info().clicks, house.info().pending) == (1, 2, 0)
        assert house.outcome("e", [1]) == "refused"


@pytest.mark.parametrize(
    "order", [[([3], None), ([], 2)], [([], 2), ([3], None)], [([1], 1), ([2], 2)], [([], 1), ([], 2)]]
)
def test_how_much_was_shown_is_collected_too(tmp_path, order):
    with House(tmp_path, ranker={"second_click": "update", "wait": 100}) as house:
        house.rank("q", ITEMS, "e")
        for clicks, shown in order:
            house.feedback("e", clicks, shown=shown)
        house.pass_(100)
        (final,) = [record for _, record in house.log() if isinstance(record, Final)]
        assert final.clicks == sorted({click for clicks, _ in order for click in clicks})
        assert final.shown == (None if any(shown is None for _, shown in order) else 2)
        assert house.info().steps == 1


def test_collected_clicks_when_the_settings_change(tmp_path):
    with House(tmp_path, ranker={"second_click": "update", "wait": 100}) as house:
        house.rank("q", ITEMS, "e")
        house.feedback("e", [1])
        house.put(policy="CascadeUCB1", k=3, wait=100)
        assert house.outcome("e", [2]) == "collected"
        house.pass_(100)
        assert (house.info().steps, house.info().clicks) == (1, 2)


def test_arrays_of_feedback(house):
    for n in range(3):
        house.rank("q", ITEMS, f"e{n}")
    house.feedback("e0", [1])
    said = [
        Feedback("e0", [1]),
        Feedback("e1", [2]),
        Feedback("e1", [2]),
        Feedback("nobody"),
        Feedback("e1", [1]),
        Feedback("e2"),
    ]
    results = house.run(house.service.feedback("default", said))
    assert [result.event_id for result in results] == [feedback.event_id for feedback in said]
    assert [result.outcome for result in results] == [
        "duplicate",
        "counted",
        "duplicate",
        "orphan",
        "refused",
        "counted",
    ]
    assert house.info().steps == 3


def test_after_a_reset_it_is_forgotten(house):
    for n in range(4):
        house.rank("q", ITEMS, f"e{n}")
    house.reset("q")
    assert house.outcome("e0", [1]) == "forgotten"
    house.reset("q", gone=True)
    assert house.outcome("e1", [1]) == "forgotten"
    house.rank("q", ITEMS)
    assert house.outcome("e2", [1]) == "forgotten"
    house.reset()
    assert house.outcome("e3", [1]) == "forgotten"
    assert house.outcome("e3", [1]) == "duplicate"
    assert house.info().steps == 0


def test_another_rankers_list_is_an_orphan(house):
    house.put("other", policy="CascadeUCB1", k=3)
    house.rank("q", ITEMS, "e")
    assert house.outcome("e", [1], "other") == "orphan"
    house.rank("q", ITEMS, "e", "other")
    assert house.outcome("e", [1], "other") == "counted"
    assert house.outcome("e", [1]) == "counted"


def test_a_ranker_made_again_knows_nothing_of_the_first(house):
    how = {"policy": "CascadeUCB1", "k": 3, "wait": 100, "forget_items": 1000}
    house.rank("q", ["secret1", "secret2"], "e")
    house.delete("default")
    house.put(**how)
    assert house.outcome("e", [1]) == "orphan"
    assert house.shown("other", ITEMS[:1], "e") == ["a"]
    assert house.names() == ["other"]
    house.recover()
    assert house.outcome("e", [1]) == "counted"


def test_deferred_lists(house):
    house.rank("q", ITEMS, "e", defer=True)
    assert house.outcome("e", [1]) == "inactive"
    house.pass_(10_000)
    assert house.info().pending == 0
    assert house.activate("e").outcome == "activated"
    assert house.activate("e").outcome == "duplicate"
    assert house.info().pending == 1
    house.recover()
    house.pass_(99)
    assert house.outcome("e", [1]) == "counted"
    house.rank("q", ITEMS, "f")
    assert house.activate("f").outcome == "duplicate", "shown is shown"
    with house.refused(404, "no list has it"):
        house.activate("nobody")
    house.put("other", policy="CascadeUCB1", k=3)
    for ranker in ("default", "other"):
        house.rank("q", ITEMS, "both", ranker, defer=True)
    with house.refused(409, "several rankers"):
        house.run(house.service.activate("both", ["default", "other", "nobody"]))


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silence", "steps"), [("no_click", 1), ("drop", 0)])
def test_silence(tmp_path, silence, steps):
    with House(tmp_path, ranker={"wait": 100, "silence": silence}) as house:
        house.rank("q", ITEMS, "e")
        house.pass_(99)
        assert house.info().pending == 1
        house.recover()  # what waits survives
        assert house.info().pending == 1
        house.pass_(1)
        assert (house.info().pending, house.info().steps, house.info().clicks) == (0, steps, 0)
        assert house.outcome("e", [1]) == "late"
        assert house.outcome("e", []) == "late"
        believed = house.query("q").items
        assert sorted(item.samples for item in believed) == ([0, 0, 1, 1, 1] if steps else [0] * 5), "all were examined"


def test_feedback_after_the_wait_but_before_anybody_noticed(house):
    house.rank("q", ITEMS, "e")
    house.clock.now += 100
    assert house.outcome("e", [1]) == "late"
    house.finalise()
    assert (house.info().steps, house.info().clicks) == (1, 0)


def test_quiet_traffic(tmp_path):
    """Nobody asks, and the lists are done with all the same."""
    with House(tmp_path, ranker={"wait": 1}) as house:
        house.rank("q", ITEMS, "e")

        async def wait() -> None:
            house.clock.now += 1
            while house.info().pending:
                await asyncio.sleep(0.01)

        house.run(asyncio.wait_for(wait(), 30))
        assert house.info().steps == 1


def test_a_clock_that_is_set_back(house):
    house.rank("q", ITEMS, "e")
    house.clock.now -= 1_000_000
    house.rank("q", ITEMS, "f")
    assert house.outcome("e", [1]) == "counted"
    times = [record.time for _, record in house.log()]
    assert times == sorted(times)
    house.recover()
    house.clock.now += 1_000_050
    house.rank("q", ITEMS, "g")
    house.pass_(50)
    assert house.info().pending == 1, "f is done, g is not"


def test_a_clock_that_is_set_back_between_two_requests_of_one_commit(house):
    async def both() -> None:
        first = asyncio.ensure_future(house.service.rank("default", [RankRequest("q", ITEMS)]))
        await asyncio.sleep(0)
        house.clock.now -= 500
        await asyncio.gather(first, house.service.rank("default", [RankRequest("q", ITEMS)]))

    house.run(both())
    times = [record.time for _, record in house.log()]
    assert times == sorted(times)


def test_a_state_from_a_machine_whose_clock_is_ahead(tmp_path):
    policy = "CascadeDUCB:half_life=1m"
    with House(tmp_path, policy) as house:
        house.clock.now += 1_000_000
        for n in range(20):
            house.rank("q", ITEMS, f"e{n}")
            house.feedback(f"e{n}", [1])
        states = house.export()
    (tmp_path / "other").mkdir()
    with House(tmp_path / "other", policy) as house:
        house.import_(states)
        for n in range(20):
            house.rank("q", ITEMS, f"e{n}")
            house.feedback(f"e{n}", [1])
        state = house.query("q")
        assert all(item.estimate is not None and 0 <= item.estimate <= 1 for item in state.items), state
        assert all(item.samples is not None and 0 <= item.samples <= 200 for item in state.items), state


# -- rankers -----------------------------------------------------------------------------------------------------------


def test_settings_that_keep_what_was_learnt(house):
    how = {"policy": "CascadeUCB1", "k": 3, "wait": 100, "forget_items": 1000}
    house.rank("q", ITEMS, "e")
    house.feedback("e", [1])
    for change in ({"mode": "shadow"}, {"holdout": 0.5}, {"wait": 50}, {"silence": "drop"}, {"context": ["x"]}):
        assert house.put(**how | change).steps == 1
    for change in ({"k": 4}, {"seed": 1}, {"horizon": 5}, {"policy": "CascadeUCB1:exploration=2"}):
        assert house.put(**how | change).steps == 0
        assert house.put(**how).queries == 0
        with house.refused(404, "knows nothing of it"):
            house.query("q")
        house.rank("q", ITEMS, str(change))
        house.feedback(str(change), [1])
        assert house.info().steps == 1


def test_a_start_writes_nothing_new(tmp_path):
    with House(tmp_path) as house:
        n = len(house.log())
        house.restart()
        house.recover()
        assert len(house.log()) == n
        assert sum(isinstance(record, RankerSet) for _, record in house.log()) == n == 2


def test_nothing_gets_in_before_the_replay_is_over(tmp_path):
    with House(tmp_path) as house:
        house.rank("q", ITEMS, "e", defer=True)
        house.service.ready = False
        for work in (
            house.service.put_ranker("x", house.fold.rankers["default"].settings),
            house.service.activate("e", ["default"]),
            house.service.rank("default", [RankRequest("q", ITEMS)]),
            house.service.feedback("default", [Feedback("e")]),
            house.service.delete_ranker("default"),
            house.service.reset("default"),
            house.transfer.warmstart("default", [WarmRow("q", ["a"])], None),
            house.transfer.import_("default", []),
        ):
            with house.refused(503, "starting or stopping"):
                house.run(work)
        house.service.ready = True
        assert len(house.log()) == 3


def test_bad_settings(house):
    for settings, says in (
        ({"policy": "Nobody"}, "unknown policy"), ({"k": 0}, "k="), ({"wait": "soon"}, "wait"),
        ({"holdout": 1.0}, "holdout"), ({"policy": "StaticOracle"}, "truth"), ({"keys": ["secret"]}, "keys"),
        ({"seed": -1}, "seed"), ({"mode": "safe", "policy": "CascadeUCB1"}, "BubbleRank"),
        ({"wait": "2h", "forget_items": "1h"}, "forget_items"),
    ):  # fmt: skip
        with house.refused(422, says):
            house.put(**settings)
    for name in ("", "a/b", "-x", "x" * 65, "ä"):
        with house.refused(422, "ranker="):
            house.put(name, policy="CascadeUCB1")


def test_names_of_queries_page_by_page(tmp_path):
    with House(tmp_path) as house:
        names = sorted(["", "a", "ä", "a/b", "a b", "😀", *[f"n{n:03}" for n in range(150)]])
        house.run(house.service.rank("default", [RankRequest(name, ["x"]) for name in names]))
        house.checkpoint()
        house.reset()  # 156 snapshots that are no queries any more
        kept = [*names[100:], "fresh"]
        for tiny in (False, True):
            house.run(house.service.rank("default", [RankRequest(name, ["x"]) for name in kept]))
            got, after = [], None
            while page := house.queries.names("default", after, 7):
                assert len(page) == 7 or len(got) + len(page) == len(kept)
                got += page
                after = page[-1]
            assert got == sorted(kept)
            house.service.upkeep._memory = 1
            house.write_out()
            assert not house.fold.queries, tiny


# -- identity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["CascadeUCB1", "CascadeSWUCB:window=50", "CascadeTS", "CascadeRegimeTS"])
@pytest.mark.parametrize("tiny", [False, True])
def test_served_lists_are_those_of_the_library(tmp_path, spec, tiny):
    policy = parse_policy(spec)
    L, k, seed, horizon = 8, 3, 11, 1000
    learner = policy.start(list(range(L)), k, seed=seed, horizon=horizon, query="q")
    users = random.Random(7)
    with House(tmp_path, spec, tiny=tiny, ranker={"seed": seed, "horizon": horizon}) as house:
        for t in range(1, 301 if not tiny else 61):
            answer = house.rank("q", list(range(L)), f"x:{t}")
            ranking = learner.rank()
            assert [item.id for item in answer.items] == list(ranking)
            assert answer.step == t
            clicks = [position for position, item in enumerate(ranking, 1) if users.random() < item / 20]
            vector = [int(position in clicks) for position in range(1, k + 1)]
            learner.update(ranking, vector)
            assert house.outcome(f"x:{t}", clicks) == "counted"
            if tiny:
                house.write_out()
            if t % 25 == 0:
                house.recover()


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["CascadeDUCB:half_life=5m", "CascadeTS", "RankedEXP3"])
def test_whatever_the_memory_the_same_answers(tmp_path, policy):
    def life(folder, tiny):
        folder.mkdir()
        chance = random.Random(4)
        out = []
        with House(folder, policy, tiny=tiny, ranker={"wait": 100, "forget_items": 100}) as house:
            for n in range(120):
                query = f"q{chance.randrange(6)}"
                items = chance.sample(range(9), chance.randint(2, 9))
                out.append(house.rank(query, items, f"e:{n}"))
                if chance.random() < 0.7:
                    out.append(house.feedback(f"e:{chance.randint(0, n)}", [1]))
                if chance.random() < 0.1:
                    house.pass_(60)
                if chance.random() < 0.05:
                    house.reset(query)
                if chance.random() < 0.05:
                    house.checkpoint()
                if tiny:
                    house.write_out()
                    assert not house.fold.queries
                    if n % 20 == 0:
                        house.recover()
            out.append({name: house.query(name) for name in house.names()})
        return out

    assert life(tmp_path / "plenty", False) == life(tmp_path / "tiny", True)


# -- a later version -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"k": 3, "wait": 100}])
def test_a_later_version_with_another_default_policy(tmp_path, monkeypatch, how):
    """A ranker that nobody named a policy for keeps the one it has learnt with; one begun later has the new one."""
    settings = {"rankers": {"default": RankerSettings(**how)}} if how else {}
    with House.at(tmp_path, **settings) as house:
        house.rank("q", ["a", "b"], "e")
        house.feedback("e", [1])
        first = house.info().settings.policy
        house.checkpoint()
    monkeypatch.setattr("driftrank.serve.ranker_settings.default_policy", lambda: parse_policy("CascadeUCB1"))
    with House.at(tmp_path, **settings) as house:
        assert (house.info().settings.policy, house.info().steps) == (first, 1)
        house.put(**how, holdout=0.5)
        assert (house.info().settings.policy, house.info().steps) == (first, 1)
        assert house.put("new").settings.policy == "CascadeUCB1"
        assert house.put(mode="safe").settings.policy.startswith("BubbleRank")
        assert house.put(**how).settings.policy == "CascadeUCB1"
        house.recover()
        assert house.put("new", policy="CascadeTS").settings.policy == "CascadeTS"
        assert house.put("new").settings.policy == "CascadeUCB1", "one that was chosen does not stay"
