from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftrank.clickmodels import PBM
from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
from driftrank.engine.cluster.cluster import Cluster
from driftrank.logs import open_log
from driftrank.logs.count.aggregation_sql import COLUMNS
from driftrank.logs.count.statistics import Statistics, aggregate, merge
from tests.logs.random_logs import COUNT, as_dict, count_lists, count_positions, random_rows, write_log


def same_counts(one, other) -> None:
    """Arrays that are the same, one by one."""
    assert type(one) is type(other)
    for name, value in vars(one).items():
        if name == "pairs":
            same_counts(value, getattr(other, name))
        else:
            np.testing.assert_array_equal(value, getattr(other, name), strict=True)


@pytest.fixture(scope="module", params=[True, False], ids=["text", "integers"])
def rows(request):
    return random_rows(3, lists=600, text=request.param)


@pytest.fixture(scope="module")
def log(rows, tmp_path_factory):
    """In three files."""
    folder = tmp_path_factory.mktemp("log")
    for i in range(3):
        write_log(folder / f"{i}.parquet", rows[i::3])
    return open_log(folder)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_log_is_counted_whole_or_in_parts(kind, rows, log) -> None:
    whole = aggregate(log, kind)
    assert as_dict(kind, whole.table) == COUNT[kind](rows)
    if kind != "ratios":
        assert whole.lists == sum(len(row[1]) > 0 for row in rows)
    merged = merge([aggregate(part, kind) for part in log.parts()])
    assert merged.table.schema == whole.table.schema
    same_counts(merged.counts(), whole.counts())
    same_counts(log.counts(kind), whole.counts())


def test_counts_of_positions(rows, log) -> None:
    counts = log.counts("positions")
    assert isinstance(counts, PositionCounts)
    assert (counts.pair.dtype, counts.rank.dtype, counts.views.dtype) == (np.int32, np.int16, np.int64)
    pairs = counts.pairs
    shown = sorted({(query, item) for query, ranking, _ in rows for item in ranking})
    assert list(zip(pairs.queries[pairs.query].tolist(), pairs.items.tolist(), strict=True)) == shown
    names = [shown[p] for p in counts.pair]
    found = {
        (*names[i], int(counts.rank[i]), int(counts.previous[i])):
        tuple(int(c[i]) for c in (counts.views, counts.clicks, counts.examined, counts.last_clicks))
        for i in range(len(counts))
    }  # fmt: skip
    assert found == count_positions(rows)
    assert list(found) == sorted(found)


def test_counts_of_lists(rows, log) -> None:
    counts = log.counts("lists")
    assert isinstance(counts, ListCounts)
    assert (counts.slots.dtype, counts.mask.dtype, counts.lists.dtype) == (np.int32, np.int64, np.int64)
    pairs = counts.pairs
    found = {}
    for slots, mask, lists in zip(counts.slots, counts.mask, counts.lists, strict=True):
        there = slots[slots >= 0]
        assert len({int(pairs.query[p]) for p in there}) == 1
        assert (slots[len(there) :] == -1).all()
        query = pairs.queries[pairs.query[there[0]]]
        found[query, tuple(pairs.items[there].tolist()), int(mask)] = int(lists)
    assert found == count_lists(rows)
    assert list(found) == sorted(found)


def test_lists_in_blocks(log, monkeypatch) -> None:
    whole = log.counts("lists")
    monkeypatch.setattr("driftrank.logs.count.item_codes._BLOCK", 7)
    same_counts(log.counts("lists"), whole)


def test_order_of_long_lists(tmp_path) -> None:
    """Many items: several integers are needed to compare two lists."""
    rows = random_rows(4, lists=200, longest=40)
    whole = open_log(write_log(tmp_path / "a.parquet", rows)).counts("lists")
    same_counts(open_log(write_log(tmp_path / "b.parquet", rows[::-1])).counts("lists"), whole)
    pairs = whole.pairs
    keys = [(pairs.query[s[0]], *s, m) for s, m in zip(whole.slots.tolist(), whole.mask.tolist(), strict=True)]
    assert keys == sorted(keys)


def test_ratios_follow_from_the_others(log) -> None:
    """Without the number of lists and all ranks."""
    ratios = aggregate(log, "ratios")
    for kind in ("positions", "lists"):
        found = aggregate(log, kind).to("ratios")
        assert as_dict("ratios", found.table) == as_dict("ratios", ratios.table)
    assert not ratios.counts().detailed
    for less in (lambda: ratios.to("positions"), lambda: ratios.lists, lambda: PBM.fit(ratios.counts())):
        with pytest.raises(ValueError, match=r"kind=|PBM is fitted to those of positions"):
            less()


def test_positions_follow_from_lists(log) -> None:
    lists = aggregate(log, "lists")
    positions = lists.to("positions")
    same_counts(positions.counts(), log.counts("positions"))
    assert positions.to("positions") is positions
    assert positions.lists == lists.lists


@pytest.mark.parametrize("kind", COLUMNS)
def test_some_queries(kind, rows, log) -> None:
    wanted = [rows[0][0]]
    some = aggregate(log, kind, queries=wanted)
    assert as_dict(kind, some.table) == COUNT[kind]([row for row in rows if row[0] in wanted])
    same_counts(some.counts(), aggregate(log, kind).counts(queries=np.array(wanted)))
    assert len(log.counts(kind, queries=["999"]).pairs) == 0


def test_queries_of_a_log_of_integers(tmp_path) -> None:
    log = open_log(write_log(tmp_path / "log.parquet", [(7, [1], [])]))
    assert len(log.counts("positions", queries=["7"])) == 1
    with pytest.raises(ValueError, match=r"queries=\['x'\]: must be integers, as in the log"):
        log.counts("positions", queries=["x"])


@pytest.mark.parametrize("kind", COLUMNS)
def test_an_empty_log(kind, tmp_path) -> None:
    log = open_log(write_log(tmp_path / "log.parquet", [("q", [], [])]))
    statistics = aggregate(log, kind)
    assert len(statistics.table) == len(statistics.counts()) == 0
    assert len(merge([statistics, statistics]).table) == 0


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    ("clicks", "message"), [([3], "a click beyond the end of its list"), ([0], "an invalid click position")]
)
def test_clicks_outside_the_list(kind, clicks, message, tmp_path) -> None:
    log = open_log(write_log(tmp_path / "log.parquet", [("q", ["a", "b"], clicks)]))
    with pytest.raises(ValueError, match=rf"log.parquet: {message}; see driftrank log check$"):
        aggregate(log, kind)


def test_a_list_that_is_too_long(tmp_path) -> None:
    log = open_log(write_log(tmp_path / "log.parquet", [("q", [str(i) for i in range(63)], [])]))
    with pytest.raises(ValueError, match="a list of more than 62 items; see driftrank log check"):
        aggregate(log, "positions")


def test_what_does_not_fit_into_memory_goes_to_disk(tmp_path) -> None:
    rng = np.random.default_rng(0)
    n = 60_000
    items = np.argsort(rng.random((n, 10)), axis=1) + 100 * rng.integers(0, 500, (n, 1))
    table = pa.table(
        {
            "query": items[:, 0] // 100,
            "time": np.arange(n),
            "ranking": pa.ListArray.from_arrays(np.arange(0, 10 * n + 1, 10, dtype=np.int32), items.ravel()),
            "clicks": pa.array([[1]] * n, pa.list_(pa.int16())),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    small, large = (
        aggregate(open_log(tmp_path / "log.parquet", memory=m, threads=1), "positions") for m in ("40MB", "2GB")
    )
    assert small.lists == n
    same_counts(small.counts(), large.counts())


def test_wrong_values(log) -> None:
    with pytest.raises(ValueError, match="kind='queries': must be one of"):
        aggregate(log, "queries")
    with pytest.raises(ValueError, match="device='gpu': must be one of 'cpu', 'cluster'"):
        aggregate(log, "lists", device="gpu")
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    positions, lists = (aggregate(log, kind) for kind in ("positions", "lists"))
    with pytest.raises(ValueError, match="cannot merge statistics of positions with those of lists"):
        merge([positions, lists])
    other = positions.table.set_column(1, "item", pa.array([1.5] * len(positions.table)))
    with pytest.raises(ValueError, match="cannot merge text ids with integer ids"):
        merge([positions, Statistics("positions", other)])


def test_a_cluster_counts_the_same(tmp_path) -> None:
    rows = random_rows(6)
    for i in range(3):
        write_log(tmp_path / "log" / f"{i}.parquet", rows[i::3])
    log = open_log(tmp_path / "log")
    with Cluster(workers=2) as cluster:
        for kind in COLUMNS:
            same_counts(aggregate(log, kind, device="cluster", cluster=cluster).counts(), log.counts(kind))
        some = aggregate(log, "lists", queries=["q1"], device="cluster", cluster=cluster)
        assert 0 < some.lists < aggregate(log, "lists").lists
        bad = open_log(write_log(tmp_path / "bad.parquet", [("q", ["a"], [5])]))
        with pytest.raises(ValueError, match="a click beyond the end of its list"):
            aggregate(bad, "lists", device="cluster", cluster=cluster)
