"""The lists of a log as a fitted model sees them: their values, and clicks of simulated users on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import specialise
from driftrank.logs import templates
from driftrank.logs.generations import DriftingQuery, Floats, Integers, QueryTable


def prefix_values(query: DriftingQuery, slots: NDArray[np.int32], segment: Integers, k: int) -> Floats:
    """(lists, k): the chance of a click among the first 1, 2, ..., k items of lists in segments of a query."""
    lists = _Lists(query, slots[:, :k])
    out = np.zeros((len(slots), k))
    specialise(templates.list_values, {"VALUE": query.users.kernels().value})(
        lists.models, lists.begin, query.attraction, segment, lists.slots, lists.length,
        np.zeros(query.users.work_size(len(query.items), k)), out,
    )  # fmt: skip
    return out


def clicked(query: DriftingQuery, table: QueryTable, key: int) -> QueryTable:
    """The same lists, with the clicks of other users."""
    lists = _Lists(query, table.slots)
    mask = np.zeros(len(table), np.int64)
    specialise(templates.list_clicks, {"CLICK": query.users.kernels().click})(
        np.uint64(key), lists.models, lists.begin, query.attraction, table.segment_of(query.after), lists.slots,
        lists.length, np.zeros(table.slots.shape[1], np.int8), mask,
    )  # fmt: skip
    return replace(table, mask=mask)


class _Lists:
    """Arguments of the templates."""

    def __init__(self, query: DriftingQuery, slots: NDArray[np.int32]) -> None:
        self.slots: NDArray[Any] = np.ascontiguousarray(np.maximum(slots, 0)).astype(np.uint32)
        self.length: Integers = (slots >= 0).sum(axis=1)
        rows = [query.users.row(len(query.items), n) for n in range(1, slots.shape[1] + 1)]
        self.models = np.concatenate([np.zeros(0), *rows])
        self.begin = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
