"""Examination: the probability that a rank is read, from a log whose attraction may change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import PBM
from driftrank.clickmodels.fitting.counts import LONGEST_LIST, Pairs, PositionCounts
from driftrank.logs.query_lists import QueryLists

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

#: lists of a block of time, in which attraction is taken to be constant, and the largest number of blocks
_BLOCK, _BLOCKS = 200, 20
#: an item must change its rank so often within a block: with fewer changes, rank and time cannot be separated
_SWITCHES = 3
#: the smallest probability of examination that is considered
LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Examination:
    """The probability that a rank is read if nothing above it was clicked, relative to the first rank, by rank."""

    estimate: Numbers  #: 1 for ranks that the log tells nothing about: the cascade models
    low: Numbers  #: of the simultaneous confidence interval; :data:`LEAST` for such ranks
    high: Numbers

    @property
    def known(self) -> NDArray[np.bool_]:
        """By rank, True if the log tells something about it."""
        found: NDArray[np.bool_] = (self.low > LEAST) | (self.high < 1)
        return found


def examination_of(queries: Iterable[QueryLists], items: int, level: float) -> Examination:
    """Estimate examination from items that were shown at several ranks within a short time.

    Every item has an attraction of its own in each block of about 200 lists, so a change of attraction is not taken for
    an effect of the rank, nor the other way round. Items that kept their rank within a block, or changed it once or
    twice, do not count. Down to the first click of a list, this is right for the models CM, DCM, SDBN (always 1), PBM
    and UBM.

    Parameters
    ----------
    items
        Number of items per query, the most often shown.
    level
        Level of the intervals of all ranks together.
    """
    tables = [_cells(lists, items) for lists in queries]
    k = max((table.shape[1] for table, _ in tables), default=1)
    none = np.zeros((0, k), np.int64)
    views, clicks = (np.concatenate([none, *(_padded(pair[n], k) for pair in tables)]) for n in (0, 1))
    estimate, low, high = np.ones(k), np.full(k, LEAST), np.ones(k)
    low[0] = 1.0
    if not len(views):
        return Examination(estimate, low, high)
    cell, rank = np.nonzero(views)
    pairs = Pairs(np.array(["all"]), np.zeros(len(views), np.int32), np.arange(len(views)))
    nothing = np.zeros(len(cell), np.int64)
    counts = PositionCounts(
        pairs, cell.astype(np.int32), (rank + 1).astype(np.int16), nothing.astype(np.int16), views[cell, rank],
        clicks[cell, rank], nothing, nothing,
    )  # fmt: skip
    fit = PBM.fit(counts, prior=(0, 0), level=1 - (1 - level) / max(1, k - 1))
    seen = _linked(views > 0)
    n = fit.k
    found = (fit.parameters["examination"][0], fit.low["examination"][0], fit.high["examination"][0])
    for values, ours in zip(found, (estimate, low, high), strict=True):
        ours[:n] = np.where(seen[:n], np.clip(values, LEAST, 1.0), ours[:n])
    return Examination(estimate, low, high)


def _cells(lists: QueryLists, most: int) -> tuple[Integers, Integers]:
    """(cells, ranks): views and clicks, nothing above clicked, of every item in a block that counts."""
    codes = lists.most_shown(most)[1]
    blocks = int(np.clip(lists.count // _BLOCK, 2, _BLOCKS))
    chosen = lists.read() & np.isin(lists.item, codes) & (lists.position <= LONGEST_LIST)
    item, rank, number = lists.item[chosen], lists.position[chosen], lists.list_of[chosen]
    clicked = lists.clicked[chosen]
    cell = item * blocks + (number - 1) * blocks // lists.count
    order = np.lexsort((number, cell))
    cell, rank, clicked = cell[order], rank[order], clicked[order]
    k = int(lists.position.max(initial=1))
    size = len(lists.names) * blocks
    switched = (np.diff(cell) == 0) & (np.diff(rank) != 0)
    usable = np.bincount(cell[1:][switched], minlength=size) >= _SWITCHES
    place = cell * k + rank - 1
    views, clicks = (np.bincount(place, w, size * k).reshape(size, k) for w in (None, clicked))
    usable &= clicks.sum(axis=1) > 0  # the others do not tell ranks apart
    return views[usable].astype(np.int64), clicks[usable].astype(np.int64)


def _linked(shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Ranks that can be compared with the first one: by an item at both, or by way of others."""
    linked = np.zeros(shown.shape[1], bool)
    linked[0] = True
    while True:
        more = shown[shown[:, linked].any(axis=1)].any(axis=0) | linked
        if (more == linked).all():
            return linked
        linked = more


def _padded(table: Integers, k: int) -> Integers:
    return np.pad(table, ((0, 0), (0, k - table.shape[1])))
