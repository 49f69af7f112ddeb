"""Feeds for operators, without HTTP."""

from __future__ import annotations

from pathlib import Path

from driftrank.serve.answers.feeds import operations, top_queries
from driftrank.serve.state.traffic import ArmTraffic, QueryTraffic
from tests.serve.harness import Harness

DAY = 86_400.0


def entry(day: int, recent: int, live: tuple[int, int] = (0, 0), holdout: tuple[int, int] = (0, 0)) -> QueryTraffic:
    arms = [ArmTraffic(lists, clicks, clicks) for lists, clicks in (live, holdout)]
    return QueryTraffic(1, 0.0, day, recent, recent, *arms)


def names(harness: Harness, by: str, offset: int = 0, limit: int = 10) -> list[str]:
    return [row.query for row in top_queries(harness.service, "default", by, offset, limit)]  # type: ignore[arg-type]


def test_queries_in_each_order(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.state.rankers["default"].traffic.queries = {
            "ended": entry(90, 1000, (1000, 300)),
            "noisy": entry(100, 20, (10, 0), (1, 1)),  # one lucky click says little
            "worse": entry(100, 2000, (1800, 360), (200, 80)),
            "better": entry(100, 900, (800, 400), (100, 20)),
            "equal": entry(99, 3000, (2700, 270), (300, 30)),
        }
        assert names(harness, "traffic") == ["worse", "equal", "better", "noisy", "ended"]
        assert names(harness, "traffic", 1, 2) == ["equal", "better"]
        assert names(harness, "loss") == ["worse", "equal", "noisy", "better"], "those with a holdout"
        assert names(harness, "change") == []
        worse, *_ = top_queries(harness.service, "default", "loss", 0, 1)
        assert (worse.loss, worse.holdout.lists, worse.holdout.clicks) == (0.2, 200, 80)
        assert worse.loss_error is not None
        # sqrt(.4 * .6 / 200 + .2 * .8 / 1800)
        assert abs(worse.loss_error - 0.0359) < 0.0005
        ended = top_queries(harness.service, "default", "traffic", 4, 1)[0]
        assert (ended.loss, ended.loss_error) == (None, None)


def test_of_real_traffic(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.5}) as harness:
        for n in range(30):
            query = "often" if n % 3 else "seldom"
            harness.rank(query, ["a", "b", "c"], f"e{n}")
            harness.feedback(f"e{n}", [1])
        rows = top_queries(harness.service, "default", "traffic", 0, 10)
        assert [(row.query, row.lists, row.recent) for row in rows] == [("often", 20, 20), ("seldom", 10, 10)]
        for row in rows:
            assert row.live.lists + row.holdout.lists == row.live.clicks + row.holdout.clicks == row.lists
            assert row.live.lists
            assert row.holdout.lists
            assert row.since.timestamp() == 1_700_000_000
        with harness.refused(404, "no such ranker"):
            top_queries(harness.service, "nobody", "traffic", 0, 10)


def test_operations_of_one_ranker_and_of_all(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        for n in range(4):
            harness.put("shop", policy="CascadeUCB1", k=n + 1)
        harness.delete("shop")
        every = operations(harness.service, None, None, 100)
        assert {entry.ranker for entry in every} == {"default", "shop"}
        shop = operations(harness.service, "shop", None, 100)
        assert [entry.kind for entry in shop] == ["deleted", "changed", "changed", "changed", "created"]
        first = operations(harness.service, "shop", None, 2)
        assert first + operations(harness.service, "shop", first[-1].number, 2) == shop[:4]
        assert operations(harness.service, "shop", shop[-1].number, 2) == []
        assert shop[0].time.timestamp() == 1_700_000_000
        with harness.refused(404, "no such ranker"):
            operations(harness.service, "nobody", None, 100)
