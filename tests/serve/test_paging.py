"""The same list again for a subject, and its pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftrank.serve.log.records import Ranked
from driftrank.serve.state.stable_lists import StableLists
from driftrank.wire import ArmSettings, RankRequest
from tests.serve.harness import Harness

ITEMS = [f"i{n}" for n in range(8)]
POLICIES = ("CascadeSoftmax", "PriorRegimeTS:hash_bits=6", "BubbleRank:horizon=1000", "RankedEXP3")


@pytest.fixture(params=POLICIES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, request.param, ranker={"stable": "30m", "wait": "1h"}) as harness:
        yield harness


@pytest.fixture
def random_lists(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, "CascadeSoftmax", ranker={"stable": "30m", "wait": "1h"}) as harness:
        yield harness


def learn(harness: Harness, n: int = 5) -> None:
    for i in range(n):
        harness.rank("q", ITEMS, f"other {harness.state.seq} {i}")
        harness.feedback(harness.log()[-1][1].event_id, [2])


def page(harness: Harness, event: str, offset: int = 0, subject: str = "u", **how: Any) -> list[Any]:
    return harness.shown("q", ITEMS, event, subject=subject, offset=offset, **how)


def test_pages_continue_the_ranking(harness: Harness):
    first = page(harness, "p1")
    learn(harness)
    second = page(harness, "p2", 3)
    learn(harness)
    third = page(harness, "p3", 6)
    assert [len(first), len(second), len(third)] == [3, 3, 2]
    assert sorted([*first, *second, *third]) == ITEMS
    assert page(harness, "again", 0) == first
    assert page(harness, "again 2", 3) == second
    assert page(harness, "wide", 2, k=3) == [*first, *second][2:5]
    harness.recover()
    assert page(harness, "after a crash", 3) == second
    harness.restart()
    assert page(harness, "after a restart", 6) == third
    for event in ("p1", "p2", "again", "wide", "after a restart"):
        assert harness.outcome(event, []) == "counted"
    assert harness.dump() == harness.dump_of_log()


def test_the_same_draw(random_lists: Harness):
    """Pages of one call are those of one ranking, though none of them is in the log yet."""
    asked = [RankRequest("q", list(ITEMS), subject="u", offset=offset) for offset in (0, 3, 6, 3)]
    answers = random_lists.run(random_lists.service.rank("default", asked))
    one, two, three, again = ([item.id for item in answer.items] for answer in answers)
    assert sorted(map(str, [*one, *two, *three])) == ITEMS
    assert again == two
    assert [item.position for item in answers[1].items] == [4, 5, 6]


def test_how_long(random_lists: Harness):
    lists = {subject: page(random_lists, f"{subject} first", subject=subject) for subject in "abcdef"}
    assert len(set(map(tuple, lists.values()))) > 1
    random_lists.clock.now += 1799
    for subject, shown in lists.items():
        assert page(random_lists, f"{subject} soon", subject=subject) == shown
    random_lists.clock.now += 1
    later = {subject: page(random_lists, f"{subject} later", subject=subject) for subject in "abcdef"}
    assert later != lists
    assert len(random_lists.state.rankers["default"].stable_lists) == 6


def test_only_the_same_query_and_candidates(random_lists: Harness):
    shown = [tuple(page(random_lists, f"{n}")) for n in range(5)]
    assert len(set(shown)) == 1
    others = [
        random_lists.shown("q", ITEMS[:7], "fewer", subject="u"),
        random_lists.shown("r", ITEMS, "r", subject="u"),
    ]
    again = page(random_lists, "backwards", excluded=[])
    assert tuple(again) == shown[0]
    assert tuple(random_lists.shown("q", ITEMS[::-1], "reverse", subject="u")) == shown[0]
    assert all(len(other) == 3 for other in others)
    assert len({tuple(random_lists.shown("q", ITEMS, f"nobody {n}")) for n in range(5)}) > 1
    pinned = random_lists.shown("q", ITEMS, "pinned", subject="u", pinned={"i7": 1})
    assert pinned[0] == "i7"


def test_a_repeated_list_is_recorded_as_such(random_lists: Harness):
    page(random_lists, "one")
    random_lists.clock.now += 1001  # a new list would have another draw by now
    page(random_lists, "two")
    page(random_lists, "next", 3)
    one, two, after = (record for _, record in random_lists.log() if isinstance(record, Ranked))
    seq = next(seq for seq, record in random_lists.log() if record is not None and record == one)
    assert (one.repeats, two.repeats, bool(one.same), two.same) == (0, seq, True, 0)
    assert (two.key, two.shown) == (one.key, one.shown)
    assert (after.key, after.offset, after.above) == (one.key, 3, one.shown)


def test_a_gap_between_pages(random_lists: Harness):
    third = page(random_lists, "third", 6)
    first, second = page(random_lists, "first"), page(random_lists, "second", 3)
    assert sorted([*first, *second, *third]) == ITEMS


def test_a_reset_begins_again(random_lists: Harness):
    first = [page(random_lists, f"{s} 1", subject=s) for s in "abcdefgh"]
    random_lists.reset()
    random_lists.clock.now += 1700  # another draw, within the time
    assert [page(random_lists, f"{s} 2", subject=s) for s in "abcdefgh"] != first
    ranked = random_lists.log()[-1][1]
    assert isinstance(ranked, Ranked)
    assert not ranked.repeats


def test_the_baseline_has_pages_too(tmp_path: Path):
    arms = {"b": ArmSettings(share=0.5, mode="shadow")}
    with Harness(tmp_path, "PriorRegimeTS:hash_bits=6", ranker={"holdout": 0.5, "stable": 60, "arms": arms}) as harness:
        for n in range(6):
            assert page(harness, f"{n} second", 3, subject=f"s{n}") == ITEMS[3:6]
            assert page(harness, f"{n} first", subject=f"s{n}") == ITEMS[:3]
            assert page(harness, f"{n} third", 6, subject=f"s{n}") == ITEMS[6:]


def test_feedback_names_the_positions_of_the_answer(random_lists: Harness):
    answer = random_lists.rank("q", ITEMS, "e", subject="u", offset=3)
    assert [item.position for item in answer.items] == [4, 5, 6]
    with random_lists.refused(422, "position 1: must be from 4 to 6"):
        random_lists.feedback("e", [1])
    assert random_lists.feedback("e", [5]).clicks == 1
    assert random_lists.log()[-1][1].clicks == [2]
    assert random_lists.service.metrics.count("clicks_by_position", ("default", "5")) == 1


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"offset": 3}, "offset=3: must have a subject"),
        ({"offset": -1, "subject": "u"}, "offset"),
        ({"offset": 8, "subject": "u"}, "less than the number of candidates, 8"),
        ({"offset": 3, "subject": "u", "pinned": {"i1": 1}}, "pinned: must not be given with an offset"),
        ({"subject": ""}, "subject"),
        ({"subject": "x" * 257}, "subject"),
    ],
)
def test_bad_requests(random_lists: Harness, how, says):
    with random_lists.refused(422, says):
        random_lists.rank("q", ITEMS, "e", **how)


def test_an_offset_needs_a_stable_ranker(tmp_path: Path):
    with Harness(tmp_path) as harness, harness.refused(422, "the setting stable"):
        harness.rank("q", ITEMS, "e", subject="u", offset=3)


@pytest.mark.parametrize("stable", [1e-320, 1e-9, 5e8])
def test_stable_times_of_any_size(tmp_path: Path, stable: float):
    with Harness(tmp_path, ranker={"stable": stable}) as harness:
        assert len(page(harness, "e", subject="s")) == 3


def test_the_event_of_another_page_is_taken(random_lists: Harness):
    page(random_lists, "e", 3)
    with random_lists.refused(409, "used for another"):
        page(random_lists, "e", 6)
    assert page(random_lists, "e", 3) == page(random_lists, "e", 3)


def test_pages_after_the_first_are_not_lists_of_an_experiment(tmp_path: Path):
    with Harness(tmp_path, ranker={"holdout": 0.5, "stable": 60}) as harness:
        for n in range(6):
            for offset in (0, 3):
                page(harness, f"{n} {offset}", offset, subject=f"s{n}")
                harness.feedback(f"{n} {offset}", [])
        assert sum(arm.lists for arm in harness.state.rankers["default"].experiment.arms.values()) == 6


def test_memory_is_bounded(random_lists: Harness, monkeypatch: pytest.MonkeyPatch):
    """Of 10 lists in parts of 4: as long as there is room, none is forgotten, also by a restart."""
    monkeypatch.setattr("driftrank.serve.state.stable_lists._MOST", 10)
    monkeypatch.setattr("driftrank.serve.state.stable_lists._TOGETHER", 4)
    shown = [page(random_lists, f"{n}", subject=f"s{n}") for n in range(31)]
    random_lists.checkpoint()
    random_lists.recover()
    lists = random_lists.state.rankers["default"].stable_lists
    assert 7 <= len(lists) <= 12
    assert lists.to_bytes() == StableLists.from_bytes(lists.to_bytes()).to_bytes()
    assert [page(random_lists, f"{n} again", subject=f"s{n}") for n in range(24, 31)] == shown[24:]
    assert [random_lists.log()[-1 - n][1].repeats > 0 for n in range(7)] == [True] * 7
    assert page(random_lists, "24 next", 3, subject="s24") != shown[24]
    assert page(random_lists, "24 once more", subject="s24") == shown[24]
    assert random_lists.dump() == random_lists.dump_of_log()
    random_lists.clock.now += 1800
    for n in range(8):
        page(random_lists, f"{n} later", subject=f"t{n}")
    assert len(lists) <= 12
