"""Integer codes of the (query, item) pairs of statistics, and sorting of their rows, without a loop over rows.

Queries and items are numbered in ascending order; a pair is then one integer, query * items + item. The result does not
depend on the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.counts import LONGEST_LIST, ListCounts, Pairs, PositionCounts

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 20
"""Rows whose lists are flattened at once."""


def position_counts(table: pa.Table) -> PositionCounts:
    """The statistics of positions, sorted by query, item, rank and previous."""
    table, queries, query = _by_query(table)
    items, item = _numbered(table["item"])
    keys, pair = np.unique(query.astype(np.int64) * len(items) + item, return_inverse=True)
    rank, previous = _array(table["rank"]), _array(table["previous"])
    order = np.argsort((pair * (LONGEST_LIST + 1) + rank) * (LONGEST_LIST + 1) + previous, kind="stable")
    rows = [_array(table[name])[order] for name in ("views", "clicks", "examined", "last_clicks")]
    pairs = _pairs(queries, items, keys)
    return PositionCounts(pairs, pair[order].astype(np.int32), rank[order], previous[order], *rows)


def list_counts(table: pa.Table) -> ListCounts:
    """The statistics of lists, sorted by query, ranking and mask."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table, queries, query = _by_query(table)
    items, item = _numbered(pc.list_flatten(table["ranking"]))
    length = _array(pc.list_value_length(table["ranking"]))
    ends = np.append(0, np.cumsum(length, dtype=np.int64))
    blocks = []
    for first in range(0, len(table), _BLOCK):
        last = min(first + _BLOCK, len(table))
        key = np.repeat(query[first:last].astype(np.int64) * len(items), length[first:last])
        found = pa.array(key + item[ends[first] : ends[last]]).dictionary_encode()
        blocks.append((found.dictionary.to_numpy(), found.indices.to_numpy()))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(found for found, _ in blocks)]))
    slots = np.full((len(table), length.max(initial=0)), -1, np.int32)
    for n, (found, where) in enumerate(blocks):
        rows = slice(n * _BLOCK, (n + 1) * _BLOCK)
        present = np.arange(slots.shape[1]) < length[rows, None]
        slots[rows][present] = np.searchsorted(keys, found)[where]
    pairs = _pairs(queries, items, keys)
    mask, lists = _array(table["mask"]), _array(table["lists"])
    order = _order(pairs, query, slots, mask)
    return ListCounts(pairs, slots[order], mask[order], lists[order])


def _order(
    pairs: Pairs, query: NDArray[np.int32], slots: NDArray[np.int32], mask: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The order by query, then by the items from the top, then by mask."""
    starts = pairs.starts
    base = int(np.diff(starts).max(initial=0)) + 1  # the pairs of a query, and 0 beyond the end of the list
    digits = max(1, int(62 / np.log2(base + 1)))  # that fit into one integer
    first = starts[query] - 1
    keys: list[NDArray[Any]] = [query]
    for k in range(slots.shape[1]):
        digit = np.where(slots[:, k] < 0, 0, slots[:, k] - first)
        if k % digits:
            keys[-1] = keys[-1] * base + digit
        else:
            keys.append(digit)
    return np.lexsort([mask, *reversed(keys)])


def _by_query(table: pa.Table) -> tuple[pa.Table, pa.Array, NDArray[np.int32]]:
    """The rows sorted by query, which makes lookups much faster; the queries, and the code of each row's query."""
    import pyarrow as pa

    wide = table.cast(pa.schema([field.with_type(_wide(field.type)) for field in table.schema]))
    queries, query = _numbered(wide["query"])
    order = np.argsort(query, kind="stable")
    return wide.take(order), queries, query[order]


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type with 64-bit offsets: text and lists may exceed 2 GB."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.large_list(_wide(kind.value_type))
    return pa.large_string() if pa.types.is_string(kind) else kind


def _pairs(queries: pa.Array, items: pa.Array, keys: NDArray[np.int64]) -> Pairs:
    query, item = np.divmod(keys, max(len(items), 1))
    names = [np.asarray(values.to_numpy(zero_copy_only=False)) for values in (queries, items)]
    return Pairs(names[0], query.astype(np.int32), names[1][item])


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """The distinct values in ascending order, and the code of each value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(column):
        return pa.array([], column.type), np.zeros(0, np.int32)
    chunks = column.dictionary_encode().unify_dictionaries().chunks
    values = chunks[0].dictionary
    order = pc.array_sort_indices(values).to_numpy()
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return values.take(order), place[np.concatenate([chunk.indices.to_numpy() for chunk in chunks])]


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.array(column.to_numpy())  # a writable copy: kernels are compiled for these
