"""Number the (query, item) pairs of statistics, exactly and without a loop over rows.

Queries and items are looked up among their distinct values; a pair is then one integer, query * items + item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.counts import Pairs

if TYPE_CHECKING:
    import pyarrow as pa

Integers = NDArray[np.int64]


def number_positions(table: pa.Table) -> tuple[Pairs, NDArray[np.int32]]:
    """The pairs of the columns query and item, and which of them each row is."""
    numbers = _Numbers.of(table["query"], table["item"])
    keys, where = np.unique(numbers.keys(table["query"], table["item"]), return_inverse=True)
    return numbers.pairs(keys), where.astype(np.int32)


def number_lists(table: pa.Table) -> tuple[Pairs, NDArray[np.int32]]:
    """The pairs of the columns query and ranking, and by row and position which of them it is, -1 beyond the end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = _Numbers.of(table["query"], pc.list_flatten(table["ranking"]))
    found = [np.zeros(0, np.int64)]
    for _, _, keys in _by_position(table, numbers):
        found.append(pc.unique(pa.array(keys)).to_numpy())
    pairs = np.unique(np.concatenate(found))
    longest = pc.max(pc.list_value_length(table["ranking"])).as_py() or 0
    slots = np.full((len(table), longest), -1, np.int32)
    for k, rows, keys in _by_position(table, numbers):
        slots[rows, k] = np.searchsorted(pairs, keys)
    return numbers.pairs(pairs), slots


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Distinct queries and items, ascending: integers, or text in the order of its code points."""

    queries: pa.Array
    items: pa.Array

    @staticmethod
    def of(queries: pa.ChunkedArray, items: pa.ChunkedArray) -> _Numbers:
        return _Numbers(_distinct(queries), _distinct(items))

    def keys(self, queries: pa.Array, items: pa.Array) -> Integers:
        """One integer for each pair, in the order of queries, then items."""
        return _places(queries, self.queries) * len(self.items) + _places(items, self.items)

    def pairs(self, keys: Integers) -> Pairs:
        query, item = np.divmod(keys, max(len(self.items), 1))
        return Pairs(_names(self.queries), query.astype(np.int32), _names(self.items)[item])


def _by_position(table: pa.Table, numbers: _Numbers) -> Iterator[tuple[int, Integers, Integers]]:
    """A position, the rows whose lists reach it and the keys there: some rows at a time, so that memory suffices."""
    first = 0
    for batch in table.select(["query", "ranking"]).to_batches(max_chunksize=1 << 20):
        queries, rankings = batch["query"], batch["ranking"]
        offsets = rankings.offsets.to_numpy().astype(np.int64)
        length = np.diff(offsets)
        for k in range(int(length.max(initial=0))):
            rows = np.flatnonzero(length > k)
            yield k, first + rows, numbers.keys(queries.take(rows), rankings.values.take(offsets[rows] + k))
        first += len(batch)


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    values = pc.unique(_wide(column))
    return values.take(pc.array_sort_indices(values))


def _places(values: pa.Array, names: pa.Array) -> Integers:
    """Where values are among the distinct ones."""
    import pyarrow.compute as pc

    return np.asarray(pc.index_in(_wide(values), value_set=names), dtype=np.int64)


def _wide(values: pa.Array) -> pa.Array:
    """Text of more than 2 GB needs 64-bit offsets."""
    import pyarrow as pa

    return values.cast(pa.large_string()) if pa.types.is_string(values.type) else values


def _names(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
