"""The lists of a log, one row each, as SQL selects them and as arrays.

A *segment* is a query between two of its changes, a *cell* one bucket of users in one window of time. Rows of odd and
even buckets are two *folds*: what a model says of a row comes from the other fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.base import Batch, Floats, prefix_weights, target_rest
from driftrank.evaluation.cells import FOLDS, Cells
from driftrank.evaluation.labels import Labels, ShownLists, read_labels
from driftrank.logs.changes import QueryDrift
from driftrank.logs.log import Log

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

    def only(self, those: NDArray[np.bool_]) -> MatchedRows:
        return MatchedRows(**{f.name: getattr(self, f.name)[those] for f in dataclasses.fields(self)})


class LogRows(AbstractContextManager["LogRows"]):
    """A log prepared for evaluation: queries, segments and labels; to be used in a ``with`` statement.

    Parameters
    ----------
    k
        Positions to evaluate.
    drifts
        Changes of queries; others have one segment.
    windows
        Windows of equal time.
    propensities
        Their kind: ``"conditional"``, ``"marginal"`` or ``"list"``.
    """

    def __init__(
        self,
        log: Log,
        k: int,
        objective: str = "any",
        drifts: Sequence[QueryDrift] = (),
        windows: int = 20,
        propensities: str = "conditional",
    ) -> None:
        self.log, self.k, self.objective, self.cells = log, k, objective, Cells(windows)
        self.kind = propensities
        self.weighs = "propensities" in log.types
        self.users = "user" in log.types
        self.connection: duckdb.DuckDBPyConnection = log.connect()
        self.connection.execute("SET preserve_insertion_order = false")  # less memory
        self._first, self._last = _seconds(log, self.connection)
        self._number_queries(drifts)
        self.labels: Labels = read_labels(self.connection, self.rows(), self)

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def _number_queries(self, drifts: Sequence[QueryDrift]) -> None:
        """Give queries and their segments numbers."""
        import pyarrow as pa

        log = self.log
        found = self.connection.execute(
            f"SELECT query, count(*), max(time) FROM {log.relation} WHERE len(ranking) > 0 GROUP BY 1 ORDER BY 1"
        ).fetchall()
        if not found:
            raise ValueError(f"{log.source}: has no list with items")
        self.queries = [query for query, *_ in found]
        self.lists_of = np.array([lists for _, lists, _ in found], np.int64)  #: by query
        self.lists = int(self.lists_of.sum())
        self.code_of: Mapping[Any, int] = {query: code for code, query in enumerate(self.queries)}
        changes: list[list[Any]] = [[] for _ in self.queries]
        for drift in drifts:
            if drift.query in self.code_of:
                code = self.code_of[drift.query]
                last = found[code][2]  # a change at the last time has no lists after it
                changes[code] = [change.time for change in drift.changes if change.time < last]
        parts = np.array([len(times) + 1 for times in changes], np.int64)
        self.begin = np.concatenate([[0], np.cumsum(parts)])  #: first segment by query
        self.changes = sum(map(len, changes))
        self.changed = int((parts > 1).sum())  #: queries
        clock = pa.timestamp("us") if log.types["time"] == "TIMESTAMP" else pa.float64()
        ids = pa.int64() if log.types["query"] == "BIGINT" else pa.string()
        table = pa.table(
            {
                "query": pa.array(self.queries, ids),
                "code": pa.array(np.arange(len(parts), dtype=np.int32)),
                "begin": pa.array(self.begin[:-1].astype(np.int32)),
                "parts": pa.array(parts.astype(np.int32)),
                "changes": pa.array(changes, pa.list_(clock)),
            }
        )
        self.connection.register("given_queries", table)
        self.connection.execute("CREATE TABLE numbered_queries AS SELECT * FROM given_queries")

    def rows(self) -> str:
        """The SELECT of the rows: code, segment, now, time, moment (in seconds), win (the window), bucket, shown,
        first, ranking, clicks, propensities.
        """
        K, windows = self.k, self.cells.windows
        seconds = "epoch(time)" if self.log.types["time"] == "TIMESTAMP" else "CAST(time AS DOUBLE)"
        # a bucket must not depend on the clicks: hazards come from other buckets
        who = 'CASE WHEN "user" IS NULL THEN hash(file, row) ELSE hash("user") END' if self.users else "hash(file, row)"
        part = "CASE WHEN parts = 1 THEN 0 ELSE len(list_filter(changes, lambda c: c < time)) END"
        given = "propensities" if self.weighs else "CAST(NULL AS DOUBLE[])"
        if self.weighs and self.kind == "list":  # that of the list at its top, so that the product is right
            given = "[CASE WHEN i = 1 THEN propensities[1] ELSE 1.0 END FOR i IN range(1, len(ranking) + 1)]"
        return (
            f"SELECT code, begin + part AS segment, part = parts - 1 AS now, time, moment, ranking, clicks,"
            f" propensities, {self.slice_of_time(windows)} AS win, bucket, shown,"
            f" CASE WHEN f <= shown THEN f ELSE {K + 1} END AS first"
            f" FROM (SELECT code, begin, parts, {part} AS part, time, {seconds} AS moment, ranking, clicks,"
            f" {given} AS propensities, CAST({who} % {self.cells.buckets} AS INTEGER) AS bucket,"
            f" least(len(ranking), {K}) AS shown, list_min(clicks) AS f"
            f" FROM {self.log.numbered} JOIN numbered_queries USING (query) WHERE len(ranking) > 0)"
        )

    def logged(self) -> tuple[float, float]:
        """The mean reward of the logged lists, and of those since the last change of each query."""
        clicks = f"len(list_distinct(list_filter(clicks, lambda c: c <= {self.k})))"
        reward = clicks if self.objective == "clicks" else f"CAST(first <= {self.k} AS INTEGER)"
        sql = f"SELECT avg({reward}), avg({reward}) FILTER (WHERE now) FROM ({self.rows()})"
        [(whole, now)] = self.connection.execute(sql).fetchall()
        return float(whole), float("nan") if now is None else float(now)

    def slice_of_time(self, count: int) -> str:
        """The SQL of the number of the slice, of so many of equal time, that ``moment`` lies in."""
        width = max(self._last - self._first, 1e-9) / count
        return f"least({count - 1}, CAST(floor((moment - {self._first!r}) / {width!r}) AS INTEGER))"

    # -- targets ---------------------------------------------------------------------------------------------------

    def fixed_target(self, lists: Sequence[Mapping[Any, Sequence[Any]]]) -> FixedTarget:
        """The target that shows these lists, by query; one mapping for both folds, or one for each."""
        folds = [lists[fold % len(lists)] for fold in range(FOLDS)]
        items = np.full((FOLDS, len(self.queries), self.k), -2, np.int64)
        names: list[list[list[Any]]] = []
        for fold, mapping in enumerate(folds):
            names.append([[] for _ in self.queries])
            for query, ranking in mapping.items():
                code = self.code_of.get(query)
                if code is not None:
                    chosen = list(ranking)[: self.k]
                    known = self.labels.numbers[code]
                    items[fold, code, : len(chosen)] = [known.get(item, -1) for item in chosen]
                    names[fold][code] = chosen
        return FixedTarget(items, names)

    def shown_lists(self, target: FixedTarget) -> ShownLists:
        """The lists of a target, by fold and segment, and how many rows they are evaluated on."""
        code = np.repeat(np.arange(len(self.queries)), np.diff(self.begin))
        rows = np.add.reduceat(self.labels.looks[:, :, 0], self.labels.start[:-1], axis=1)  # the top is always read
        items = target.items[:, code].reshape(-1, self.k)
        segment = np.tile(np.arange(len(code)), FOLDS)
        lists = rows.ravel()
        return ShownLists(items, segment, lists).only((lists > 0) & (items[:, 0] != -2))

    @property
    def last(self) -> NDArray[np.bool_]:
        """By segment, True for the last one of a query."""
        flags = np.zeros(self.begin[-1], bool)
        flags[self.begin[1:] - 1] = True
        return flags

    def batches(self, target: FixedTarget) -> Iterator[Batch]:
        """The rows of queries for which the target has a list."""
        import pyarrow as pa

        K = self.k
        fold, code = np.nonzero(target.items[:, :, 0] != -2)
        kind = pa.int64() if self.log.types["ranking"] == "BIGINT[]" else pa.string()
        columns: dict[str, Any] = {"code": code.astype(np.int32), "fold": fold.astype(np.int32)}
        chosen = [target.names[f][c] for f, c in zip(fold.tolist(), code.tolist(), strict=True)]
        for k in range(K):
            columns[f"t{k + 1}"] = pa.array([x[k] if k < len(x) else None for x in chosen], kind)
        columns["length"] = np.array([len(x) for x in chosen], np.int32)
        self.connection.register("target_lists", pa.table(columns))
        hazard, attraction = self.labels.hazards(target.items, self.begin)
        match = " ".join(
            f"WHEN least(shown, length) >= {k} AND ranking[{k}] <> t{k} THEN {k - 1}" for k in range(1, K + 1)
        )
        p = ", ".join(f"propensities[{k}] AS p{k}" for k in range(1, K + 1))
        sql = (
            f"SELECT code, segment, now, win, bucket, least(shown, length) AS shown, first,"
            f" CASE {match} ELSE least(shown, length) END AS matched, {p}{self._mask()}"
            f" FROM ({self.rows()}) JOIN target_lists USING (code) WHERE bucket % {FOLDS} = fold"
        )
        for batch in self.connection.sql(sql).to_arrow_reader(_BATCH):
            yield self._batch(batch, hazard, attraction)

    def _mask(self) -> str:
        bits = "list_aggregate(list_transform(clicks, lambda c: CAST(1 AS BIGINT) << (c - 1)), 'bit_or')"
        return f", {f'coalesce({bits}, 0)' if self.objective == 'clicks' else '0'} AS mask"

    def _batch(self, batch: Any, hazard: Floats, attraction: Floats) -> Batch:
        def column(name: str) -> NDArray[Any]:
            return np.asarray(batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False))

        segment, bucket = column("segment").astype(np.int64), column("bucket").astype(np.int64)
        propensities = np.column_stack([column(f"p{k}").astype(float) for k in range(1, self.k + 1)])
        return self.batch(
            MatchedRows(
                query=column("code").astype(np.int64),
                cell=self.cells.number(column("now"), column("win"), bucket),
                shown=column("shown").astype(np.int64),
                first=column("first").astype(np.int64),
                matched=column("matched").astype(np.int64),
                propensities=propensities,
                hazard=hazard[bucket % FOLDS, segment],
                attraction=attraction[bucket % FOLDS, segment],
                mask=column("mask").astype(np.int64),
            )
        )

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
            clicked = ((rows.mask[:, None] >> (positions - 1)) & 1).astype(bool) & there
        weight = prefix_weights(rows.matched, rows.shown, np.where(there, rows.propensities, 1.0))
        model = 1 - np.prod(np.where(there, 1 - rows.attraction, 1.0), axis=1)
        rest = target_rest(hazard)
        return Batch(first, weight, hazard, rest, model, clicked, self.objective, rows.cell, rows.query)


def _seconds(log: Log, connection: duckdb.DuckDBPyConnection) -> tuple[float, float]:
    at = "epoch(time)" if log.types["time"] == "TIMESTAMP" else "CAST(time AS DOUBLE)"
    sql = f"SELECT min({at}), max({at}) FROM {log.relation} WHERE len(ranking) > 0"
    [(first, last)] = connection.execute(sql).fetchall()
    if first is None:
        raise ValueError(f"{log.source}: has no list with items")
    return float(first), float(last)
