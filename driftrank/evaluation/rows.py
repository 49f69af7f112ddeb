"""The lists of a log, one row each, as SQL selects them and as arrays.

A *segment* is a query between two of its changes, a *cell* one bucket of users in one window of time. Rows of odd and
even buckets are two *folds*: what a model says of a row comes from the other fold.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.base import Estimator
from driftrank.evaluation.cells import FOLDS, Cells
from driftrank.evaluation.labels import Labels, ShownLists, read_labels
from driftrank.evaluation.matching import FixedRows, FixedTarget, Matching, fixed_sums, target_table
from driftrank.evaluation.sums import Sums
from driftrank.logs.changes import QueryDrift
from driftrank.logs.count.scan import Scan
from driftrank.logs.log import Log

if TYPE_CHECKING:
    from driftrank.engine.cluster.cluster import Cluster


class Logged(NamedTuple):
    """The logged lists."""

    reward: float  #: the mean
    reward_now: float  #: of lists since the last change of their query
    lists: float  #: if old ones count less, fewer than there are


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
    cluster
        An open cluster, whose workers read a file each; None: this process reads them all.
    half_life
        Seconds after which a list counts half; None: all count as much.
    """

    def __init__(
        self,
        log: Log,
        k: int,
        objective: str = "any",
        drifts: Sequence[QueryDrift] = (),
        windows: int = 20,
        propensities: str = "conditional",
        cluster: Cluster | None = None,
        half_life: float | None = None,
    ) -> None:
        self.log, self.k, self.objective, self.cells = log, k, objective, Cells(windows)
        self.kind, self.half_life = propensities, half_life
        self.weighs = "propensities" in log.types
        self.places = self.weighs and propensities == "marginal"
        self.users = "user" in log.types
        self.offers = "candidates" in log.types
        self.baselines = "baseline" in log.types
        self.scan = Scan(log, cluster)
        self.connection = self.scan.connection
        self._number_queries(drifts)
        self.labels: Labels = read_labels(self.scan, self.rows(), self)

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def _number_queries(self, drifts: Sequence[QueryDrift]) -> None:
        """Give queries and their segments numbers."""
        import pyarrow as pa

        log = self.log
        user, offered = '"user"' if self.users else "NULL", "candidates" if self.offers else "NULL"
        shown = (
            f"SELECT query, time, {self._moment} AS moment, {user} AS who, {offered} AS offered FROM log_rows"
            " WHERE len(ranking) > 0"
        )
        ends = {
            "lists": "count(*)", "latest": "max(time)", "first": "min(moment)", "last": "max(moment)",
            "users": "count(who)", "offers": "count(offered)",
        }  # fmt: skip
        with self.scan.grouped(shown, ("query",), ends) as groups:
            found = self.connection.execute(f"SELECT * FROM {groups} ORDER BY query").fetchall()
        if not found:
            raise ValueError(f"{log.source}: has no list with items")
        self.queries = [query for query, *_ in found]
        self.lists_of = np.array([row[1] for row in found], np.int64)  #: by query
        self.lists = int(self.lists_of.sum())
        self.with_user, self.with_candidates = (sum(int(row[at]) for row in found) for at in (5, 6))
        self._first, self._last = float(min(row[3] for row in found)), float(max(row[4] for row in found))
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
        self.scan.add("numbered_queries", table)

    @property
    def _moment(self) -> str:
        """The SQL of a time in seconds."""
        return "epoch(time)" if self.log.types["time"] == "TIMESTAMP" else "CAST(time AS DOUBLE)"

    @property
    def matching(self) -> Matching:
        return Matching(self.k, self.objective, self.weighs, self.cells, self._last, self.half_life, self.places)

    def rows(self) -> str:
        """The SELECT of the rows: code, segment, now, time, moment (in seconds), win (the window), bucket, shown,
        first, ranking, clicks, propensities, candidates, baseline.
        """
        K, windows = self.k, self.cells.windows
        # a bucket must not depend on the clicks: hazards come from other buckets
        who = 'CASE WHEN "user" IS NULL THEN hash(file, row) ELSE hash("user") END' if self.users else "hash(file, row)"
        part = "CASE WHEN parts = 1 THEN 0 ELSE len(list_filter(changes, lambda c: c < time)) END"
        given = "propensities" if self.weighs else "CAST(NULL AS DOUBLE[])"
        items = self.log.types["ranking"]
        offered = f"CAST({'candidates' if self.offers else 'NULL'} AS {items}) AS candidates"
        offered += f", CAST({'baseline' if self.baselines else 'NULL'} AS {items}) AS baseline"
        if self.weighs and self.kind == "list":  # that of the list at its top, so that the product is right
            given = "[CASE WHEN i = 1 THEN propensities[1] ELSE 1.0 END FOR i IN range(1, len(ranking) + 1)]"
        return (
            f"SELECT code, begin + part AS segment, part = parts - 1 AS now, time, moment, ranking, clicks,"
            f" propensities, candidates, baseline, {self.slice_of_time(windows)} AS win, bucket, shown,"
            f" CASE WHEN f <= shown THEN f ELSE {K + 1} END AS first"
            f" FROM (SELECT code, begin, parts, {part} AS part, time, {self._moment} AS moment, ranking, clicks,"
            f" {given} AS propensities, {offered},"
            f" CAST({who} % {self.cells.buckets} AS INTEGER) AS bucket, least(len(ranking), {K}) AS shown,"
            f" list_min(clicks) AS f FROM log_rows JOIN numbered_queries USING (query) WHERE len(ranking) > 0)"
        )

    @functools.cached_property
    def logged(self) -> Logged:
        """The rewards of the logged lists."""
        clicks = f"len(list_distinct(list_filter(clicks, lambda c: c <= {self.k})))"
        reward = clicks if self.objective == "clicks" else f"CAST(first <= {self.k} AS INTEGER)"
        decay = "1" if self.half_life is None else f"power(2, (moment - {self._last!r}) / {self.half_life!r})"
        rewarded = f"SELECT now, {decay} AS list, list * {reward} AS reward FROM ({self.rows()})"
        with self.scan.grouped(rewarded, ("now",), {"lists": "sum(list)", "reward": "sum(reward)"}) as groups:
            found = {row[0]: row[1:] for row in self.connection.execute(f"SELECT * FROM {groups}").fetchall()}
        lists, total = (sum(float(row[i]) for row in found.values()) for i in range(2))
        now = found.get(True)
        return Logged(total / lists, math.nan if now is None else float(now[1]) / float(now[0]), lists)

    def slice_of_time(self, count: int) -> str:
        """The SQL of the number of the slice, of so many of equal time, that ``moment`` lies in."""
        width = max(self._last - self._first, 1e-9) / count
        return f"least({count - 1}, CAST(floor((moment - {self._first!r}) / {width!r}) AS INTEGER))"

    def begin_of(self, window: int) -> str:
        """The time at which a window begins, as it is given for ``since``."""
        begin = self._first + window * (self._last - self._first) / self.cells.windows
        if self.log.types["time"] != "TIMESTAMP":
            return str(math.ceil(begin)) if self.log.types["time"] == "BIGINT" else repr(begin)
        return str(datetime.fromtimestamp(math.ceil(begin), UTC).replace(tzinfo=None))

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

    def sums(self, target: FixedTarget, estimators: Mapping[str, Estimator]) -> Sums:
        """The sums over the rows of queries for which the target has a list."""
        self.scan.add("target_lists", target_table(target, self.k, self.log.types["ranking"] == "BIGINT[]"))
        hazards = self.labels.hazards(target.items, self.begin)
        fixed = FixedRows(self.matching, self.rows(), self.offers, *hazards, estimators, len(self.queries))
        return functools.reduce(Sums.merge, self.scan.call(fixed_sums, fixed))
