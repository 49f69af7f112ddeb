"""Both clients against the real service."""

from __future__ import annotations

import pickle
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftrank.client import Client, InvalidRequest, NotFound, Unauthorized, calls
from driftrank.wire import ArmSettings, Clicked, Counted, Feedback, Item, RankerSettings, RankRequest, WarmRow
from tests.client.awaited import Awaited
from tests.client.test_client import ROOT, SYNC
from tests.serve.running import Running

ITEMS = ["a", "b", "c", "d"]
CHEAP = RankerSettings(policy="CascadeUCB1", k=3)


@pytest.fixture(params=[Client, Awaited], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def client(make: Any, running: Running) -> Iterator[Any]:
    """A client with its own ranker."""
    name = f"r{secrets.token_hex(4)}"
    with make(running.url, ranker=name, timeout=20, deadline=60) as client:
        client.put_ranker(name, CHEAP)
        yield client


def test_a_click_is_learnt(client: Any) -> None:
    ranking = client.rank("shoes", ITEMS)
    assert len(ranking.items) == 3
    assert (ranking.policy, ranking.step) == ("CascadeUCB1", 1)
    client.feedback(ranking.event_id, [ranking.items[1].id])
    assert client.flush(20)
    assert client.outcomes == {"counted": 1}
    state = client.query("shoes")
    assert (state.steps, state.lists, state.clicks) == (1, 1, 1)
    assert {item.id: item.estimate for item in state.items if item.samples} == {
        ranking.items[0].id: 0.0, ranking.items[1].id: 1.0,
    }  # fmt: skip
    info = client.ranker()
    assert (info.lists, info.steps, info.clicks, info.queries) == (1, 1, 1, 1)


def test_features_context_and_scores(client: Any) -> None:
    items = [Item("a", {"colour": "red"}, 0.2), Item("b", [{"colour": "blue"}, {"shop": {"open": True}}], 0.9), "c"]
    ranking = client.rank("shoes", items, context={"device": "phone", "user": {"age": 31}})
    assert ranking.notes == [
        "features: not used by CascadeUCB1", "context: not used by CascadeUCB1",
        "score: used for the baseline only, not by CascadeUCB1",
    ]  # fmt: skip
    ragged = client.rank("shoes", [Item("a", [1.0]), Item("b", [1.0, 2.0])])
    assert ragged.notes == ["features: not used by CascadeUCB1"]
    client.put_ranker(client.name, RankerSettings(policy="PriorRegimeTS:hash_bits=8,explore_max=0", k=3))
    ranking = client.rank("shoes", items, context={"device": "phone", "user": {"age": 31}})
    assert ([item.id for item in ranking.items], ranking.notes) == (["b", "a", "c"], [])
    client.feedback(ranking.event_id, ["b"], wait=True)
    assert "score" in client.query("shoes").items[0].because
    with pytest.raises(InvalidRequest, match="context: 'a': must be a number, a string, a boolean or a list of"):
        client.rank("shoes", ITEMS, context={"a": [1]})


def test_the_same_event_is_the_same_ranking(client: Any) -> None:
    first = client.rank("q", ITEMS, event_id="e")
    client.feedback("e", [1], wait=True)
    assert client.rank("q", ITEMS, event_id="e").items == first.items
    assert client.ranker().lists == 1


def test_outcomes_of_feedback(client: Any) -> None:
    """An outcome is an answer, never an error."""
    client.rank("q", [7, 8], event_id="e")
    assert client.feedback("unknown", [1], wait=True).outcome == "orphan"
    assert client.feedback("e", [Clicked(8)], shown=2, wait=True).outcome == "counted"
    assert client.feedback("e", [Clicked(8)], wait=True).outcome == "duplicate"
    assert client.feedback("e", [Clicked(7)], wait=True).outcome == "refused"
    results = client.feedback_many([Feedback("e", [Clicked(8)]), Feedback(""), Feedback("unknown")])
    assert [result.outcome for result in results] == ["duplicate", "orphan", "orphan"]
    with pytest.raises(InvalidRequest, match="clicks"):
        client.feedback("e", ["not there"], wait=True)


def test_bad_feedback_among_good(client: Any) -> None:
    for n in range(6):
        client.rank("q", ITEMS, event_id=f"e{n}")
        client.feedback(f"e{n}", ["not there"] if n == 3 else [1])
    assert client.flush(20)
    assert (client.dropped, client.outcomes) == (1, {"counted": 5})


def test_many_at_once(client: Any) -> None:
    answers = client.rank_many([RankRequest("q", ITEMS[n:], k=1) for n in range(3)])
    assert [len(answer.items) for answer in answers] == [1, 1, 1]
    assert len({answer.event_id for answer in answers}) == 3
    with pytest.raises(InvalidRequest, match="k=9"):
        client.rank_many([RankRequest("q", ITEMS), RankRequest("q", ITEMS, k=9)])


def test_subjects_values_and_experiment(client: Any) -> None:
    arms = {"b": ArmSettings(share=0.5)}
    client.patch_ranker(client.name, {"arms": arms, "values": {"dwell": 0.3}, "stable": "30m"})
    first = client.rank("shoes", ITEMS, subject="anna")
    assert first.arm in ("live", "b")
    (last,) = client.rank("shoes", ITEMS, subject="anna", offset=3).items
    assert (last.position, {last.id, *(item.id for item in first.items)}) == (4, set(ITEMS))
    again = client.rank("shoes", ITEMS, subject="anna")
    assert [item.id for item in again.items] == [item.id for item in first.items]
    assert client.feedback(first.event_id, [first.items[0].id], kind="dwell", wait=True).value == 0.3
    assert client.feedback(again.event_id, [again.items[0].id], value=0.5, wait=True).value == 0.5
    with pytest.raises(InvalidRequest, match="kind='gift'"):
        client.feedback(first.event_id, [first.items[0].id], kind="gift", wait=True)
    assert client.shadow().refused == "not-shadow"
    found = client.experiment()
    assert found.shares == {"live": 0.5, "b": 0.5}
    assert [(arm.lists, arm.value) for arm in found.arms] == [(2, 0.8)]
    assert client.ranker().value == 0.8


def test_deferred(client: Any) -> None:
    client.rank("q", ITEMS, event_id="e/1", defer=True)
    assert client.feedback("e/1", [1], wait=True).outcome == "inactive"
    assert client.activate("e/1").outcome == "activated"
    assert client.activate("e/1").outcome == "duplicate"
    assert client.feedback("e/1", [1], wait=True).outcome == "counted"
    with pytest.raises(NotFound):
        client.activate("unknown")


@pytest.mark.parametrize("query", ["a/b", "50 % off?", "größe", "q/reset", "a+b&c=d#e", "../x", " ", "", ".", ".."])
def test_any_string_is_the_name_of_a_query(client: Any, query: str) -> None:
    client.rank(query, ITEMS, event_id="e")
    client.feedback("e", [1], wait=True)
    assert client.query(query).clicks == 1
    assert client.queries() == [query]
    client.reset(query)
    assert client.query(query).clicks == 0
    client.delete_query(query)
    with pytest.raises(NotFound):
        client.query(query)
    assert client.ranker().lists == 1  # the ranker itself was neither reset nor deleted


def test_queries_are_paged(client: Any) -> None:
    client.rank_many([RankRequest(f"q{n}", ITEMS) for n in range(5)])
    assert client.queries(limit=2) == ["q0", "q1"]
    assert client.queries(after="q1") == ["q2", "q3", "q4"]


def test_rankers(client: Any) -> None:
    assert client.name in [info.name for info in client.rankers()]
    settings = RankerSettings(policy="CascadeDUCB", k=2, horizon=1000, seed=3, wait="10m")
    other = f"{client.name}-other"
    assert client.put_ranker(other, settings).settings == settings
    assert client.ranker(other).settings == settings
    client.delete_ranker(other)
    with pytest.raises(NotFound):
        client.ranker(other)
    with pytest.raises(InvalidRequest, match="holdout=7"):
        client.put_ranker(other, RankerSettings(holdout=7.0))
    client.rank("q", ITEMS)
    client.reset()
    assert client.queries() == []


def test_warmstart_export_and_import(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [WarmRow(f"q{n % 3}", ITEMS[:3], [1 + n % 3]) for n in range(25)]
    assert client.warmstart(rows, batch=10).counted == 25
    assert client.ranker().steps == 25
    state = client.export()
    assert len(state.splitlines()) == 3
    monkeypatch.setattr(calls, "LONGEST", 10)  # every line is a call
    before = {name: client.query(name) for name in client.queries()}
    client.reset()
    assert client.import_(state).counted == 3
    for name, old in before.items():
        new = client.query(name)
        assert (new.steps, new.clicks) == (old.steps, old.clicks)
        assert [i.estimate for i in new.items] == [i.estimate for i in old.items]


def test_warmstart_of_long_rows(client: Any) -> None:
    rows = [WarmRow("q", [f"item-{n:020}" for n in range(50)], [1])] * 2000  # a thousand exceed one request
    assert client.warmstart(rows, name="log") == Counted(2000, 0)
    assert client.warmstart(rows, name="log") == Counted(0, 2000)


def test_keys(make: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "driftrank", "key"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    _, key, _, hashed, *_ = done.stdout.split()
    with Running(tmp_path, DRIFTRANK_ADMIN_KEY=hashed) as service:
        with make(service.url) as stranger, pytest.raises(Unauthorized):
            stranger.rank("q", ITEMS, fallback=True)
        with make(service.url, key="wrong") as stranger, pytest.raises(Unauthorized):
            stranger.rankers()
        with make(service.url, key=key) as owner:
            assert [info.name for info in owner.rankers()] == ["default"]


def test_the_service_is_killed_and_restarted(make: Any, tmp_path: Path) -> None:
    with Running(tmp_path) as service, make(service.url, flush_seconds=0.05, deadline=60, retries=100) as client:
        client.put_ranker("default", CHEAP)
        lists = [client.rank("q", ITEMS, event_id=f"e{n}") for n in range(20)]
        client.feedback("e0", [1])
        assert client.flush(20)
        service.kill()
        answer = client.rank("q", ITEMS, fallback=True)
        assert [item.id for item in answer.items] == ITEMS[:3], "as many as the service shows"
        client.feedback(answer.event_id, [1])
        for n in range(1, 20):
            client.feedback(f"e{n}", [1])
        assert not client.flush(0.5)
        assert (client.waiting, client.dropped) == (19, 0)
        service.restart()
        assert client.flush(60)
        assert client.outcomes == {"counted": 20}
        assert client.query("q").clicks == 20
        assert client.rank("q", ITEMS, event_id="e7").items == lists[7].items


def test_flush_at_exit(running: Running) -> None:
    with Client(running.url, timeout=20, deadline=60) as client:
        for n in range(5):
            client.rank("at exit", ITEMS, event_id=f"e{n}")
        subprocess.run([sys.executable, "-c", SYNC, running.url], cwd=ROOT, check=True, timeout=60)
        assert client.query("at exit").steps == 5


def test_events_and_feeds(client: Any) -> None:
    ranking = client.rank("a b/c", ITEMS)
    client.feedback(ranking.event_id, [ranking.items[0].id], wait=True)
    found = client.event(ranking.event_id)
    assert (found.query, found.items, found.candidates) == ("a b/c", ranking.items, ITEMS)
    assert (found.outcome, found.feedback.clicks) == ("counted", [1])
    assert found.time.tzinfo is not None
    with pytest.raises(NotFound, match="no ranking of ranker") as caught:
        client.event("nothing")
    assert caught.value.type == "urn:driftrank:problem:no-such-event"
    assert pickle.loads(pickle.dumps(caught.value)).type == caught.value.type
    (busiest,) = client.top_queries()
    assert (busiest.query, busiest.live.clicks) == ("a b/c", 1)
    (arm,) = client.series(step="hour", since=found.time).arms
    assert (arm.arm, sum(arm.lists), sum(arm.clicked)) == ("live", 1, 1)
    (latest,) = client.query_lists("a b/c").lists
    assert (latest.event_id, latest.clicks) == (ranking.event_id, [1])
    assert [it.lists_day for it in client.overview().rankers if it.ranker == client.name] == [1]
    assert client.top_queries("loss") == client.top_queries("change", offset=1, limit=2) == []
    assert client.changes() == client.changes("a b/c", before=7) == []
    assert [item.id for item in client.query("a b/c", sort="id", limit=2).items] == ["a", "b"]
    client.patch_ranker(client.name, {"k": 4})
    changed, created = client.operations()
    assert (changed.kind, created.kind) == ("changed", "created")
    assert client.operations(before=changed.number, limit=5) == [created]
    assert client.all_operations(limit=1) == [changed]
