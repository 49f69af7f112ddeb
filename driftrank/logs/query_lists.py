"""The lists of single queries, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from driftrank.logs.log import Log


@dataclass(frozen=True, eq=False)
class QueryLists:
    """All lists of a query in the order of time, with one row per position."""

    query: Any
    time: list[Any]  #: of every list
    names: NDArray[Any]  #: ids of the items, by code
    item: NDArray[np.int64]  #: code of the item of every row
    list_of: NDArray[np.int64]  #: number of the list of every row, from 1
    position: NDArray[np.int64]  #: from 1
    clicked: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.time)

    def most_shown(self, most: int) -> tuple[list[Any], NDArray[np.int64]]:
        """Ids and codes of the items that were shown most."""
        views = np.bincount(self.item, minlength=len(self.names))
        codes = np.argsort(-views, kind="stable")[:most]
        return self.names[codes].tolist(), codes

    def read(self) -> NDArray[np.bool_]:
        """True for rows that were certainly read: those down to the first click, or all without a click."""
        end = np.full(self.count + 1, np.iinfo(np.int64).max)
        np.minimum.at(end, self.list_of[self.clicked], self.position[self.clicked])
        seen: NDArray[np.bool_] = self.position <= end[self.list_of]
        return seen


def frequent_queries(log: Log, top: int) -> list[Any]:
    """The queries with most lists, most frequent first."""
    sql = f"SELECT query FROM {log.relation} GROUP BY query ORDER BY count(*) DESC, query LIMIT {int(top)}"
    with log.connect() as connection:
        return [row[0] for row in connection.execute(sql).fetchall()]


def lists_of(log: Log, queries: Iterable[Any]) -> Iterator[QueryLists]:
    """The lists of each of these queries, one query in memory at a time."""
    first = "coalesce(position, 1)" if "position" in log.types else "1"
    sql = f"SELECT time, ranking, clicks, {first} AS first FROM {log.relation} WHERE query = ? ORDER BY 1, 2, 3, 4"
    with log.connect() as connection:
        for query in queries:
            table = connection.sql(sql, params=[query]).to_arrow_table().combine_chunks()
            if not table.num_rows:
                raise ValueError(f"query={query!r}: has no lists in {log.source}")
            yield _lists(query, table)


def _lists(query: Any, table: Any) -> QueryLists:
    import pyarrow.compute as pc

    ranking, clicks = (table.column(name).combine_chunks() for name in ("ranking", "clicks"))
    sizes = pc.list_value_length(ranking).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    encoded = pc.list_flatten(ranking).dictionary_encode()
    item = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    list_of = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    first = table.column("first").to_numpy().astype(np.int64)
    position = np.arange(len(item)) - starts[list_of - 1] + first[list_of - 1]
    clicked = np.zeros(len(item), bool)
    parents = pc.list_parent_indices(clicks).to_numpy(zero_copy_only=False)
    places = pc.list_flatten(clicks).to_numpy(zero_copy_only=False).astype(np.int64)
    there = (places >= 1) & (places <= sizes[parents])  # `driftrank log check` tells of others
    clicked[starts[parents[there]] + places[there] - 1] = True
    names = encoded.dictionary.to_numpy(zero_copy_only=False)
    return QueryLists(query, table.column("time").to_pylist(), names, item, list_of, position, clicked)
