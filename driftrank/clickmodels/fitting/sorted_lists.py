"""The lists of a log, sorted for passes over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.counts import ListCounts

Numbers = NDArray[np.float64]


class SortedLists:
    """The lists of a log, sorted by query."""

    def __init__(self, counts: ListCounts) -> None:
        slots = counts.slots
        if np.any((slots[:, :-1] < 0) & (slots[:, 1:] >= 0)) or np.any(slots[:, :1] < 0):
            raise ValueError("slots: every list must begin with a pair and have no gaps")
        query = counts.pairs.query[slots[:, 0]] if len(slots) else np.zeros(0, np.int64)
        #: the row of each in the counts
        self.order = np.argsort(query, kind="stable") if np.any(np.diff(query) < 0) else np.arange(len(query))
        self.query = query[self.order]
        self.slots = np.ascontiguousarray(slots[self.order])
        self.mask, self.lists = counts.mask[self.order], counts.lists[self.order]
        self.starts = np.searchsorted(self.query, np.arange(len(counts.pairs.queries) + 1))

    def per_pair(self, pairs: int) -> tuple[Numbers, Numbers]:
        """Views and clicks of each pair."""
        views, clicks = np.zeros(pairs), np.zeros(pairs)
        for k in range(self.slots.shape[1]):
            shown = self.slots[:, k] >= 0
            pair, lists = self.slots[shown, k], self.lists[shown]
            views += np.bincount(pair, lists, pairs)
            clicks += np.bincount(pair, lists * (self.mask[shown] >> k & 1), pairs)
        return views, clicks
