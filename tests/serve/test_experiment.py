"""Arms: assignment, learning, comparison; through restarts, changes of settings, and against the plain version."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from driftrank.client import Client
from driftrank.evaluation.sequences import mixture_width
from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.operations.undo import undo
from driftrank.serve.settings.ranker import check_ranker
from driftrank.serve.state.arms import Split
from driftrank.wire import ArmSettings, ExperimentState, RankerSettings, WarmRow
from tests.reference import sequences as plain
from tests.serve.harness import CHEAP, Harness, differences
from tests.serve.running import Running

ITEMS = ("a", "b", "c", "d", "e")
LIKES = {"a": 0.05, "b": 0.1, "c": 0.1, "d": 0.3, "e": 0.5}
DAY = 86_400
ARMS = {"b": ArmSettings(share=0.3)}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, ranker={"arms": ARMS, "holdout": 0.2, "wait": "30m"}) as harness:
        yield harness


def visit(harness: Harness, n: int, subject: str | None = None, query: str = "q", **how: Any) -> str:
    """A ranking with clicks of a user; the arm."""
    answer = harness.rank(query, ITEMS, f"e{n}", subject=subject)
    user = random.Random(n)
    clicks = [item.id for item in answer.items if user.random() < LIKES[str(item.id)]]
    harness.feedback(f"e{n}", clicks, **how)
    return str(answer.arm)


def experiment(harness: Harness) -> ExperimentState:
    return experiment_of(harness.state.rankers["default"])


def ended(harness: Harness) -> list[tuple[Ranked, Final]]:
    ranked = {record.event_id: record for _, record in harness.log() if isinstance(record, Ranked)}
    return [(ranked[record.event_id], record) for _, record in harness.log() if isinstance(record, Final)]


# -- assignment ----------------------------------------------------------------------------------------------------


def test_shares():
    arms = {"b": ArmSettings(share=0.3), "c": ArmSettings(share=0.1), "off": ArmSettings(share=0.0)}
    split = Split(RankerSettings(holdout=0.2, arms=arms))
    found = Counter(split.assign("shop", f"u{n}") for n in range(20_000))
    assert found.keys() == {"holdout", "live", "b", "c"}
    for arm, share in {"holdout": 0.2, "live": 0.4, "b": 0.3, "c": 0.1}.items():
        assert found[arm] / 20_000 == pytest.approx(share, abs=0.015), arm


def test_arms_do_not_change_who_is_in_the_holdout():
    few, many = (Split(RankerSettings(holdout=0.2, arms=arms)) for arms in ({}, ARMS))
    units = [f"u{n}" for n in range(2000)]
    held = [unit for unit in units if few.assign("shop", unit) == "holdout"]
    assert held == [unit for unit in units if many.assign("shop", unit) == "holdout"]


def test_arms_may_take_everything():
    split = Split(RankerSettings(arms={"b": ArmSettings(share=0.7), "c": ArmSettings(share=0.3)}))
    assert {split.assign("shop", f"u{n}") for n in range(200)} == {"b", "c"}
    assert split.baseline == "b"
    assert split


def test_a_subject_stays_in_its_arm_and_is_not_stored(harness: Harness):
    arms = {str(harness.rank("q", ITEMS, f"e{n}", subject="anna@example.org").arm) for n in range(20)}
    assert len(arms) == 1
    assert len({str(harness.rank("q", ITEMS, f"f{n}", subject=f"s{n}").arm) for n in range(40)}) == 3
    harness.checkpoint()
    stored = b"".join(entry.body for entry in harness.store.read(0, 1000))
    stored += b"".join(
        snapshot.body for name in harness.store.snapshot_names("", "", 1000)
        if (snapshot := harness.store.get_snapshot(name)) is not None
    )  # fmt: skip
    assert b"anna" not in stored
    assert len({record.subject for _, record in harness.log() if isinstance(record, Ranked)}) == 41


def test_without_arms_nothing_is_added(tmp_path: Path):
    with Harness(tmp_path) as harness:
        answer = harness.rank("q", ITEMS, "e")
        assert not answer.arm
        harness.feedback("e", [1])
        ranker = harness.state.rankers["default"]
        assert not ranker.split
        assert not ranker.experiment.arms
        found = experiment_of(ranker)
        assert (found.arms, found.comparisons, found.days, found.by) == ([], [], [], None)


# -- learning ------------------------------------------------------------------------------------------------------


def test_arms_learn_from_their_own_lists(harness: Harness):
    arms = Counter(visit(harness, n) for n in range(60))
    assert set(arms) == {"live", "b", "holdout"}
    assert harness.query("q").steps == arms["live"]
    assert harness.query("q", arm="b").steps == arms["b"]
    assert harness.info().steps == arms["live"] + arms["b"]
    assert harness.info().lists == 60
    with harness.refused(404, "no such arm"):
        harness.query("q", arm="nobody")


def test_an_arm_has_its_own_policy(tmp_path: Path):
    arms = {"b": ArmSettings(share=0.5, policy="CascadeSoftmax"), "c": ArmSettings(share=0.2, mode="shadow")}
    with Harness(tmp_path, ranker={"arms": arms}) as harness:
        found = {}
        for n in range(40):
            answer = harness.rank("q", ITEMS, f"e{n}")
            found[answer.arm] = answer.policy, {item.why for item in answer.items}
        assert found["live"][0] == CHEAP
        assert found["b"][0] == "CascadeSoftmax"
        assert found["c"] == (CHEAP, {"baseline"})
        assert harness.outcome("e0", []) == "counted"


def test_reset_and_delete_concern_all_arms(harness: Harness):
    for n in range(30):
        visit(harness, n)
    harness.reset("q")
    assert [harness.query("q", arm=arm).steps for arm in ("", "b")] == [0, 0]
    harness.reset("q", gone=True)
    for arm in ("", "b"):
        assert harness.run(harness.introspection.names("default", None, 10, arm)) == []


def test_warm_start_and_transfer_of_an_arm(harness: Harness):
    rows = [WarmRow("q", list(ITEMS), clicks=[2])] * 5
    harness.run(harness.transfer.warmstart("default", rows, "june", "b"))
    assert harness.run(harness.transfer.warmstart("default", rows, "june", "b")).duplicates == 5
    assert harness.run(harness.introspection.names("default", None, 10)) == []
    assert harness.query("q", arm="b").steps == 5

    async def export() -> list[tuple[str, bytes]]:
        return [pair async for pair in harness.transfer.export("default", "b")]

    states = harness.run(export())
    harness.run(harness.transfer.import_("default", states))
    assert harness.query("q").steps == 5


# -- changes of settings -------------------------------------------------------------------------------------------


def put(harness: Harness, *, discard: bool = False, **settings: Any) -> None:
    every = {"policy": CHEAP, "k": 3, "holdout": 0.2, "wait": "30m"} | settings
    harness.run(harness.service.put_ranker("default", RankerSettings(**every), discard=discard))


def steps(harness: Harness, *arms: str) -> list[int]:
    return [harness.query("q", arm=arm).steps for arm in arms]


def test_shares_and_new_arms_keep_what_was_learnt(harness: Harness):
    for n in range(40):
        visit(harness, n)
    before = steps(harness, "", "b")
    put(harness, arms={"b": ArmSettings(share=0.1), "c": ArmSettings(share=0.1, policy="CascadeSoftmax")})
    assert steps(harness, "", "b") == before
    put(harness, holdout=0.0, arms={"b": ArmSettings(share=0.0)})
    assert steps(harness, "", "b") == before


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ({}, "arms.b would be removed"),
        ({"b": ArmSettings(share=0.3, policy="CascadeSoftmax")}, "arms.b: policy='CascadeSoftmax'"),
    ],
)
def test_a_change_that_discards_an_arm_is_refused(harness: Harness, arms, says):
    for n in range(30):
        visit(harness, n)
    live, of_b = steps(harness, "", "b")
    with harness.refused(409, says):
        put(harness, arms=arms)
    assert steps(harness, "", "b") == [live, of_b]
    put(harness, arms=arms, discard=True)
    assert steps(harness, "") == [live]
    operation = harness.state.operations[-1]
    assert operation.discarded == of_b
    for n in range(30, 40):
        visit(harness, n)
    (more,) = steps(harness, "")
    assert more > live
    harness.run(undo(harness.service, "default", operation.number, "me"))
    assert steps(harness, "", "b") == [more, of_b], "the other arm keeps what it has learnt since"


def test_to_remove_an_arm_that_has_learnt_nothing_is_no_loss(harness: Harness):
    harness.rank("q", ITEMS, "e")
    put(harness, arms={})
    assert harness.state.operations[-1].discarded is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"holdout": 0.8}, "sum 1.1: must be at most 1"),
        ({"arms": {"live": ArmSettings(share=0.1)}}, r"arms.live: must be .* none of live"),
        ({"arms": {"b": ArmSettings(share=1.5)}}, "arms.b.share"),
        ({"arms": {"b": ArmSettings(share=0.5, policy="Nobody")}}, "Nobody"),
        ({"arms": {"b": ArmSettings(share=0.5, policy="CascadeSoftmax", mode="safe")}}, "arms.b: .*BubbleRank"),
        ({"arms": {f"b{n}": ArmSettings(share=0.01) for n in range(9)}}, "at most 8"),
        ({"values": {"buy": 2.0}}, "values.buy"),
        ({"stable": "soon"}, "stable='soon'"),
        ({"planned": 3}, "planned"),
    ],
)
def test_bad_settings(settings, says):
    with pytest.raises(ValueError, match=says):
        check_ranker("shop", RankerSettings(**({"policy": CHEAP, "arms": {"b": ArmSettings(share=0.3)}} | settings)))


def test_arms_begin_again_one_by_one(harness: Harness):
    """After a change, comparisons of the arm that begins again do so, too; others go on."""
    put(harness, arms={**ARMS, "c": ArmSettings(share=0.2)})
    for n in range(60):
        visit(harness, n)
    before = {c.arm: c.lists for c in experiment(harness).comparisons}
    assert before == {"b": 60, "c": 60, "live": 60}
    put(harness, arms={"b": ArmSettings(share=0.3, seed=5), "c": ArmSettings(share=0.2)}, discard=True)
    assert {c.arm: c.lists for c in experiment(harness).comparisons} == {"c": 60, "live": 60}
    for n in range(60, 80):
        visit(harness, n)
    after = {c.arm: c.lists for c in experiment(harness).comparisons}
    assert after == {"b": 20, "c": 80, "live": 80}


# -- comparison ----------------------------------------------------------------------------------------------------


def traffic(harness: Harness, n: int, begin: int = 0, *, users: int | None = None, valued: bool = False) -> None:
    """Impressions and their ends, of users who like the arm b more: through the fold, without ranking."""
    ranker = harness.state.rankers["default"]
    for i in range(begin, begin + n):
        user = random.Random(i)
        subject = None if users is None else f"user {user.randrange(users)}"
        assigned = ranker.assign(f"e{i}", subject)
        rate = {"live": 0.3, "holdout": 0.2, "b": 0.6}[assigned.name]
        clicks = [1] if user.random() < rate else []
        ranked = Ranked(
            "default", "q", f"e{i}", harness.clock.now + i, 1, ["a", "b", "c"], "bbb", 0, arm=assigned.name,
            share=assigned.share, subject=assigned.subject,
        )  # fmt: skip
        values = [(1, 0.5)] if valued and clicks else []
        final = Final("default", f"e{i}", harness.clock.now + i, "feedback", clicks, values=values)
        seq = harness.state.seq
        ranker.experiment.count(seq + 1, ranked, final)


def test_equals_the_plain_version(harness: Harness):
    traffic(harness, 1500, users=400)
    ranker = harness.state.rankers["default"]
    reward, arm, share, bucket = [], [], [], []
    for i in range(1500):
        user = random.Random(i)
        assigned = ranker.assign(f"e{i}", f"user {user.randrange(400)}")
        reward.append(user.random() < {"live": 0.3, "holdout": 0.2, "b": 0.6}[assigned.name])
        arm.append(("holdout", "live", "b").index(assigned.name))
        share.append(assigned.share)
        bucket.append(assigned.subject % 200)
    for found in experiment(harness).comparisons:
        psi = plain.terms(reward, arm, share, ("holdout", "live", "b").index(found.arm), 0)
        half = plain.jackknife(psi, bucket) * np.sqrt(1500) * mixture_width(1500, 20_000)
        assert found.lists == 1500
        assert found.clicks is not None
        assert found.clicks.difference == pytest.approx(psi.mean(), rel=1e-9)
        assert (found.clicks.low, found.clicks.high) == pytest.approx((psi.mean() - half, psi.mean() + half), rel=1e-9)
    assert experiment(harness).by == "subject"


def test_days_and_certainty(harness: Harness):
    harness.clock.now = 20_000 * DAY + 0.5
    traffic(harness, 1000)
    first = {c.arm: c for c in experiment(harness).comparisons}
    assert first["b"].certain_since is not None
    assert first["b"].certain_since.isoformat().startswith("2024-10-04T00:")
    assert msgspec.to_builtins(first["b"])["since"] == "2024-10-04T00:00:00.500000Z"
    assert first["live"].certain_since is None
    assert first["b"].needed is not None
    assert first["b"].needed > 1000
    harness.clock.now += DAY
    traffic(harness, 1000, 1000)
    found = experiment(harness)
    assert [day.day for day in found.days] == ["2024-10-05", "2024-10-04"]
    for day in found.days:
        (b,) = [c for c in day.comparisons if c.arm == "b"]
        assert b.lists == 1000
        assert b.clicks is not None
        assert b.clicks.low < 0.4 < b.clicks.high
        assert sum(arm.lists for arm in day.arms) == 1000
    assert {c.arm: c.certain_since for c in found.comparisons}["b"] == first["b"].certain_since
    assert found.by == "event"


def test_days_are_bounded(harness: Harness):
    for _ in range(100):
        harness.clock.now += DAY
        traffic(harness, 1)
    assert len(experiment(harness).days) == 90


def test_values_are_compared(harness: Harness):
    traffic(harness, 1000, valued=True)
    (b,) = [c for c in experiment(harness).comparisons if c.arm == "b"]
    assert b.clicks is not None
    assert b.value is not None
    assert b.value.difference == pytest.approx(b.clicks.difference / 2, rel=1e-9)


def test_few_lists_or_subjects_are_refused(harness: Harness):
    traffic(harness, 200)
    assert {c.refused for c in experiment(harness).comparisons} == {"few"}
    traffic(harness, 3000, 200, users=10)
    put(harness, arms={"b": ArmSettings(share=0.3, seed=1)}, discard=True)
    traffic(harness, 3000, 5000, users=10)
    (b,) = [c for c in experiment(harness).comparisons if c.arm == "b"]
    assert (b.lists, b.refused, b.clicks) == (3000, "few", None)


def test_lost_feedback_is_refused(harness: Harness):
    traffic(harness, 2000)
    ranker = harness.state.rankers["default"]
    ranked = Ranked("default", "q", "x", 1.0, 1, ["a"], "l", 0, arm="b", share=0.3)
    for _ in range(100):
        ranker.experiment.count(harness.state.seq + 1, ranked, Final("default", "x", 1.0, "dropped"))
    found = {c.arm: c.refused for c in experiment(harness).comparisons}
    assert found == {"b": "lost-feedback", "live": None}


def test_pending_lists_are_refused_if_they_could_matter(harness: Harness):
    traffic(harness, 2000)
    ranker = harness.state.rankers["default"]
    assert {arm.pending for arm in experiment(harness).arms} == {0}
    ranked = Ranked("default", "q", "x", 1.0, 1, ["a"], "l", 0, arm="b", share=0.3)
    for refused, n in ((None, 20), ("pending", 280)):
        for _ in range(n):
            ranker.experiment.open(ranked)
        found = {c.arm: c.refused for c in experiment(harness).comparisons}
        assert found == {"b": refused, "live": None}
    assert {arm.arm: arm.pending for arm in experiment(harness).arms} == {"b": 300, "holdout": 0, "live": 0}


def test_a_holdout_that_ends_stops_its_comparison(harness: Harness):
    traffic(harness, 1000)
    put(harness, holdout=0.0, arms=ARMS)
    found = {(c.arm, c.baseline): c.running for c in experiment(harness).comparisons}
    assert found == {("b", "holdout"): False, ("live", "holdout"): False}
    assert experiment(harness).shares == {"live": 0.7, "b": 0.3}


def test_gauges(harness: Harness):
    traffic(harness, 1000)
    text = harness.service.metrics.render().decode()
    (b,) = [c for c in experiment(harness).comparisons if c.arm == "b"]
    assert b.clicks is not None
    line = f'driftrank_experiment_difference_low{{arm="b",baseline="holdout",ranker="default"}} {b.clicks.low}'
    assert line in text
    assert f'driftrank_experiment_lists{{arm="b",ranker="default"}} {float(experiment(harness).arms[0].lists)}' in text
    (live,) = [c for c in experiment(harness).comparisons if c.arm == "live"]
    found = live.best_known
    assert found is not None
    assert f'driftrank_holdout_difference_low{{ranker="default"}} {found.low}' in text


# -- the fold ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiny", [False, True])
def test_the_state_is_that_of_the_log(tmp_path: Path, tiny: bool):
    """Live, after kill -9, after a restart, and from the log alone, with arms, subjects, values, pages and changes."""
    how = {
        "arms": {"b": ArmSettings(share=0.3, policy="PriorRegimeTS:hash_bits=6")}, "holdout": 0.2, "stable": 40,
        "wait": 100, "second_click": "update", "values": {"buy": 0.5}, "explore": 0.5,
    }  # fmt: skip
    chance = random.Random(7)
    with Harness(tmp_path, ranker=how, tiny=tiny) as harness:
        for n in range(120):
            subject = chance.choice([None, "s1", "s2", "s3", "s4"])
            page = {"offset": 3} if subject is not None and chance.random() < 0.3 else {}
            answer = harness.rank(chance.choice("qr"), ITEMS, f"e{n}", subject=subject, **page)
            if chance.random() < 0.7:
                harness.feedback(f"e{n}", [str(chance.choice(answer.items).id)], kind=chance.choice(["buy", None]))
            harness.advance(chance.random() * 10)
            if n in (30, 90):
                harness.checkpoint()
            if n == 50:
                harness.reset("r")
            if n == 60:
                before = harness.dump()
                harness.recover()
                assert differences(harness.dump(), before) == []
            if n == 70:
                shares = {"b": ArmSettings(share=0.1, policy="PriorRegimeTS:hash_bits=6"), "c": ArmSettings(share=0.4)}
                harness.put(**({"policy": CHEAP, "k": 3} | how | {"arms": shares}))
        harness.advance(200)
        assert experiment(harness).arms
        assert harness.info().value != harness.info().clicks
        assert not harness.state.rankers["default"].waiting
        if tiny:  # queries of arms are in their snapshots
            harness.evict()
            text = experiment(harness)
            harness.restart()
            assert experiment(harness) == text
            return
        assert differences(harness.dump(), harness.dump_of_log()) == []
        before = harness.dump()
        harness.recover()
        for query in "qr":  # those that the checkpoint covers are loaded when they are asked for
            for arm in harness.state.rankers["default"].every_arm():
                harness.state.query(arm, query)
        assert differences(harness.dump(), before) == []
        harness.restart()
        assert experiment_of(harness.state.rankers["default"]).arms


def test_a_killed_server_goes_on(tmp_path: Path):
    """A real process: arms in TOML, subjects, values; kill -9; the same experiment, and the next page of a list."""
    (tmp_path / "driftrank.toml").write_text(
        """
        [rankers.default]
        policy = "CascadeUCB1"
        k = 2
        holdout = 0.2
        stable = "1h"
        [rankers.default.arms.b]
        share = 0.4
        [rankers.default.values]
        dwell = 0.3
        """
    )
    with Running(tmp_path, "--config", "driftrank.toml") as server, Client(server.url, deadline=60) as client:
        for n in range(30):
            answer = client.rank("q", ITEMS, subject=f"s{n % 10}", event_id=f"e{n}")
            client.feedback(f"e{n}", [answer.items[0].id], kind="dwell", wait=True)
        first, before, info = client.rank("q", ITEMS, subject="s1"), client.experiment(), client.ranker()
        server.kill()
        server.restart()
        assert client.experiment() == before
        assert sum(arm.value for arm in before.arms) == pytest.approx(9.0)
        after = client.ranker()
        assert (after.steps, after.clicks, after.value) == (info.steps, info.clicks, info.value)
        second = client.rank("q", ITEMS, subject="s1", offset=2)
        assert not {item.id for item in first.items} & {item.id for item in second.items}
        assert client.rank("q", ITEMS, subject="s1").items == first.items
        assert "s1" not in server.log
