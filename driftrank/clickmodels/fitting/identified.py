"""Check that a log separates the examination of positions from the attraction of items."""

from __future__ import annotations

import numpy as np

from driftrank.clickmodels.fitting.counts import PositionCounts


class NotIdentified(ValueError):
    """A model cannot be fitted, since other parameters would explain the log as well."""


def ranks_apart(counts: PositionCounts, per_query: bool = False) -> list[int]:
    """The ranks up to the last that no chain of items links to rank 1.

    Clicks depend on attraction times examination. Two ranks are compared by an item that was shown at both; a rank that
    is not linked to the first by such items, directly or through others, has the examination of the prior. With
    parameters for every query, items of other queries do not link them: then these are the ranks of the query with the
    fewest.

    >>> from driftrank.clickmodels.fitting.counts import Pairs
    >>> pairs = Pairs(np.array(["tea"]), np.array([0, 0, 0], np.int32), np.array([11, 12, 13]))
    >>> rank, n = np.array([1, 2, 2, 3]), np.ones(4, int)
    >>> ranks_apart(PositionCounts(pairs, np.array([0, 0, 1, 2]), rank, 0 * n, n, n, n, n))
    [3]
    """
    if not len(counts):
        return []
    ranks = np.zeros(len(counts.pairs), np.uint64)
    np.bitwise_or.at(ranks, counts.pair, np.uint64(1) << (counts.rank - 1).astype(np.uint64))
    group = counts.pairs.query if per_query else np.zeros(len(ranks), np.int64)
    groups = int(group.max()) + 1
    linked = np.full(groups, np.uint64(1))
    occurring = np.zeros(groups, np.uint64)
    np.bitwise_or.at(occurring, group, ranks)
    while True:
        near = (ranks & linked[group]) != 0
        more = linked.copy()
        np.bitwise_or.at(more, group[near], ranks[near])
        if np.array_equal(more, linked):
            break
        linked = more
    linked &= occurring  # rank 1 may not have been shown
    each = [
        [k for k in range(1, int(o).bit_length() + 1) if not int(m) >> (k - 1) & 1]
        for o, m in zip(occurring.tolist(), linked.tolist(), strict=True)
        if o
    ]
    return min(each, key=len)
