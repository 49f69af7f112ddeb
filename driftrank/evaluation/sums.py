"""Sums over the lists of a log by cell, for all estimators at once; values and their errors follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from driftrank.evaluation.base import Batch, Estimator, Floats, added
from driftrank.evaluation.cells import Cells

#: names of sums that every target has
_COMMON = (
    "lists", "reward", "stopped", "gains", "gain_squares", "losses", "loss_squares", "full", "full_squares",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of one target. Those of parts of a log add up (:meth:`merge`)."""

    cells: Cells
    columns: dict[str, Floats]  #: by name of the estimator: (now, window, bucket, m)
    common: dict[str, Floats]  #: (now, window, bucket)
    largest: Floats  #: (now, window, 2) the largest weight of a list, down to its first click and whole
    by_query: Floats  #: (2, query) lists, sum of stopped weights
    rows: int = 0  #: of all batches
    undefined: int = 0  #: those that do not count, since the target's list was not possible

    @classmethod
    def of(cls, batches: Iterable[Batch], estimators: Mapping[str, Estimator], cells: Cells, queries: int) -> Sums:
        """Add up batches."""
        columns: dict[str, Floats] = {}
        common = {name: np.zeros(cells.count) for name in _COMMON}
        largest, by_query = np.zeros((2, 2 * cells.windows)), np.zeros((2, queries))
        count = undefined = 0
        for batch in batches:
            for key, estimator in estimators.items():
                rows = estimator.columns(batch)
                parts = [added(batch.cell, rows[:, j], cells.count) for j in range(rows.shape[1])]
                columns[key] = columns.get(key, 0.0) + np.stack(parts, axis=1)
            for name, rows in _common(batch).items():
                common[name] += added(batch.cell, rows, cells.count)
            with np.errstate(invalid="ignore"):  # without propensities there are none
                for most, weights in zip(largest, (batch.stopped, batch.whole), strict=True):
                    np.maximum.at(most, batch.cell // cells.buckets, weights)
            count += len(batch.lists)
            undefined += int((batch.lists == 0).sum())
            by_query[0] += added(batch.query, batch.lists, queries)
            by_query[1] += added(batch.query, batch.stopped if batch.place is None else batch.whole, queries)
        shaped = {key: value.reshape(*cells.shape, -1) for key, value in columns.items()}
        by_cell = {key: value.reshape(cells.shape) for key, value in common.items()}
        return cls(cells, shaped, by_cell, largest.T.reshape(2, -1, 2), by_query, count, undefined)

    def merge(self, other: Sums) -> Sums:
        """The sums of both."""
        columns = self.columns | other.columns  # one without lists has no columns
        columns |= {key: self.columns[key] + other.columns[key] for key in self.columns.keys() & other.columns.keys()}
        common = {key: value + other.common[key] for key, value in self.common.items()}
        largest = np.maximum(self.largest, other.largest)
        rows, undefined = self.rows + other.rows, self.undefined + other.undefined
        return Sums(self.cells, columns, common, largest, self.by_query + other.by_query, rows, undefined)

    def scope(self, now: bool) -> Scope:
        """The sums over the whole log, or over the lists since the last change of their queries."""
        sides = slice(1, 2) if now else slice(0, 2)
        return Scope(
            {key: value[sides].sum(axis=0) for key, value in self.columns.items()},
            {key: value[sides].sum(axis=0) for key, value in self.common.items()},
            self.largest[sides].max(axis=0),
        )


@dataclass(frozen=True, eq=False)
class Scope:
    """Sums by window and bucket over the lists of some time."""

    columns: dict[str, Floats]
    common: dict[str, Floats]
    largest: Floats  #: (window, 2) the largest weight of a list, down to its first click and whole

    def since(self, window: int) -> Scope:
        """The sums from a window on."""
        columns = {key: value[window:] for key, value in self.columns.items()}
        common = {key: value[window:] for key, value in self.common.items()}
        return Scope(columns, common, self.largest[window:])

    def total(self, name: str) -> float:
        return float(self.common[name].sum())

    @property
    def lists(self) -> float:
        return self.total("lists")

    def effective(self, whole: bool = False, window: slice = slice(None)) -> float:
        """The effective number of lists, by weights down to the first click, or of whole lists; in some windows."""
        names = ("full_squares",) if whole else ("gain_squares", "loss_squares")
        squares = float(sum(self.common[name][window].sum() for name in names))
        total = float(self.common["full" if whole else "stopped"][window].sum())
        return total**2 / squares if squares else 0.0

    def replicates(self, estimator: Estimator, window: slice = slice(None)) -> Replicates:
        """The value, and the values without one bucket each; of some windows."""
        totals = self.columns[estimator.name][window].sum(axis=0)
        lists = self.common["lists"][window].sum(axis=0)
        return _replicates(estimator.value, totals, lists)

    def rewards(self, window: slice = slice(None)) -> Replicates:
        """The mean reward of the logged lists, likewise."""
        return _means(self.common["reward"][window].sum(axis=0), self.common["lists"][window].sum(axis=0))

    def weights(self, whole: bool = False) -> Replicates:
        """The mean weight down to the first click, or of whole lists, likewise; 1 if the target's lists were shown as
        often as stated.
        """
        return _means(self.common["full" if whole else "stopped"].sum(axis=0), self.common["lists"].sum(axis=0))

    def running(self) -> list[slice]:
        """Windows from the first on to each that has lists."""
        counts = self.common["lists"].sum(axis=1)
        return [slice(0, n + 1) for n in range(len(counts)) if counts[n] > 0]

    def buckets(self, window: slice = slice(None)) -> int:
        """The number of buckets with lists; in some windows."""
        return int((self.common["lists"][window].sum(axis=0) > 0).sum())

    def dominance(self, whole: bool = False) -> float:
        """The share of all weights that one list has at most."""
        total = self.total("full" if whole else "stopped")
        return float(self.largest[:, int(whole)].max()) / total if total else 1.0

    def bernstein(self, kind: str) -> tuple[float, float, float]:
        """The sum of weighted ``"gains"`` or ``"losses"``, the sum of their squared distances from guesses, and the
        number of lists, in units of the lists of the largest bucket.

        Terms are buckets of users, which are independent where the lists of one user are not. The guess of a bucket is
        made from the buckets before, of 1/2 as one list, and their lists; it is at most 1 in these units.
        """
        lists = self.common["lists"].sum(axis=0)
        unit, sums = lists.max(), self.common[kind].sum(axis=0)
        guess = np.minimum((0.5 + np.cumsum(sums) - sums) / (1 + np.cumsum(lists) - lists), 1.0)
        v = float((((sums - guess * lists) / unit) ** 2).sum())
        return float(sums.sum() / unit), v, float(lists.sum() / unit)


@dataclass(frozen=True, eq=False)
class Replicates:
    """A value, and the values that leave out one bucket of users each."""

    value: float
    without: Floats  #: NaN for buckets without lists

    def minus(self, other: Replicates) -> Replicates:
        """The difference, paired."""
        return Replicates(self.value - other.value, self.without - other.without)

    @property
    def freedom(self) -> int:
        return int(np.isfinite(self.without).sum()) - 1

    @property
    def error(self) -> float:
        """The standard error, by the jackknife."""
        values = self.without[np.isfinite(self.without)]
        if len(values) < 2:
            return float("nan")
        return float(np.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum()))


def _replicates(value: Callable[[Floats, Floats], Floats], totals: Floats, lists: Floats) -> Replicates:
    """From sums by bucket."""
    present = lists > 0
    whole = float(value(totals.sum(axis=0), lists.sum())) if present.any() else float("nan")
    without = np.full(len(lists), np.nan)
    if present.sum() > 1:
        rest = totals.sum(axis=0) - totals[present]
        without[present] = value(rest, lists.sum() - lists[present])
    return Replicates(whole, without)


def _means(sums: Floats, lists: Floats) -> Replicates:
    return _replicates(np.divide, sums, lists)


def _common(batch: Batch) -> dict[str, Floats]:
    clicked = batch.first <= batch.k
    gains = np.where(clicked, batch.stopped, 0.0)
    losses = np.where(clicked, 0.0, batch.stopped)
    return {
        "lists": batch.lists, "reward": batch.lists * batch.reward, "stopped": batch.stopped, "gains": gains,
        "gain_squares": gains**2, "losses": losses, "loss_squares": losses**2, "full": batch.whole,
        "full_squares": batch.whole**2,
    }  # fmt: skip
