"""The glance of the overview: is it well, and does it earn more than the baseline?"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from driftrank.serve import slices
from driftrank.serve.answers.series import series_of
from driftrank.serve.page import render
from driftrank.serve.page.broadcast import Round
from driftrank.serve.page.views import VIEWS, Looking
from driftrank.serve.page.views.earning import Earning, earning, earnings
from driftrank.serve.page.views.overview import _Card, _reasons, _verdict
from driftrank.wire import ArmSettings, NodeOverview, Overview, RankerOverview, RecentRequests, ServiceOverview
from tests.serve.harness import CHEAP, Harness

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
WELL = ServiceOverview("0.1.0", 1000, 0, 5_000_000, 1_000)


def card(name: str, kind: str, gain: float | None = None, lists: int = 10) -> _Card:
    of = RankerOverview(name, CHEAP, lists, lists, [], [], 0, 0)
    return _Card(of, "live", 1, Earning(kind, "", gain=gain), [], {})


@pytest.mark.parametrize(
    ("cards", "kind", "says"),
    [
        ([], "none", "No lists"),
        ([card("shop", "good", 0.2, lists=0)], "none", "No lists"),
        ([card("shop", "good", 0.214)], "good", "shop earns 21% more clicks per list than your own order"),
        ([card("shop", "bad", -0.1), card("idle", "none", lists=0)], "bad", "shop earns 10% fewer"),
        ([card("shop", "warn", 0.01)], "warn", "shop is not certain"),
        ([card("shop", "none")], "none", "Nothing to compare with"),
        ([card("a", "good", 0.1), card("b", "good", 0.2)], "good", "Both rankers"),
        ([card("a", "good", 0.1), card("b", "warn", 0.0)], "good", "1 of 2 rankers with traffic are certain"),
        ([card("a", "good", 0.1), card("b", "bad", -0.2)], "bad", "1 of 2 rankers with traffic earn less"),
        ([card("a", "warn", 0.1), card("b", "none")], "warn", "No ranker is certain"),
    ],
)
def test_the_verdict(cards: list[_Card], kind: str, says: str) -> None:
    found = _verdict(cards)
    assert found[0] == kind
    assert says in found[1]


def test_reasons_why_it_is_not_well() -> None:
    assert _reasons(Overview(NOW, [], WELL)) == []
    assert _reasons(Overview(NOW, [])) == [], "of a service that is not visible nothing is said"
    (full,) = _reasons(Overview(NOW, [], structs.replace(WELL, problem="the disk is full")))
    assert full == "the disk is full"
    assert _reasons(Overview(NOW, [], structs.replace(WELL, errors=900))) == [], "long ago"
    assert _reasons(Overview(NOW, [], structs.replace(WELL, recent=RecentRequests(300.0, 1000, 10)))) == []
    (failed,) = _reasons(Overview(NOW, [], structs.replace(WELL, recent=RecentRequests(300.0, 1000, 11))))
    assert failed == "11 of 1,000 requests failed in the last 5 minutes."
    nodes = [NodeOverview("n1", "http://n1", 7, 0.5, True), NodeOverview("n2", "http://n2", 5, 61.0, False)]
    (silent,) = _reasons(Overview(NOW, [], structs.replace(WELL, nodes=nodes)))
    assert silent == "Node n2 was last seen 61 s ago."


def test_nodes_and_problems_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [NodeOverview("n1", "http://n1", 7, 0.5, True), NodeOverview("<n2>", "http://n2", 5, 61.0, False)]

    async def found(*_: object) -> Overview:
        return Overview(NOW, [], structs.replace(WELL, nodes=nodes, problem="the disk is full"))

    monkeypatch.setattr(sys.modules[_Card.__module__], "overview_of", found)
    with Harness(tmp_path) as harness:
        looking = Looking(harness.service, {}, None, None, Round())
        shown = harness.run(render.regions("overview.html", harness.run(VIEWS["overview"](looking))))
    assert "Something is wrong" in shown["glance"]
    assert "the disk is full" in shown["glance"]
    assert "keeper" in shown["service"]
    assert "&lt;n2&gt;" in shown["service"]


def test_as_long_as_the_baseline_has_no_lists_nothing_is_said(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.001}) as harness:
        for n in range(3):
            harness.feedback(harness.rank("q", ["a", "b"], f"e{n}").event_id, [1])
        found = earning(harness.service.ranker("default"))
        assert (found.kind, found.text, found.gain) == ("none", "too early to say", None)


def test_an_arm_is_compared_with_the_rankers_own_if_there_is_no_holdout(tmp_path: Path) -> None:
    arms = {"new": ArmSettings(share=0.5, policy="CascadeTS")}
    with Harness(tmp_path, ranker={"arms": arms}) as harness:
        assert earning(harness.service.ranker("default")).text == "no baseline: set holdout to compare"
        for n in range(260):
            harness.feedback(harness.rank("q", ["a", "b"], f"e{n}", subject=f"user {n}").event_id, [1] if n % 2 else [])
        found = earning(harness.service.ranker("default"))
        assert (found.over, found.kind) == ("the arm live", "warn")
        assert found.gain is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.gain < found.high
        harness.put(policy=CHEAP, mode="shadow", k=3)
        assert "shadow" in earning(harness.service.ranker("default")).text


def test_all_arms_are_compared_the_own_one_first(tmp_path: Path) -> None:
    arms = {"a": ArmSettings(share=0.3, policy=CHEAP)}
    with Harness(tmp_path, ranker={"arms": arms, "holdout": 0.3, "planned": 200}) as harness:
        for n in range(600):
            ranking = harness.rank("q", ["x", "y"], f"e{n}", subject=f"user {n}")
            clicked = n % 9 == 0 or ranking.arm == "live"
            harness.feedback(ranking.event_id, [1] if clicked else [])
        found = earnings(harness.service.ranker("default"))
        assert [(it.arm, it.kind) for it in found] == [("live", "good"), ("a", "warn")]
        assert earning(harness.service.ranker("default")) == found[0]
        looking = Looking(harness.service, {"ranker": "default"}, None, None, Round())
        shown = harness.run(render.regions("ranker.html", harness.run(VIEWS["ranker"](looking))))
        bands = series_of(harness.service.ranker("default"), "minute", None, looking.service.now()).arms
        cards = harness.run(render.regions("overview.html", harness.run(VIEWS["overview"](looking))))["rankers"]
    assert "Arm a: " in shown["glance"]
    assert "not certain yet" in shown["glance"]
    for arm in bands:
        assert arm.low[-1] is not None
        assert arm.high[-1] is not None
        assert f"{arm.low[-1]:.3f} to {arm.high[-1]:.3f}" in cards


def test_many_rankers_are_looked_at_in_slices_and_once_in_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are answered between two rankers when a slice is over."""
    monkeypatch.setattr(slices, "SLICE", 0.0)
    paused = []

    async def pause(self: slices.Slices) -> None:
        paused.append(self)

    def pauses(harness: Harness, looking: Looking) -> int:
        paused.clear()
        harness.run(VIEWS["overview"](looking))
        return len(paused)

    monkeypatch.setattr(slices.Slices, "pause", pause)
    with Harness(tmp_path) as harness:
        for n in range(60):
            harness.put(f"r{n}", policy=CHEAP, k=2)
        looking = Looking(harness.service, {}, None, None, Round())

        first, again = (pauses(harness, looking) for _ in range(2))
        assert first > 100, "after each of 61 rankers, and each of their cards"
        assert again == 0, "nothing is computed again"
        context = harness.run(VIEWS["overview"](looking))
        assert (len(context["cards"]), context["cards_total"]) == (50, 61)
        shown = harness.run(render.regions("overview.html", context))
        assert "All 61 rankers" in shown["rankers"]
        assert len(harness.run(VIEWS["overview"](looking._replace(params={"rankers": "all"})))["cards"]) == 61
