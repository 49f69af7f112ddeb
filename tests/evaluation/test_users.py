"""Users as the unit of intervals: those who return, who are few, and who are not known."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import driftrank as dr
from driftrank.evaluation.base import Batch, known_estimators, target_rest
from driftrank.evaluation.cells import Cells
from driftrank.evaluation.checks import LogChecks
from driftrank.evaluation.estimate import How, Model, estimate
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.shadow import Learners, in_order
from driftrank.evaluation.sums import Sums
from driftrank.evaluation.warehouse import print_sql
from tests.evaluation.worlds import BEST, draw, softmax, value, write

UNKNOWN = Model(0.0, 1.0, (0.0, 1.0))
CELLS = Cells(1)


def rows_of(first: np.ndarray, bucket: np.ndarray) -> Batch:
    """Lists of one item that are those of the target."""
    n = len(first)
    hazard = np.full((n, 1), 0.5)
    return Batch(
        first, np.ones((n, 2)), hazard, target_rest(hazard), np.zeros(n), first[:, None] == 1, "any",
        CELLS.number(np.zeros(n, bool), np.zeros(n, int), bucket), np.zeros(n, np.int64),
    )  # fmt: skip


def test_exact_intervals_of_users_who_return() -> None:
    """200 users with 50 lists each, half of whom always click: the truth is .5. By lists it would be held in .2."""
    rng = np.random.default_rng(1)
    prefix, how = known_estimators()["prefix"], How(interval="empirical-bernstein")
    held = []
    for _ in range(100):
        clicks, bucket = (rng.integers(0, most, 200).repeat(50) for most in (2, CELLS.buckets))
        scope = Sums.of([rows_of(2 - clicks, bucket)], {"prefix": prefix}, CELLS, 1).scope(False)
        found = estimate(scope, prefix, LogChecks(()), how, UNKNOWN)
        assert found.interval == "empirical-bernstein"
        held.append(found.low <= 0.5 <= found.high)  # type: ignore[operator]
    assert np.mean(held) >= 0.95


def test_exact_intervals_by_hand() -> None:
    """Three buckets of 2, 1 and 1 lists, with clicks on 1, 1 and 0 of them. In units of 2 lists: terms .5, .5, 0, with
    the guesses 2 (.5/1), 1 (1.5/3), 1 (2.5/4) in lists, so .5, .25, .3125; v = 0 + .0625 + .09765625.
    """
    first, bucket = np.array([1, 2, 1, 2]), np.array([0, 0, 4, 9])
    prefix = known_estimators()["prefix"]
    scope = Sums.of([rows_of(first, bucket)], {"prefix": prefix}, CELLS, 1).scope(False)
    assert scope.bernstein("gains") == (1.0, 0.16015625, 2.0)


def test_no_value_of_positions_that_nothing_tells_of() -> None:
    """Lists that match at the top are all clicked there, so nothing is known of position 2."""
    n, key = 150, "product-limit"
    first = np.where(np.arange(n) % 3, 1, 3)
    weight = np.column_stack([np.ones(n), np.where(first == 1, 1.5, 0.0), np.zeros(n)])
    hazard = np.full((n, 2), 0.5)
    batch = Batch(
        first, weight, hazard, target_rest(hazard), np.zeros(n), first[:, None] == [1, 2], "any",
        CELLS.number(np.zeros(n, bool), np.zeros(n, int), np.arange(n)), np.zeros(n, np.int64),
    )  # fmt: skip
    estimator = known_estimators()[key]
    scope = Sums.of([batch], {key: estimator}, CELLS, 1).scope(False)
    found = estimate(scope, estimator, LogChecks(()), How(), UNKNOWN)
    assert (found.value, found.low) == (None, None)
    assert "few" in [refusal.code for refusal in found.refused]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("users")


def test_few_users_have_no_interval(folder: Path) -> None:
    """One user, and forty: no number, and no NaN in JSON."""
    drawn = draw(np.random.default_rng(2), 2000, softmax)
    for users in (1, 40):
        found = dr.evaluate(write(folder / "few.parquet", drawn, np.arange(2000) % users), BEST, changes=0)
        target = json.loads(json.dumps(found.to_dict(), allow_nan=False))["targets"][0]
        assert target["whole"]["value"] is None
        assert "few-users" in [refusal["code"] for refusal in target["whole"]["refused"]]
        assert all(each["value"] is None for each in target["ladder"])
        assert target["difference"] is None


def test_users_that_are_not_known(folder: Path) -> None:
    drawn = draw(np.random.default_rng(3), 2000, softmax)
    for known, passed, text in ((0, None, "No list names its user"), (1500, None, "25.0%"), (2000, True, "the unit")):
        user = pa.array([n if n < known else None for n in range(2000)], pa.int64())
        found = dr.evaluate(write(folder / "known.parquet", drawn, user=user), BEST, changes=0)
        assert found.checks["clusters"].passed is passed
        assert text in found.checks["clusters"].text
        assert found["rankings"].value is not None


def test_lists_of_a_service_that_are_set_apart(folder: Path) -> None:
    """A third are pages after the first, 100 are of the holdout, and 50 have pinned items; the truth is of the rest."""
    drawn = draw(np.random.default_rng(6), 3000, softmax)
    offset = np.arange(3000) % 3 // 2 * 3
    drawn.first[offset > 0] = 4  # nobody clicks there
    arms = np.where(np.arange(3000) < 300, "holdout", "live")
    p = [None if arm == "holdout" and not n % 3 else row for n, (arm, row) in enumerate(
        zip(arms.tolist(), drawn.propensities.tolist(), strict=True))]  # fmt: skip
    path = write(
        folder / "served.parquet", drawn, arm=pa.array(arms), offset=pa.array(offset, pa.int32()),
        pinned=pa.array([[1] if n >= 2850 and n % 3 == 0 else [] for n in range(3000)], pa.list_(pa.int16())),
        propensities=pa.array(p, pa.list_(pa.float64())),
    )  # fmt: skip
    found = dr.evaluate(path, BEST, changes=0)
    apart = {"lists of the holdout": 100, "pages after the first": 1000, "lists with pinned items": 50}
    assert found.checks["left-out"].numbers == {"lists": apart}
    assert found.lists == 3000 - 1150
    target = found["rankings"]
    assert target.low < value() < target.high  # type: ignore[operator]
    assert found.to_dict()["checks"][-1]["code"] == "left-out"


@pytest.mark.interpreted
def test_learners_have_the_callers_order(folder: Path) -> None:
    """A new query starts from it, if the log has it."""
    order = [3, 5, 1]
    drawn = draw(np.random.default_rng(5), 60, softmax)
    path = write(folder / "order.parquet", drawn, baseline=pa.array([order] * 60, pa.list_(pa.int64())))
    with LogRows(dr.logs.open_log(path), 3) as rows:
        learners = Learners(rows, dr.PriorRegimeTS())
        first = next(in_order(rows))
        assert learners.greedy(first.code) == [0, 1, 2]  # as they are numbered: nothing is known
        learners.learn(first)
        places = learners._prior(learners.of(first.code), first).described.place
        assert [place for item, place in zip(first.items, places, strict=True) if item in order] == [
            order.index(item) + 1 for item in first.items if item in order
        ]
        assert learners._orders[first.code] == [3, 5, 1, 0, 2, 4]


def test_the_sql_for_warehouses_spreads_lists_without_users(folder: Path) -> None:
    """They are independent, not all of one user."""
    drawn = draw(np.random.default_rng(4), 4000, softmax)
    path = write(folder / "none.parquet", drawn, user=pa.nulls(4000, pa.int64()))
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE log AS SELECT * FROM '{path}'")
        connection.execute("CREATE TABLE target (query VARCHAR, ranking BIGINT[])")
        connection.executemany("INSERT INTO target VALUES (?, ?)", [[q, r] for q, r in BEST.items()])
        found = connection.execute(print_sql(3)).fetchnumpy()
    assert len(found["bucket"]) > 190
    assert found["lists"].max() < 60
