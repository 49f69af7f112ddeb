"""Changes are found in a log where they are, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from driftrank.clickmodels import CM, DCM, PBM, SDBN, ClickModel
from driftrank.environments import Abrupt, Replay, Stationary
from driftrank.logs import open_log
from driftrank.logs.change_test import ItemChange, Labels, _evidence, _integrals, _placed, changes_of, estimated
from driftrank.logs.changes import QueryDrift, _moments, drift, find_changes
from driftrank.logs.examination import Examination, examination_of
from driftrank.logs.generation import generate
from driftrank.logs.query_lists import QueryLists
from driftrank.queries import Queries, yandex_like

#: users who seldom look down
PLACES = PBM(examination=(1, 0.6, 0.4, 0.25, 0.15))
READ = Examination(np.ones(1), np.ones(1), np.ones(1))


@pytest.mark.parametrize("model", [CM(), DCM(), SDBN(satisfaction=0.5)], ids=lambda m: type(m).__name__)
def test_the_papers_changes(tmp_path: Path, model: ClickModel) -> None:
    """Every breakpoint is found within a few lists, with the items that changed and what they changed to."""
    env = Abrupt(yandex_like(2), k=3, period=1500, click_model=model)
    generate(tmp_path / "log.parquet", env, 8000)
    found = drift(open_log(tmp_path / "log.parquet"))
    assert sorted(f.query for f in found) == sorted(env.names)
    for f in found:
        slots = [item % 1000 for item in f.items]
        truth = env.breakpoints(f.lists, f.query)
        assert len(truth) == 2
        assert [c.after for c in f.changes] == pytest.approx(truth, abs=40)
        levels = np.array([env.attraction(t, f.query)[slots] for t in (1, 1501, 3001)])
        for change, before, after in zip(f.changes, levels, levels[1:], strict=False):
            assert set(change.items) <= {i for i, b, a in zip(f.items, before, after, strict=True) if b != a}
        inside = (f.low <= levels) & (levels <= f.high)
        assert inside.mean() > 0.8  # of 95% intervals; those next to a misplaced change are off
        assert np.abs(f.attraction - levels).mean() < 0.02


def test_nothing_is_found_where_nothing_changes(tmp_path: Path) -> None:
    generate(tmp_path / "log.parquet", Stationary(yandex_like(10)), 30_000)
    assert sum(len(f.changes) for f in drift(open_log(tmp_path / "log.parquet"))) == 0


def shown(users: ClickModel, orders: NDArray[np.int64], attraction: NDArray[np.float64], seed: int) -> QueryLists:
    """The lists of a query whose items were shown in these orders; one row of attraction per list."""
    n, k = orders.shape
    rng = np.random.default_rng(seed)
    clicks = np.zeros((n, k), np.int8)
    m, keys = users.row(k, k), rng.integers(0, 2**63, n, dtype=np.uint64)
    for i in range(n):
        type(users).click(m, attraction[i], keys[i], orders[i].astype(np.uint32), clicks[i])
    numbers = np.arange(1, n + 1)
    ranks = np.tile(np.arange(1, k + 1), n)
    return QueryLists(
        f"q{seed}", numbers.tolist(), np.arange(k), orders.ravel(), np.repeat(numbers, k), ranks,
        clicks.ravel().astype(bool),
    )  # fmt: skip


def found_in(swaps: float, changed: bool, queries: int = 4, n: int = 3000) -> list[QueryDrift]:
    """The changes of queries whose order is reversed half-way; neighbours are exchanged in a part of the lists."""
    logs = []
    for q in range(queries):
        rng = np.random.default_rng([q, 5])
        orders = np.repeat([np.arange(5), np.arange(5)[::-1]], n // 2, axis=0)
        for row in np.flatnonzero(rng.random(n) < swaps):
            k = rng.integers(4)
            orders[row, [k, k + 1]] = orders[row, [k + 1, k]]
        alpha = np.tile([0.5, 0.3, 0.25, 0.2, 0.15], (n, 1))
        if changed:
            alpha[n // 2 :, 1:3] = 0.1, 0.6
        logs.append(shown(PLACES, orders, alpha, q))
    return find_changes(lambda: iter(logs), delta=0.01)


def test_a_new_order_is_not_a_change_of_users() -> None:
    """With some randomness in the shown order, positions are told from users; examination is found."""
    nothing = found_in(swaps=0.5, changed=False)
    assert not any(f.changes for f in nothing)
    something = found_in(swaps=0.5, changed=True)
    assert all(any(2 in c.items and abs(c.after - 1500) <= 200 for c in f.changes) for f in something)


def test_order_and_time_that_cannot_be_told_apart_are_refused() -> None:
    """Every item keeps its rank until the order changes: fewer clicks lower down tell nothing of users."""
    nothing = found_in(swaps=0.0, changed=False)
    assert not any(f.changes for f in nothing)
    assert all(f.confounded for f in nothing)
    assert all(abs(c.after - 1500) <= 40 for f in nothing for c in f.confounded)


def test_more_clicks_lower_down_are_a_change_in_any_case() -> None:
    """No position effect explains that an item is clicked more often at a lower rank."""
    orders = np.repeat([[0, 1], [1, 0]], 1000, axis=0)
    alpha = np.repeat([[0.1, 0.3], [0.6, 0.3]], 1000, axis=0)
    (found,) = find_changes(lambda: iter([shown(PBM(examination=(1, 0.8)), orders, alpha, 1)]))
    assert [c.items for c in found.changes] == [(0,)]


def test_examination_is_that_of_the_users() -> None:
    """Also if attraction changes with the order."""
    rng = np.random.default_rng(0)
    orders = np.argsort(rng.random((4000, 5)), axis=1)
    alpha = np.repeat([[0.5, 0.3, 0.25, 0.2, 0.15], [0.2, 0.2, 0.4, 0.1, 0.3]], 2000, axis=0)
    users = [shown(PLACES, orders, alpha, q) for q in range(3)]
    found = examination_of(users, 5, 0.99)
    truth = np.array(PLACES.examination)
    assert found.estimate == pytest.approx(truth, abs=0.05)
    assert ((found.low <= truth) & (truth <= found.high)).all()
    assert found.known[1:].all()
    fixed = shown(PLACES, np.tile(np.arange(5), (500, 1)), alpha[:500], 0)
    unknown = examination_of([fixed], 5, 0.99)
    assert unknown.estimate.tolist() == [1.0] * 5
    assert not unknown.known[1:].any()


def test_only_what_is_asked(tmp_path: Path) -> None:
    queries = Queries(Queries.of({"a": [0.9, 0.1], "b": [0.5, 0.5]}).attraction, changes={"a": ((500, (0.1, 0.9)),)})
    generate(tmp_path / "log.parquet", Replay(queries, k=2), 3000, zipf=1.0)
    log = open_log(tmp_path / "log.parquet")
    assert [f.query for f in drift(log, top=1)] == ["a"]
    (b,) = drift(log, queries=["b"], items=1)
    assert len(b.items) == 1
    (a,) = drift(log, queries=["a"])
    change = a.changes[0]
    with log.connect() as connection:
        times = connection.execute(f"SELECT time FROM {log.relation} WHERE query = 'a' ORDER BY time").fetchall()
    assert change.time == times[change.after - 1][0]
    for wrong in ({"top": 0}, {"items": 0}, {"delta": 0}, {"queries": ["c"]}):
        with pytest.raises(ValueError, match=next(iter(wrong)).replace("queries", "query")):
            drift(log, **wrong)  # type: ignore[arg-type]


def test_integral_of_a_likelihood() -> None:
    """With certain examination it is a Beta function: 3! 7! / 11!; without a click 1 / 11."""
    sums = np.array([[3.0, 7.0], [0.0, 10.0], [10.0, 0.0]])
    assert np.exp(_integrals(sums, np.ones(1))) == pytest.approx([6 * 5040 / 39916800, 1 / 11, 1 / 11], rel=1e-6)
    # examination 1/2: the integral of x (1 - x/2) is 1/2 - 1/6
    assert np.exp(_integrals(np.array([[1.0, 0.0, 1.0]]), np.array([1.0, 0.5]))) == pytest.approx([1 / 3], rel=1e-6)


def test_evidence_has_an_expectation_of_at_most_one() -> None:
    """The sum over all outcomes of two labels before a split and two after it, at two ranks."""
    e = np.array([1.0, 0.5])
    ranks = np.array([0, 1, 1, 0])
    for theta in (0.2, 0.7):
        total = 0.0
        for outcome in range(16):
            clicked = (outcome >> np.arange(4) & 1).astype(bool)
            labels = Labels(clicked, ranks)
            parts = np.diff(labels.sums(np.array([0, 2, 4]), 2), axis=0)
            chance = np.prod(np.where(clicked, theta * e[ranks], 1 - theta * e[ranks]))
            total += chance * np.exp(_evidence(parts, e))
        assert 0.3 < total <= 1


def test_labels_of_one_item() -> None:
    """Two changes are found where they are; the first half alone has one."""
    rng = np.random.default_rng(3)
    chances = np.repeat([0.1, 0.6, 0.1], 400)
    labels = Labels(rng.random(1200) < chances, np.zeros(1200, np.int64))
    assert [c.after for c in changes_of(labels, READ, 0.001)] == pytest.approx([400, 800], abs=15)
    half = Labels(labels.clicked[:800], labels.rank[:800])
    (one,) = changes_of(half, READ, 0.001)
    assert one.low <= one.after <= one.high
    assert one.certain
    assert changes_of(Labels(labels.clicked[:5], labels.rank[:5]), READ, 0.001) == []


def test_close_changes_stay_in_order() -> None:
    """Changes are placed again between their neighbours, one after the other, and never pass each other."""
    for seed in range(25):
        rng = np.random.default_rng([seed, 8])
        lengths = rng.integers(12, 90, 14)
        chances = np.repeat(rng.random(14), lengths)
        labels = Labels(rng.random(len(chances)) < chances, np.zeros(len(chances), np.int64))
        afters = [change.after for change in changes_of(labels, READ, 0.05)]
        assert afters == sorted(set(afters))


@pytest.mark.parametrize("rate", [0.29, 0.23, 0.11])
def test_any_examination_within_its_interval_is_an_explanation(rate: float) -> None:
    """Clicks that fall with the rank are no change if nothing is known of the ranks, however many there are."""
    rng = np.random.default_rng(1)
    clicked = np.concatenate([rng.random(6000) < 0.41, rng.random(6000) < rate])
    labels = Labels(clicked, np.repeat([1, 2], 6000))
    unknown = Examination(np.ones(3), np.array([1, 0.001, 0.001]), np.ones(3))
    assert [change.certain for change in changes_of(labels, unknown, 0.001)] == [False]
    known = Examination(np.ones(3), np.array([1, 0.98, 0.98]), np.ones(3))
    assert [change.certain for change in changes_of(labels, known, 0.001)] == [True]


def test_attraction_with_examination() -> None:
    """30 clicks of 100 at a rank that is read half the time; the views are those that were read, given no click."""
    labels = Labels(np.arange(100) < 30, np.ones(100, np.int64))
    alpha, read = estimated(labels, np.array([1.0, 0.5]), (0, 0))
    assert alpha == pytest.approx(0.6)
    assert read == pytest.approx(50)
    assert estimated(Labels(labels.clicked, np.zeros(100, np.int64)), np.array([1.0, 0.5]), (1, 2)) == (31 / 102, 100)


def test_changes_at_one_moment_are_one() -> None:
    first = ItemChange(100, 95, 105, 50.0, True)
    near = ItemChange(104, 99, 120, 20.0, True)
    assert _moments([(0, first), (1, near), (2, ItemChange(300, 290, 310, 9.0, True))]) == [(100, {0, 1}), (300, {2})]
    assert _moments([(0, first), (0, near)]) == [(100, {0}), (104, {0})]


@pytest.mark.parametrize("seed", [43, 46, 412, 3682])
def test_every_change_is_found_between_its_neighbours(seed: int) -> None:
    """A change that is only found among fewer labels, before its neighbours were placed, is dropped again."""
    rng = np.random.default_rng(seed)
    segments = rng.integers(2, 6)
    lengths, attraction = rng.integers(20, 300, segments), rng.uniform(0, 1, segments)
    clicked = np.concatenate([rng.random(n) < p for n, p in zip(lengths, attraction, strict=True)])
    labels = Labels(clicked, np.zeros(len(clicked), int))
    cuts = [0, *(change.after for change in changes_of(labels, READ, 0.05)), len(clicked)]
    for before, after in zip(cuts, cuts[2:], strict=False):
        assert _placed(labels, np.ones(1), before, after, 0.05)[1] > 0
    assert len(cuts) == 2 + {43: 0, 46: 0, 412: 2, 3682: 0}[seed]
