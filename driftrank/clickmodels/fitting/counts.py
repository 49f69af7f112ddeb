"""The statistics of a click log that click models are fitted to and evaluated on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ListCounts", "Pairs", "PositionCounts"]

LONGEST_LIST = 62
"""Maximum number of positions of a list: its clicks are the bits of one 64-bit integer."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every (query, item) that was shown, sorted by query, then by item: the pairs of a query are contiguous.

    Parameters
    ----------
    queries : the names of the Q queries, ascending
    query : (P,) the query of each pair, an index into `queries`
    items : (P,) the item's name

    >>> pairs = Pairs(np.array(["shoes", "tea"]), np.array([0, 0, 1], np.int32), np.array([11, 12, 11]))
    >>> len(pairs)
    3
    >>> pairs.starts.tolist()
    [0, 2, 3]
    """

    queries: NDArray[Any]
    query: NDArray[np.int32]
    items: NDArray[Any]

    def __post_init__(self) -> None:
        if len(self.query) != len(self.items):
            raise ValueError(f"query has {len(self.query)} pairs, items {len(self.items)}: must be the same number")
        _check_within("query", self.query, 0, len(self.queries))
        if np.any(np.diff(self.query) < 0):
            raise ValueError("query: must ascend, so that the pairs of a query are contiguous")

    def __len__(self) -> int:
        return len(self.query)

    @property
    def starts(self) -> NDArray[np.int64]:
        """(Q + 1,) the first pair of each query: those of query q are starts[q] .. starts[q + 1] - 1."""
        return np.searchsorted(self.query, np.arange(len(self.queries) + 1))


@dataclass(frozen=True, eq=False)
class PositionCounts:
    """Views and clicks of each pair, by its rank and by the nearest click above it.

    A row is one combination of pair, rank and previous that occurred. Used for the models whose likelihood is a
    product over positions given the last click above: CM, DCM, simplified DBN, PBM, UBM.

    Parameters
    ----------
    pairs : the (query, item) pairs
    pair : (n,) index of the pair
    rank : (n,) its position in the list, from 1
    previous : (n,) the rank of the nearest click above it in the same list, 0 if there is none

    In less detail, for models that need no more, `rank` is 0 without a click, and `previous` 1 for any click.

    views : (n,) the lists that had the pair there
    clicks : (n,) of these, those with a click on it
    examined : (n,) of these, those without any click, or with a click there or below
    last_clicks : (n,) of these, those whose last (lowest) click it was

    >>> pairs = Pairs(np.array(["tea"]), np.array([0], np.int32), np.array([11]))
    >>> one = np.array([1])
    >>> counts = PositionCounts(pairs, np.array([0]), one, np.array([0]), 3 * one, one, 2 * one, one)
    >>> len(counts), counts.k
    (1, 1)
    """

    pairs: Pairs
    pair: NDArray[np.int32]
    rank: NDArray[np.int16]
    previous: NDArray[np.int16]
    views: NDArray[np.int64]
    clicks: NDArray[np.int64]
    examined: NDArray[np.int64]
    last_clicks: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("rank", "previous", "views", "clicks", "examined", "last_clicks"):
            _check_as_many(name, getattr(self, name), "pair", self.pair)
        _check_within("pair", self.pair, 0, len(self.pairs))
        _check_within("rank", self.rank, 0, LONGEST_LIST + 1)

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def detailed(self) -> bool:
        """True if the rank of every item is known."""
        return bool(self.rank.min(initial=1) > 0)

    @property
    def k(self) -> int:
        """The number of positions of the longest list."""
        return int(self.rank.max(initial=0))

    @property
    def longest(self) -> int:
        """The same, or 0 if it is not known: without the ranks of items that were not clicked, it is 1 if nothing was
        shown below a click."""
        alone = self.k == 1 and not self.previous.any()
        return self.k if self.detailed or alone else 0


@dataclass(frozen=True, eq=False)
class ListCounts:
    """Numbers of lists, by ranking and pattern of clicks.

    A row is one combination of query, ranking and clicked positions that occurred. Used for the models with a
    hidden state at every position (DBN, CCM), and for the likelihood and perplexity of every model.

    Parameters
    ----------
    pairs : the (query, item) pairs
    slots : (n, K) the pair at each position, -1 beyond the end of the list
    mask : (n,) the clicks: bit k - 1 is a click at position k
    lists : (n,) the number of lists

    >>> pairs = Pairs(np.array(["tea"]), np.array([0, 0], np.int32), np.array([11, 12]))
    >>> counts = ListCounts(pairs, np.array([[1, 0], [0, -1]]), np.array([0b10, 0b0]), np.array([3, 4]))
    >>> len(counts), counts.k
    (2, 2)
    """

    pairs: Pairs
    slots: NDArray[np.int32]
    mask: NDArray[np.int64]
    lists: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("mask", "lists"):
            _check_as_many(name, getattr(self, name), "slots", self.slots)
        if self.slots.ndim != 2 or self.k > LONGEST_LIST:
            raise ValueError(f"slots of shape {self.slots.shape}: must be (lists, positions), at most {LONGEST_LIST}")
        _check_within("slots", self.slots, -1, len(self.pairs))
        if np.any(self.mask >> self.k):
            raise ValueError(f"mask: a click below position {self.k}, where the lists end")

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def k(self) -> int:
        """The number of positions of the longest list."""
        return int(self.slots.shape[1])

    @property
    def longest(self) -> int:
        return self.k

    def positions(self) -> PositionCounts:
        """The same lists, counted by position.

        >>> pairs = Pairs(np.array(["tea"]), np.array([0, 0], np.int32), np.array([11, 12]))
        >>> ListCounts(pairs, np.array([[1, 0]]), np.array([0b10]), np.array([3])).positions().clicks.tolist()
        [3, 0]
        """
        clicked = (self.mask[:, None] >> np.arange(self.k)) & 1
        rank = np.broadcast_to(np.arange(1, self.k + 1), self.slots.shape)
        clicked_at = np.maximum.accumulate(np.where(clicked, rank, 0), axis=1)
        previous = np.column_stack([np.zeros(len(self), np.int64), clicked_at[:, :-1]])
        last = clicked_at[:, -1:]
        shown = self.slots >= 0
        lists = np.broadcast_to(self.lists[:, None], self.slots.shape)
        width = self.k + 1
        key = (self.slots.astype(np.int64) * width + rank) * width + previous
        found, row = np.unique(key[shown], return_inverse=True)

        def summed(those: NDArray[Any]) -> NDArray[np.int64]:
            return np.bincount(row, (lists * those)[shown], len(found)).astype(np.int64)

        views, clicks = summed(np.ones_like(clicked)), summed(clicked)
        examined, last_clicks = summed((last == 0) | (last >= rank)), summed(clicked * (last == rank))
        pair, place, above = found // width**2, found // width % width, found % width
        return PositionCounts(
            self.pairs, pair.astype(np.int32), place.astype(np.int16), above.astype(np.int16), views, clicks, examined,
            last_clicks,
        )  # fmt: skip


def _check_as_many(name: str, values: NDArray[Any], other: str, others: NDArray[Any]) -> None:
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} rows, {other} {len(others)}: must be the same number")


def _check_within(name: str, values: NDArray[Any], low: int, end: int) -> None:
    """Integers in low .. end - 1."""
    if len(values) and not (low <= values.min() and values.max() < end):
        raise ValueError(f"{name}: holds {values.min()} to {values.max()}, must be from {low} to {end - 1}")
