"""Old click logs, and the states of other services."""

from __future__ import annotations

import asyncio
import random

import pytest

from driftrank.policies.registry import parse_policy
from driftrank.serve.state.query import Query
from driftrank.wire import RankRequest, WarmRow
from tests.serve.harness import Harness, differences

ITEMS = ["a", "b", "c", "d", "e"]


def old_log(n: int, seed: int = 0) -> list[WarmRow]:
    chance = random.Random(seed)
    rows = []
    for t in range(n):
        ranking = chance.sample(ITEMS, chance.randint(1, 3))
        clicks = [place for place in range(1, len(ranking) + 1) if chance.random() < 0.3]
        rows.append(WarmRow(chance.choice(["q", "p"]), ranking, clicks, time=1_000_000.0 + 100 * t))
    return rows


@pytest.mark.parametrize("spec", ["CascadeUCB1", "CascadeDUCB:half_life=10m", "CascadeTS"])
def test_an_old_log_is_learnt_as_by_a_learner(tmp_path, spec):
    rows = old_log(200)
    policy = parse_policy(spec)
    with Harness(tmp_path, spec) as harness:
        assert harness.warmstart(rows).counted == 200
        for query in "pq":
            its = [row for row in rows if row.query == query]
            learner = policy.start(its[0].ranking, 3, query=query, slots=3)
            for row in its:
                new = [item for item in row.ranking if item not in learner.items]
                if new:
                    learner.add_items(new)
                vector = [int(place in row.clicks) for place in range(1, len(row.ranking) + 1)]
                learner.update(row.ranking, vector, now=row.time)
            served = harness.state.query(harness.state.rankers["default"], query)
            assert served.learner.to_bytes() == learner.to_bytes()
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_batch_counts_once(tmp_path):
    with Harness(tmp_path) as harness:
        rows = old_log(30)
        counted = harness.warmstart(rows, "march")
        assert (counted.counted, counted.duplicates) == (30, 0)
        harness.recover()
        counted = harness.warmstart([*rows, *old_log(5, 1)], "march")
        assert (counted.counted, counted.duplicates) == (5, 30)
        assert harness.warmstart(rows, "april").counted == 30
        assert harness.warmstart(rows).counted == 30
        assert harness.info().steps == 95
        harness.reset()
        assert harness.warmstart(rows, "march").counted == 30, "after a reset it may be sent again"


def test_times_of_an_old_log(tmp_path):
    with Harness(tmp_path, "CascadeDUCB:half_life=10m") as harness:
        rows = [WarmRow("q", ["a", "b"], [1], time=when) for when in (-5.0, 1e300, 0.0, None, 1)]
        assert harness.warmstart(rows).counted == 5
        assert harness.state.query(harness.state.rankers["default"], "q").now == harness.clock.now
        assert harness.state.clock == harness.clock.now
        harness.rank("q", ["a", "b"], "e")
        assert harness.outcome("e", [1]) == "counted"


def test_malformed_rows(tmp_path):
    with Harness(tmp_path) as harness:
        good = WarmRow("q", ["a"], [1])
        for row, says in (
            (WarmRow("q", []), "at least one item"),
            (WarmRow("q", ["a", "a"]), "occurs twice"),
            (WarmRow("q", ["a"], [0]), "must be positions from 1 to 1"),
            (WarmRow("q", ["a"], [2]), "must be positions from 1 to 1"),
            (WarmRow("q" * 600, ["a"]), "600 characters"),
            (WarmRow("q", [""]), "0 characters"),
            (WarmRow("q", [2**64]), "64 bits"),
        ):
            with harness.refused(422, f"row 2: {'' if says != '64 bits' else 'ranking'}"):
                harness.warmstart([good, row])
            with harness.refused(422, says):
                harness.warmstart([good, row])
        with harness.refused(422, "batch"):
            harness.warmstart([good], "x" * 300)
        assert harness.info().steps == 0
        assert harness.warmstart([WarmRow("q", list("abcdef"), [2, 5, 5])]).counted == 1, "rankings longer than k"
        assert harness.info().clicks == 1
        assert harness.warmstart([]).counted == 0


@pytest.mark.parametrize("spec", ["CascadeUCB1", "CascadeTS", "CascadeLinUCB", "RankedEXP3"])
def test_from_one_service_to_another(tmp_path, spec):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with Harness(tmp_path / "one", spec) as one, Harness(tmp_path / "other", spec, tiny=True) as other:
        for n in range(60):
            query = ("q", "a/b", "")[n % 3]
            one.rank(query, [*ITEMS, n % 7], f"e:{n}")
            one.feedback(f"e:{n}", [1])
        states = one.export()
        assert sorted(states) == ["", "a/b", "q"]
        assert other.import_(states).counted == 3
        other.evict()
        other.recover()
        for n in range(20):
            for query in states:
                items = [*ITEMS, 1, 2, 3]
                assert one.rank(query, items, f"{query}{n}").items == other.rank(query, items, f"{query}{n}").items
                assert one.feedback(f"{query}{n}", [1]) == other.feedback(f"{query}{n}", [1])
        assert other.info().queries == 3
        assert not differences(other.dump(), other.dump_of_log())
        assert other.import_(states).counted == 3, "existing states are replaced"
        assert other.info().queries == 3
        assert {query: state.steps for query in states if (state := other.query(query))} == dict.fromkeys(states, 20)


def test_states_of_other_settings_and_damaged_states(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("q", ITEMS)
        state = harness.export()["q"]
        harness.put("other", policy="CascadeDUCB", k=3)
        harness.put("longer", policy="CascadeUCB1", k=4)
        harness.put("shorter", policy="CascadeUCB1", k=2)
        with harness.refused(422, "query 'q': of CascadeUCB1, this ranker has CascadeDUCB"):
            harness.import_({"q": state}, "other")
        for ranker, k in (("longer", 4), ("shorter", 2)):
            harness.import_({"q": state}, ranker)
            assert len(harness.shown("q", ITEMS, ranker=ranker)) == k
        for damaged in (
            b"",
            b"x",
            state[:-1],
            state[:50],
            b"\x00" * 100,
            state[:60] + b"xx" + state[62:],
            b"\x91" * 500,
        ):
            with harness.refused(422, "Bad state"):
                harness.import_({"q": damaged})
        with harness.refused(422, "600 characters"):
            harness.import_({"q" * 600: state})
        assert harness.import_({}).counted == 0


def test_a_state_that_no_service_wrote(tmp_path):
    """A learner of the library cannot lose items below k; one of the service must."""
    with Harness(tmp_path, ranker={"wait": 10, "forget_items": 10}) as harness:
        query = Query(parse_policy("CascadeUCB1").start(ITEMS, 3), 0)
        query.seen = dict.fromkeys(ITEMS, 1.0)
        harness.import_({"q": query.to_bytes()})
        for n in range(3):
            assert len(harness.shown("q", ["x", n], f"e{n}")) == 2
            harness.advance(100)
        assert harness.info().steps == 3
        assert not differences(harness.dump(), harness.dump_of_log())
        harness.restart()


def test_an_export_during_changes(tmp_path):
    with Harness(tmp_path) as harness:
        harness.run(harness.service.rank("default", [RankRequest(f"q{n:03}", ITEMS) for n in range(250)]))

        async def export() -> list[str]:
            names = []
            async for name, state in harness.transfer.export("default"):
                Query.from_bytes(state)
                names.append(name)
                if len(names) == 50:
                    await harness.service.reset("default", "q200", gone=True)
                    await harness.service.rank("default", [RankRequest("q000", ["new"])])
            return names

        assert harness.run(export()) == [f"q{n:03}" for n in range(250) if n != 200]

        async def deleted() -> None:
            async for name, _ in harness.transfer.export("default"):
                if name == "q010":
                    await harness.service.delete_ranker("default")
                    settings = harness.settings.rankers["default"]
                    await harness.service.put_ranker("default", settings)

        with harness.refused(409, "deleted meanwhile"):  # half an export must not look complete
            harness.run(deleted())


def test_an_export_of_a_ranker_that_is_reset_meanwhile(tmp_path):
    with Harness(tmp_path) as harness:
        harness.run(harness.service.rank("default", [RankRequest(f"q{n:03}", ITEMS) for n in range(250)]))

        async def export() -> None:
            async for name, _ in harness.transfer.export("default"):
                if name == "q010":
                    await harness.service.reset("default")

        with harness.refused(409, "was reset meanwhile"):  # half an export must not look complete
            harness.run(export())


def test_an_import_stays_within_the_memory(tmp_path):
    memory = 200_000
    with Harness(tmp_path, memory=memory) as harness:
        harness.rank("q", ITEMS)
        (state,) = harness.export().values()
        one, most = harness.state.queries.nbytes, []

        async def import_() -> None:
            await harness.transfer.import_("default", [(f"q{n}", state) for n in range(2000)])

        folded = harness.service.maintenance.folded
        harness.service.maintenance.folded = lambda records: (
            folded(records),
            most.append(harness.state.queries.nbytes),
        )
        harness.run(import_())
        assert max(most) < 1.25 * memory + 102 * one, "plus what is folded at once"
        assert harness.info().queries == 2001


def test_a_state_of_another_version_in_the_log_does_not_prevent_a_start(tmp_path, monkeypatch, caplog):
    with Harness(tmp_path) as harness:
        harness.warmstart([WarmRow("q", ["a", "b"], [1])])
        harness.import_(harness.export())
        harness.crash()
        monkeypatch.setattr("driftrank.policies.stationary.cascade_ucb1.CascadeUCB1.version", 2)
        harness.open()
        assert harness.replay.records == 4
    assert "record 4: not learnt" in caplog.text


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_batch_counts_once_when_its_ranker_is_reset_meanwhile(tmp_path, turns):
    rows = [WarmRow("q", ["a", "b"], [1])] * 2500
    with Harness(tmp_path) as harness:

        async def both() -> None:
            sent = asyncio.ensure_future(harness.transfer.warmstart("default", rows, "log"))
            for _ in range(turns):  # of the event loop: the reset is in the log before or after the first rows
                await asyncio.sleep(0)
            await harness.service.reset("default")
            await sent

        with harness.refused(409, "was reset meanwhile"):
            harness.run(both())
        assert harness.info().steps == 0
        assert harness.warmstart(rows, "log").counted == 2500
        assert harness.warmstart(rows, "log").duplicates == 2500
        assert harness.info().steps == 2500
        assert not differences(harness.dump(), harness.dump_of_log())
