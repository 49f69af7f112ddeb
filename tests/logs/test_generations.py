"""Click models of users who change: any model, fitted between the changes of each item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import driftrank as dr
from driftrank.clickmodels.registry import click_model, click_models
from driftrank.environments import Replay
from driftrank.logs.count.statistics import aggregate
from driftrank.logs.generations import Generations, QueryTable, fit_generations
from driftrank.logs.query_lists import lists_of
from driftrank.queries import Queries

TEA = Queries(
    {"tea": np.array([0.5, 0.3, 0.1, 0.2]), "hats": np.array([0.2, 0.4, 0.1, 0.1])},
    changes={"tea": ((1500, (0.1, 0.3, 0.6, 0.2)),)},
)


def world(model: str) -> Replay:
    return Replay(TEA, k=2, click_model=click_model(model)(objective="any"))


@pytest.mark.parametrize("model", [name for name, cls in click_models().items() if cls.statistics])
def test_environment_of_every_model(model: str, tmp_path: Path) -> None:
    truth = world(model)
    dr.logs.generate(tmp_path / "log.parquet", truth, 6000, length=3, seed=2)
    found = dr.logs.environment(dr.logs.open_log(tmp_path / "log.parquet"), k=2, model=model)
    assert type(found.users("tea")).__name__ == model
    assert found.users("tea").objective == "any"
    assert found.breakpoints(3000, "tea") == [pytest.approx(1500, abs=40)]
    assert found.breakpoints(3000, "hats") == []
    for query in TEA:
        slots = [item % 1000 for item in found.queries.items[query]]
        for step in (1000, 2500):
            assert found.attraction(step, query) == pytest.approx(truth.attraction(step, query)[slots], abs=0.07)


def test_unchanged_items_use_all_lists(tmp_path: Path) -> None:
    """An item that does not change has one generation, whatever changes beside it."""
    dr.logs.generate(tmp_path / "log.parquet", world("CM"), 6000, length=3, seed=2)
    log = dr.logs.open_log(tmp_path / "log.parquet")
    drifts = dr.logs.drift(log, queries=["tea", "hats"])
    assert [set(change.items) for change in drifts[0].changes] == [{1000, 1002}]
    generations = Generations.of([QueryTable.of(lists) for lists in lists_of(log, ["tea", "hats"])], drifts)
    assert len(generations.pairs) == 4 + 2 + 4
    tea, _ = generations.queries(fit_generations(click_model("CM"), generations.counts()))
    changed = tea.attraction[0] != tea.attraction[1]
    assert {tea.items[code] for code in np.flatnonzero(changed)} == {1000, 1002}


def test_positions_of_lists_as_in_sql(tmp_path: Path) -> None:
    dr.logs.generate(tmp_path / "log.parquet", world("DCM"), 500, length=3, seed=2)
    lists = aggregate(dr.logs.open_log(tmp_path / "log.parquet"), "lists")
    ours, theirs = lists.counts().positions(), lists.to("positions").counts()
    for name in ("pair", "rank", "previous", "views", "clicks", "examined", "last_clicks"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def test_folds_are_the_whole(tmp_path: Path) -> None:
    dr.logs.generate(tmp_path / "log.parquet", world("CM"), 100, length=2, seed=2)
    log = dr.logs.open_log(tmp_path / "log.parquet")
    tables = [QueryTable.of(lists) for lists in lists_of(log, ["tea"])]
    generations = Generations.of(tables, dr.logs.drift(log, queries=["tea"]))
    whole, held, others = (int(generations.counts(fold).lists.sum()) for fold in (None, 2, -3))
    assert (held, held + others) == (-(-(whole - 2) // 5), whole)
    again = QueryTable.of(tables[0].lists())
    assert np.array_equal(again.slots, tables[0].slots)
    assert np.array_equal(again.mask, tables[0].mask)
