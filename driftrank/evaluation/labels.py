"""Labels of items: clicks and looks down to the first click, by segment, item and position; what a model says by them.

A label is a draw of the item's attraction if users are those of the cascade model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.base import Floats, added

if TYPE_CHECKING:
    from driftrank.logs.count.scan import Scan

#: clicks and looks that are added to the labels of an item, for hazards of the doubly robust estimators
PRIOR = (0.5, 2.0)


class Numbered(Protocol):
    """The numbers of queries and segments."""

    k: int
    begin: NDArray[np.int64]

    @property
    def queries(self) -> Sequence[Any]: ...


@dataclass(frozen=True, eq=False)
class Labels:
    """Sums by segment, item and position. The entries of a segment, one per item of its query, are consecutive."""

    numbers: list[dict[Any, int]]  #: by query: the items that were shown, and their numbers
    start: NDArray[np.int64]  #: by segment: its first entry; the end at last
    looks: Floats  #: (fold, entry, position)
    clicks: Floats
    shown: Floats  #: (entry, position) lists with the item there
    inverse: Floats  #: sum of 1 / propensity of these; NaN without propensities
    squares: Floats  #: sum of 1 / propensity squared

    @property
    def segment_of(self) -> NDArray[np.int64]:
        """By entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def totals(self) -> tuple[Floats, Floats]:
        """Looks and clicks by entry."""
        return self.looks.sum(axis=(0, 2)), self.clicks.sum(axis=(0, 2))

    def attraction(self) -> Floats:
        """Clicks per look by entry; NaN for none."""
        looks, clicks = self.totals()
        alpha: Floats = np.divide(clicks, looks, out=np.full(len(looks), np.nan), where=looks > 0)
        return alpha

    def hazards(self, items: NDArray[np.int64], begin: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """For lists (fold, query, position): (fold, segment, position) the chance of a click by the labels of the other
        fold, and by all labels.
        """
        code = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        lists = items[:, code]
        entry = self.entry(lists, np.arange(len(code)))
        looks, clicks = self.looks.sum(axis=2), self.clicks.sum(axis=2)
        hazard = np.zeros(entry.shape)
        for fold in range(len(items)):
            others = [other for other in range(len(looks)) if other != fold]
            known = lists[fold] >= 0
            ours = [np.where(known, x[others].sum(axis=0)[entry[fold]], 0.0) for x in (clicks, looks)]
            hazard[fold] = (ours[0] + PRIOR[0]) / (ours[1] + PRIOR[1])
        return np.where(lists >= -1, hazard, 0.0), self.attraction_of(lists, np.arange(len(code)))

    def entry(self, items: NDArray[np.int64], segment: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entries of numbers of items (..., n, position) in segments (n,); 0 for items without one."""
        return np.where(items >= 0, self.start[segment][:, None] + items, 0)

    def attraction_of(self, items: NDArray[np.int64], segment: NDArray[np.int64]) -> Floats:
        """The attraction of items (..., n, position) by all labels; NaN for items without, 0 below the end."""
        alpha = np.where(items >= 0, self.attraction()[self.entry(items, segment)], np.nan)
        return np.where(items >= -1, alpha, 0.0)


@dataclass(frozen=True, eq=False)
class ShownLists:
    """The lists of a target, by which the fit of the click model matters for its value."""

    items: NDArray[np.int64]  #: (n, position) numbers of the items, as in :class:`FixedTarget`
    segment: NDArray[np.int64]  #: (n,)
    lists: Floats  #: (n,) how often

    def only(self, those: NDArray[np.bool_]) -> ShownLists:
        return ShownLists(self.items[those], self.segment[those], self.lists[those])


def fit_variance(labels: Labels, shown: ShownLists) -> float:
    r"""The variance of the direct method that comes from the labels, by the delta method.

    The slope of the value in an item's attraction is the product of :math:`1 - \alpha` over the other items.
    """
    alpha, (looks, _) = labels.attraction(), labels.totals()
    entry, known = labels.entry(shown.items, shown.segment), shown.items >= 0
    keep = np.where(known, 1 - np.nan_to_num(alpha)[entry], 1.0)
    slope = np.zeros(len(looks))
    for j in range(keep.shape[1]):
        others = shown.lists * np.prod(np.delete(keep, j, axis=1), axis=1)
        np.add.at(slope, entry[known[:, j], j], others[known[:, j]])
    seen = (looks > 0) & (slope > 0)
    spread = alpha[seen] * (1 - alpha[seen]) / looks[seen]
    return float((slope[seen] ** 2 * spread).sum() / shown.lists.sum() ** 2)


def rarely_seen(labels: Labels, shown: ShownLists, least: int = 100) -> NDArray[np.bool_]:
    """(n, position) True for items of the target with fewer looks than that in the segment."""
    looks = np.where(shown.items >= 0, labels.totals()[0][labels.entry(shown.items, shown.segment)], 0.0)
    rare: NDArray[np.bool_] = (looks < least) & (shown.items >= -1)
    return rare


def bounds(labels: Labels, shown: ShownLists) -> tuple[float, float]:
    """The smallest and the largest value by the cascade model, if items that were rarely seen may be anything between
    0 and what 95% of the other items attract at most (1 if none is known).
    """
    rare = rarely_seen(labels, shown)
    alpha, (looks, _) = labels.attraction(), labels.totals()
    known = alpha[looks >= 100]
    most = float(np.quantile(known, 0.95)) if len(known) else 1.0
    entry = labels.entry(shown.items, shown.segment)
    keep = np.where((shown.items >= -1) & ~rare, 1 - alpha[entry], 1.0).prod(axis=1)
    low, high = 1 - keep, 1 - keep * (1 - most) ** rare.sum(axis=1)
    total = shown.lists.sum()
    return float(shown.lists @ low / total), float(shown.lists @ high / total)


def read_labels(scan: Scan, rows: str, numbered: Numbered) -> Labels:
    """Count the labels of a log; they are also in the table ``labels`` of the connection."""
    K, connection = numbered.k, scan.connection
    placed = (
        "SELECT *, p > 0 AND p <= 1 + 1e-9 AS valid"
        f" FROM (SELECT code, segment, bucket % 2 AS fold, first, unnest(ranking[1:{K}]) AS item,"
        f" unnest(propensities[1:{K}]) AS p, generate_subscripts(ranking[1:{K}], 1) AS place FROM ({rows}))"
    )
    counts = {
        "shown": "count(*)", "looks": "count_if(place <= first)", "clicks": "count_if(place = first)",
        "inverse": "sum(CASE WHEN valid THEN 1 / p END)", "squares": "sum(CASE WHEN valid THEN 1 / (p * p) END)",
    }  # fmt: skip
    with scan.grouped(placed, ("code", "segment", "fold", "item", "place"), counts) as groups:
        connection.execute(f"CREATE TABLE labels AS SELECT * FROM {groups}")
    names: list[list[Any]] = [[] for _ in numbered.queries]
    for code, item in connection.execute("SELECT DISTINCT code, item FROM labels ORDER BY code, item").fetchall():
        names[code].append(item)
    numbers = [{item: number for number, item in enumerate(items)} for items in names]
    sizes = np.repeat([len(items) for items in names], np.diff(numbered.begin))
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    got = connection.execute(
        "SELECT segment, fold, number, place - 1 AS place, shown, looks, clicks, inverse, squares FROM labels JOIN"
        " (SELECT code, item, row_number() OVER (PARTITION BY code ORDER BY item) - 1 AS number"
        " FROM (SELECT DISTINCT code, item FROM labels)) USING (code, item)"
    ).fetchnumpy()
    fold, place = (np.asarray(got[name], np.int64) for name in ("fold", "place"))
    entry = start[np.asarray(got["segment"], np.int64)] + np.asarray(got["number"], np.int64)
    where = (fold * start[-1] + entry) * K + place

    def filled(name: str) -> Floats:
        values = np.ma.filled(np.ma.asarray(got[name], np.float64), np.nan)
        return added(where, values, 2 * int(start[-1]) * K).reshape(2, -1, K)

    looks, clicks = filled("looks"), filled("clicks")
    sums = (filled(name).sum(axis=0) for name in ("shown", "inverse", "squares"))
    return Labels(numbers, start, looks, clicks, *sums)
