from __future__ import annotations

import pytest

from driftrank.policies.base import Policy
from driftrank.policies.contextual.cascade_linucb import CascadeLinUCB
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.stationary.cascade_ts import CascadeTS
from driftrank.serve.ranking.choice import CheckedRequest
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import Item, RankerSettings, RankRequest

LIMITS = ServerSettings(max_items=5, max_id=4, max_query=3)
K3 = RankerSettings(k=3)


def checked(settings: RankerSettings, request: RankRequest, policy: Policy | None = None) -> CheckedRequest:
    return CheckedRequest(LIMITS, settings, policy or CascadeTS(), request)


def test_a_digest_of_the_request():
    def asked(*args, **how):
        return checked(K3, RankRequest(*args, **how)).asked

    same = asked("q", ["a", 7, "7"])
    assert same == asked("q", ["7", "a", Item(7)], event_id="e", defer=True)
    assert same == asked("q", ["7", "b", "a", 7], excluded=["b"])
    others = [asked("p", ["a", 7, "7"]), asked("q", ["a", 7]), asked("q", ["a", 7, "8"])]
    others.append(asked("q", ["a", 7, "7"], k=3))
    assert len({same, *others}) == 5


def test_a_baseline_is_completed_by_the_other_items():
    items = ["a", "b", 7, "7"]
    assert checked(K3, RankRequest("q", items)).baseline == items
    found = checked(K3, RankRequest("q", items, baseline=["7", "x", "b", "7", 8]))
    assert found.baseline == ["7", "b", "a", 7]
    assert found.items == items
    assert checked(K3, RankRequest("q", items, baseline=[])).baseline == items
    assert checked(K3, RankRequest("q", items, baseline=[7], excluded=[7])).baseline == ["a", "b", "7"]


def test_in_safe_mode_items_come_in_the_order_of_the_baseline():
    safe = RankerSettings(k=3, mode="safe")
    items = [Item("a", [1.0]), Item("b", [2.0]), Item("c", [3.0])]
    found = checked(safe, RankRequest("q", items, baseline=["c", "a"]), CascadeLinUCB())
    assert (found.items, found.features) == (["c", "a", "b"], [[3.0], [1.0], [2.0]])


def test_scores_are_an_order():
    items = [Item("a", score=1.0), "b", Item("c", score=3.0), Item("d", score=2.0)]
    for how in ({}, {"items_unordered": True}):
        found = checked(K3, RankRequest("q", items, **how), PriorRegimeTS())
        assert (found.items, found.baseline, found.ordered) == (["c", "d", "a", "b"], ["c", "d", "a", "b"], True)
        assert found.description == {"scores": [3.0, 2.0, 1.0, None]}
    found = checked(K3, RankRequest("q", items, baseline=["b", "a"]), PriorRegimeTS())
    assert (found.items, found.description) == (["b", "a", "c", "d"], {"scores": [None, 1.0, 3.0, 2.0]})
    found = checked(K3, RankRequest("q", items, excluded=["c"]))
    assert (found.items, found.baseline) == (["a", "b", "d"], ["d", "a", "b"])
    assert found.notes == ["score: used for the baseline only, not by CascadeTS"]
    with pytest.raises(ValueError, match="scores: inf: must be a finite number"):
        checked(K3, RankRequest("q", [Item("a", score=float("inf"))]))


def test_positions():
    assert checked(K3, RankRequest("q", ["a", "b"])).k == 2
    assert checked(K3, RankRequest("q", list("abcde"))).k == 3
    assert checked(K3, RankRequest("q", list("abcde"), k=1)).k == 1
    assert checked(K3, RankRequest("q", [7, "a"], pinned={"7": 2})).pinned == {2: 7}
    assert checked(K3, RankRequest("q", [7, "7"], pinned={"7": 2})).pinned == {2: "7"}
    assert checked(K3, RankRequest("q", ["7", 7], pinned={"7": 2})).pinned == {2: "7"}


def test_limits():
    for request, says in (
        (RankRequest("four", ["a"]), "query: 4 characters"),
        (RankRequest("q", list("abcdef")), "items: 6, at most 5"),
        (RankRequest("q", ["abcde"]), "5 characters"),
        (RankRequest("q", [Item("a"), "a"]), "'a' occurs twice"),
        (RankRequest("q", [Item("a", [1.0]), Item("b")]), "for all items or for none"),
        (RankRequest("q", ["a"], pinned={"a": 2}), "must be from 1 to 1"),
    ):
        with pytest.raises(ValueError, match=says):
            checked(K3, request)
