"""What was learnt elsewhere: old click logs, and the states of other services."""

from __future__ import annotations

import random

import pytest

from driftrank.policies.registry import parse_policy
from driftrank.serve.query import Query
from driftrank.wire import RankRequest, WarmRow
from tests.serve.house import House, differences

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
    with House(tmp_path, spec) as house:
        assert house.warmstart(rows).counted == 200
        for query in "pq":
            its = [row for row in rows if row.query == query]
            learner = policy.start(its[0].ranking, 3, query=query, slots=3)
            for row in its:
                new = [item for item in row.ranking if item not in learner.items]
                if new:
                    learner.add_items(new)
                vector = [int(place in row.clicks) for place in range(1, len(row.ranking) + 1)]
                learner.update(row.ranking, vector, now=row.time)
            served = house.fold.query(house.fold.rankers["default"], query)
            assert served.learner.to_bytes() == learner.to_bytes()
        assert not differences(house.state(), house.folded_anew())


def test_a_batch_counts_once(tmp_path):
    with House(tmp_path) as house:
        rows = old_log(30)
        counted = house.warmstart(rows, "march")
        assert (counted.counted, counted.duplicates) == (30, 0)
        house.recover()
        counted = house.warmstart([*rows, *old_log(5, 1)], "march")
        assert (counted.counted, counted.duplicates) == (5, 30)
        assert house.warmstart(rows, "april").counted == 30
        assert house.warmstart(rows).counted == 30
        assert house.info().steps == 95
        house.reset()
        assert house.warmstart(rows, "march").counted == 30, "what was forgotten may be told again"


def test_times_of_an_old_log(tmp_path):
    with House(tmp_path, "CascadeDUCB:half_life=10m") as house:
        rows = [WarmRow("q", ["a", "b"], [1], time=when) for when in (-5.0, 1e300, 0.0, None, 1)]
        assert house.warmstart(rows).counted == 5
        assert house.fold.query(house.fold.rankers["default"], "q").now == house.clock.now
        assert house.fold.clock == house.clock.now
        house.rank("q", ["a", "b"], "e")
        assert house.outcome("e", [1]) == "counted"


def test_rows_that_are_wrong(tmp_path):
    with House(tmp_path) as house:
        good = WarmRow("q", ["a"], [1])
        for row, says in (
            (WarmRow("q", []), "at least one item"),
            (WarmRow("q", ["a", "a"]), "occurs twice"),
            (WarmRow("q", ["a"], [0]), "positions go from 1 to 1"),
            (WarmRow("q", ["a"], [2]), "positions go from 1 to 1"),
            (WarmRow("q" * 600, ["a"]), "600 characters"),
            (WarmRow("q", [""]), "0 characters"),
            (WarmRow("q", [2**64]), "64 bits"),
        ):
            with house.refused(422, f"row 2: {'' if says != '64 bits' else 'ranking'}"):
                house.warmstart([good, row])
            with house.refused(422, says):
                house.warmstart([good, row])
        with house.refused(422, "batch"):
            house.warmstart([good], "x" * 300)
        assert house.info().steps == 0
        assert house.warmstart([WarmRow("q", list("abcdef"), [2, 5, 5])]).counted == 1, "lists longer than k"
        assert house.info().clicks == 1
        assert house.warmstart([]).counted == 0


@pytest.mark.parametrize("spec", ["CascadeUCB1", "CascadeTS", "CascadeLinUCB", "RankedEXP3"])
def test_from_one_service_to_another(tmp_path, spec):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with House(tmp_path / "one", spec) as one, House(tmp_path / "other", spec, tiny=True) as other:
        for n in range(60):
            query = ("q", "a/b", "")[n % 3]
            shown = one.shown(query, [*ITEMS, n % 7], f"e:{n}")
            one.feedback(f"e:{n}", [1] if isinstance(shown[0], int) else [shown[0]])
        states = one.export()
        assert sorted(states) == ["", "a/b", "q"]
        assert other.import_(states).counted == 3
        other.write_out()
        other.recover()
        for n in range(20):
            for query in states:
                items = [*ITEMS, 1, 2, 3]
                assert one.rank(query, items, f"{query}{n}").items == other.rank(query, items, f"{query}{n}").items
                assert one.feedback(f"{query}{n}", [1]) == other.feedback(f"{query}{n}", [1])
        assert other.info().queries == 3
        assert not differences(other.state(), other.folded_anew())
        assert other.import_(states).counted == 3, "replaces what is there"
        assert other.info().queries == 3
        assert {query: state.steps for query in states if (state := other.query(query))} == dict.fromkeys(states, 20)


def test_states_that_do_not_fit(tmp_path):
    with House(tmp_path) as house:
        house.rank("q", ITEMS)
        state = house.export()["q"]
        house.put("other", policy="CascadeDUCB", k=3)
        house.put("longer", policy="CascadeUCB1", k=4)
        for ranker in ("other", "longer"):
            with house.refused(422, "query 'q': of CascadeUCB1 with k=3"):
                house.import_({"q": state}, ranker)
        for damaged in (
            b"",
            b"x",
            state[:-1],
            state[:50],
            b"\x00" * 100,
            state[:60] + b"xx" + state[62:],
            b"\x91" * 500,
        ):
            with house.refused(422, "bad state"):
                house.import_({"q": damaged})
        with house.refused(422, "600 characters"):
            house.import_({"q" * 600: state})
        assert house.import_({}).counted == 0


def test_a_state_that_no_service_wrote(tmp_path):
    """A learner of the library cannot lose items below k; one of the service must."""
    with House(tmp_path, ranker={"wait": 10, "forget_items": 10}) as house:
        query = Query(parse_policy("CascadeUCB1").start(ITEMS, 3), 0)
        query.seen = dict.fromkeys(ITEMS, 1.0)
        house.import_({"q": query.to_bytes()})
        for n in range(3):
            assert len(house.shown("q", ["x", n], f"e{n}")) == 2
            house.pass_(100)
        assert house.info().steps == 3
        assert not differences(house.state(), house.folded_anew())
        house.restart()


def test_an_export_while_things_change(tmp_path):
    with House(tmp_path) as house:
        house.run(house.service.rank("default", [RankRequest(f"q{n:03}", ITEMS) for n in range(250)]))

        async def export() -> list[str]:
            names = []
            async for name, state in house.transfer.export("default"):
                Query.from_bytes(state)
                names.append(name)
                if len(names) == 50:
                    await house.service.reset("default", "q200", gone=True)
                    await house.service.rank("default", [RankRequest("q000", ["new"])])
            return names

        assert house.run(export()) == [f"q{n:03}" for n in range(250) if n != 200]

        async def deleted() -> None:
            async for name, _ in house.transfer.export("default"):
                if name == "q010":
                    await house.service.delete_ranker("default")
                    settings = house.settings.rankers["default"]
                    await house.service.put_ranker("default", settings)

        with house.refused(409, "deleted meanwhile"):  # half an export must not look like a whole one
            house.run(deleted())
