"""What happened of late, the lists of a query and the reasons of its order, without HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftrank.serve.answers.query_lists import query_lists
from driftrank.serve.answers.reason import reason
from driftrank.serve.answers.series import STEPS, overview, series_of
from driftrank.serve.log.store.base import StoreError
from driftrank.serve.state.traffic import LATEST
from driftrank.serve.times import moment
from driftrank.wire import ItemState, SeriesState
from tests.serve.harness import Harness
from tests.serve.nodes import Node, Nodes

ITEMS = list("abcdef")


def test_the_last_hour_and_the_last_day(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.2, "wait": "1h"}) as harness:
        for n in range(40):
            harness.rank("q", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [1, 2] if n % 4 else [])
            harness.clock.now += 120
        (found,) = harness.run(overview(harness.service, None)).rankers
        assert (found.lists_hour, found.lists_day) == (29, 40)
        assert sum(arm.hour.lists for arm in found.arms) == 29
        assert sum(arm.day.clicked for arm in found.arms) == 30
        assert sum(arm.day.clicks for arm in found.arms) == 60
        assert [comparison.refused for comparison in found.comparisons] == ["few"]
        assert found.explored is not None
        assert 0 < found.explored < 1
        harness.clock.now += 86_400
        (found,) = harness.run(overview(harness.service, None)).rankers
        assert (found.lists_day, found.arms, found.explored) == (0, [], None)


def test_an_overview_has_what_its_key_has_access_to(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.put("shop", policy="CascadeUCB1", k=3)
        found = harness.run(overview(harness.service, frozenset({"shop"})))
        assert [ranker.ranker for ranker in found.rankers] == ["shop"]
        assert found.service is None
        found = harness.run(overview(harness.service, None))
        assert [ranker.ranker for ranker in found.rankers] == ["default", "shop"]
        assert found.service is not None
        assert (found.service.errors, found.service.nodes) == (0, [])
        assert found.service.store_bytes == harness.store.size()

        def broken() -> int:
            raise StoreError("no such file")

        harness.store.size = broken  # type: ignore[method-assign]
        found = harness.run(overview(harness.service, None))
        assert found.service is not None
        assert found.service.store_bytes is None, "the rest is answered"


def test_lists_of_a_query_survive_a_restart(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        for n in range(LATEST + 20):
            harness.rank("q", ITEMS, f"e{n}", defer=n == 80)
            if n < 70:
                harness.feedback(f"e{n}", [1 + n % 3])
        found = harness.run(query_lists(harness.service, "default", "q", 1000))
        assert [entry.event_id for entry in found.lists] == [f"e{n}" for n in range(LATEST + 19, 19, -1)]
        assert [entry.clicks for entry in found.lists[13:16]] == [None, [1 + 69 % 3], [1 + 68 % 3]]
        assert (len(found.times), found.times) == (16, sorted(found.times))
        assert sum(sum(item.clicked) for item in found.items) == 50
        assert sum(sum(item.shown) for item in found.items) == 3 * LATEST
        assert {len(item.shown) for item in found.items} == {16}
        harness.restart()
        memory = harness.state.impressions
        before = memory.nbytes
        assert harness.run(query_lists(harness.service, "default", "q", 1000)) == found
        assert memory.nbytes == before  # those who look displace no impression that clicks will ask for
        harness.reset("q")
        with harness.refused(404, "no such query"):
            harness.run(query_lists(harness.service, "default", "q", 10))


def test_lists_that_the_log_has_forgotten_are_left_out(tmp_path: Path) -> None:
    with Harness(tmp_path, retention="1d") as harness:
        for n in range(4):
            harness.rank("q", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [1])
            harness.clock.now += 40_000
        harness.checkpoint()
        harness.forget_old()
        harness.recover()
        found = harness.run(query_lists(harness.service, "default", "q", 10))
        assert [entry.event_id for entry in found.lists] == ["e3", "e2"]


def test_clicks_collected_so_far_are_shown(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"second_click": "update"}) as harness:
        harness.rank("q", ITEMS, "e")
        harness.feedback("e", [2])
        (entry,) = harness.run(query_lists(harness.service, "default", "q", 10)).lists
        assert (entry.clicks, entry.how) == ([2], None)


# -- reasons -------------------------------------------------------------------------------------------------------


def test_the_items_of_a_query_say_why(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"k": 4}) as harness:
        for n in range(30):
            shown = harness.shown("q", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [shown.index("c") + 1] if "c" in shown else [])
        best, *_ = items = harness.query("q").items
        assert best.id == "c"
        assert best.estimate is not None
        assert best.low is not None
        assert best.high is not None
        assert best.low < best.estimate <= best.high
        assert best.samples is not None
        assert f"estimate {best.estimate:.3g}" in str(best.why)
        assert f"from {best.samples:.0f} observations" in str(best.why)
        assert "for what is uncertain" in str(best.why)
        places = sorted(str(item.why).split()[0] for item in items)
        assert places == ["1st", "2nd", "3rd", "4th", "5th", "6th"]


def test_items_that_were_not_observed(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.rank("q", ITEMS)
        items = harness.query("q").items
        assert {(item.low, item.high) for item in items} == {(None, None)}
        assert all("not observed yet" in str(item.why) for item in items)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "2nd of 9 by its estimate 0.21 (from 340 observations)"),
        ({"samples": 1.0}, "2nd of 9 by its estimate 0.21 (from 1 observation)"),
        ({"low": 0.18, "high": 0.24}, "2nd of 9 by its estimate 0.21 (0.18 to 0.24, from 340 observations)"),
        ({"samples": 0.0, "prior": 0.21, "strength": 8.0}, "2nd of 9 by its estimate 0.21 (not observed yet)"),
        (
            {"bonus": 0.05, "score": 0.26},
            "2nd of 9 by its score 0.26: estimate 0.21 (from 340 observations) and 0.05 for what is uncertain",
        ),
        (
            {"last_change": 7, "last_change_time": moment(1_700_000_000.0)},
            "2nd of 9 by its estimate 0.21 (from 340 observations); its users changed at 2023-11-14T22:13:20Z",
        ),
        ({"estimate": None, "score": None}, "2nd of 9: it was not observed yet, so there is no estimate"),
    ],
)
def test_reasons(more: dict[str, object], says: str) -> None:
    known = {"estimate": 0.21, "bonus": None, "samples": 340.0, "score": 0.21, "last_change": None}
    item = ItemState(id="a", last_offered=moment(0.0), **(known | more))  # type: ignore[arg-type]
    assert reason(item, 2, 9) == says


# -- several nodes -------------------------------------------------------------------------------------------------


def test_every_node_has_the_same(postgres) -> None:
    ranker = {"policy": "CascadeUCB1", "k": 3, "wait": 600, "holdout": 0.3}
    with Nodes(postgres.url(), ranker=ranker) as nodes:
        for n in range(30):
            nodes.run(nodes[n % 2].list_of(f"q{n % 3}", f"e{n}"))
            nodes.run(nodes[n // 3 % 2].click(f"e{n}", *([1 + n % 3] if n % 4 else [])))
        nodes.level()

        def seen(node: Node) -> list[object]:
            own = node.state.rankers["default"]
            lists = [nodes.run(query_lists(node, "default", f"q{n}", 20)) for n in range(3)]
            return [series_of(own, step, None, node.state.clock) for step in STEPS] + lists

        first, second = (seen(nodes[n]) for n in range(2))
        assert first == second
        minutes = first[0]
        assert isinstance(minutes, SeriesState)
        assert sum(sum(arm.lists) for arm in minutes.arms) == 30
        nodes.run(nodes[0].maintenance.checkpoint())
        again = nodes.start(1)  # from the checkpoint; its impressions are read from the log
        nodes.level()
        assert seen(again) == first
        found = nodes.run(overview(again, None)).service
        assert found is not None
        assert {node.node for node in found.nodes} == {"n0", "n1"}
        assert not nodes.differences()
