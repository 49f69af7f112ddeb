"""Rows of a log beside the lists of a target: matched in SQL, and as arrays for the estimators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.base import Batch, Estimator, Floats, prefix_weights, target_rest
from driftrank.evaluation.cells import FOLDS, Cells
from driftrank.evaluation.sums import Sums

if TYPE_CHECKING:
    import duckdb

_BATCH = 1 << 17


@dataclass(frozen=True, eq=False)
class FixedTarget:
    """A target that shows one list per query: by fold, code of the query and position, the item's number in the query.

    -1 is an item that was never shown, -2 a position below the end of the list; a query without a list has only these.
    """

    items: NDArray[np.int64]
    names: Sequence[Sequence[Sequence[Any]]]  #: the items themselves, by fold and code


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """Rows beside the one list that a target shows for each."""

    query: NDArray[np.int64]  #: (n,) code
    cell: NDArray[np.int64]  #: (n,)
    shown: NDArray[np.int64]  #: (n,) positions of the shorter of both lists
    first: NDArray[np.int64]  #: (n,) position of the first click
    matched: NDArray[np.int64]  #: (n,) how many items from the top are those of the target
    propensities: Floats  #: (n, K)
    hazard: Floats  #: (n, K) of the target's items
    attraction: Floats  #: (n, K) the same by all labels, without a prior
    mask: NDArray[np.int64]  #: (n,) bit k - 1 is a click at k; for the number of clicks
    moment: Floats | None = None  #: (n,) seconds, if old lists count less
    #: (n,) False if an item of the target's list was not a candidate: the row does not count; None: all do
    offered: NDArray[np.bool_] | None = None
    #: (n,) bit k - 1 says that the item at k is that of the target; for marginal propensities
    same: NDArray[np.int64] | None = None

    def only(self, those: NDArray[np.bool_]) -> MatchedRows:
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        chosen: dict[str, Any] = {name: None if rows is None else rows[those] for name, rows in given.items()}
        return MatchedRows(**chosen)


@dataclass(frozen=True)
class Matching:
    """The parts of a log's rows that count."""

    k: int  #: positions
    objective: str
    weighs: bool  #: True if the log has propensities
    cells: Cells
    last: float  #: the last time, in seconds
    half_life: float | None = None  #: seconds after which a list counts half; None: all count as much
    places: bool = False  #: True if propensities are marginal

    def decay(self, moment: Floats) -> Floats:
        """(n,) by how much lists count; never 0, which is for rows that do not."""
        assert self.half_life is not None
        counts: Floats = np.maximum(np.exp2((moment - self.last) / self.half_life), 1e-300)
        return counts

    def batch(self, rows: MatchedRows) -> Batch:
        """Rows of a target that shows one list each. Rows with invalid propensities are left out."""
        positions = np.arange(1, self.k + 1)
        if self.weighs:
            with np.errstate(invalid="ignore"):
                valid = (rows.propensities > 0) & (rows.propensities <= 1 + 1e-9)
            good = np.all(valid | (positions > rows.shown[:, None]), axis=1)
            rows = rows if good.all() else rows.only(good)
        there = positions <= rows.shown[:, None]
        first = np.where(rows.first <= rows.shown, rows.first, self.k + 1)  # the target's list may be shorter
        hazard = np.where(there, rows.hazard, 0.0)
        clicked = first[:, None] == positions
        if self.objective == "clicks":
            clicked = _bits(rows.mask, self.k) & there
        weight = prefix_weights(rows.matched, rows.shown, np.where(there, rows.propensities, 1.0))
        if rows.offered is not None:
            weight *= rows.offered[:, None]
        if rows.moment is not None:
            weight *= self.decay(rows.moment)[:, None]
        place = None
        if rows.same is not None:
            ratio = _bits(rows.same, self.k) / np.where(there, rows.propensities, 1.0)
            place = np.where(there, ratio, 1.0) * weight[:, :1]
        model = 1 - np.prod(np.where(there, 1 - rows.attraction, 1.0), axis=1)
        rest = target_rest(hazard)
        return Batch(first, weight, hazard, rest, model, clicked, self.objective, rows.cell, rows.query, place)


def _bits(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """(n, count) the lowest bits, the first one first."""
    set_: NDArray[np.bool_] = (numbers[:, None] >> np.arange(count)) & 1 == 1
    return set_


@dataclass(frozen=True, eq=False)
class FixedRows:
    """All that the sums of a target with one list per query need of a log, besides its rows.

    Its table ``target_lists`` must have been added to the scan (:func:`target_table`).
    """

    matching: Matching
    rows: str  #: SQL
    offers: bool  #: True if the log has candidates
    hazard: Floats  #: (fold, segment, position)
    attraction: Floats
    estimators: Mapping[str, Estimator]
    queries: int


def target_table(target: FixedTarget, k: int, integers: bool) -> Any:
    """The lists of a target as an Arrow table: code, fold, t1, t2 and so on, length."""
    import pyarrow as pa

    fold, code = np.nonzero(target.items[:, :, 0] != -2)
    kind = pa.int64() if integers else pa.string()
    columns: dict[str, Any] = {"code": code.astype(np.int32), "fold": fold.astype(np.int32)}
    chosen = [target.names[f][c] for f, c in zip(fold.tolist(), code.tolist(), strict=True)]
    for place in range(k):
        columns[f"t{place + 1}"] = pa.array([x[place] if place < len(x) else None for x in chosen], kind)
    columns["length"] = np.array([len(x) for x in chosen], np.int32)
    return pa.table(columns)


def fixed_sums(connection: duckdb.DuckDBPyConnection, fixed: FixedRows) -> Sums:
    """The sums over the rows of queries for which the target has a list."""
    return Sums.of(_batches(connection, fixed), fixed.estimators, fixed.matching.cells, fixed.queries)


def _batches(connection: duckdb.DuckDBPyConnection, fixed: FixedRows) -> Iterator[Batch]:
    positions = range(1, fixed.matching.k + 1)
    match = " ".join(f"WHEN least(shown, length) >= {k} AND ranking[{k}] <> t{k} THEN {k - 1}" for k in positions)
    p = ", ".join(f"propensities[{k}] AS p{k}" for k in positions)
    mask = "0"
    if fixed.matching.objective == "clicks":
        bits = "list_aggregate(list_transform(clicks, lambda c: CAST(1 AS BIGINT) << (c - 1)), 'bit_or')"
        mask = f"coalesce({bits}, 0)"
    missing = [f"least(shown, length) >= {k} AND NOT list_contains(candidates, t{k})" for k in positions]
    more = "" if fixed.matching.half_life is None else ", moment"
    if fixed.matching.places:
        same = " + ".join(
            f"CASE WHEN least(shown, length) >= {k} AND ranking[{k}] = t{k} THEN {1 << k - 1} ELSE 0 END"
            for k in positions
        )
        more += f", CAST({same} AS BIGINT) AS same"
    if fixed.offers:
        more += f", candidates IS NULL OR NOT ({' OR '.join(missing)}) AS offered"
    sql = (
        f"SELECT code, segment, now, win, bucket, least(shown, length) AS shown, first,"
        f" CASE {match} ELSE least(shown, length) END AS matched, {p}, {mask} AS mask{more}"
        f" FROM ({fixed.rows}) JOIN target_lists USING (code) WHERE bucket % {FOLDS} = fold"
    )
    for batch in connection.sql(sql).to_arrow_reader(_BATCH):
        yield fixed.matching.batch(_matched(batch, fixed))


def _matched(batch: Any, fixed: FixedRows) -> MatchedRows:
    def column(name: str) -> NDArray[Any]:
        return np.asarray(batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False))

    segment, bucket = column("segment").astype(np.int64), column("bucket").astype(np.int64)
    return MatchedRows(
        query=column("code").astype(np.int64),
        cell=fixed.matching.cells.number(column("now"), column("win"), bucket),
        shown=column("shown").astype(np.int64),
        first=column("first").astype(np.int64),
        matched=column("matched").astype(np.int64),
        propensities=np.column_stack([column(f"p{k}").astype(float) for k in range(1, fixed.matching.k + 1)]),
        hazard=fixed.hazard[bucket % FOLDS, segment],
        attraction=fixed.attraction[bucket % FOLDS, segment],
        mask=column("mask").astype(np.int64),
        moment=None if fixed.matching.half_life is None else column("moment").astype(float),
        offered=column("offered").astype(bool) if fixed.offers else None,
        same=column("same").astype(np.int64) if fixed.matching.places else None,
    )
