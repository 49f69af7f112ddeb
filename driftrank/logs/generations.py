"""Click models of a log whose users change: any model, fitted to items that are others after each of their changes.

Between two of its own changes an item is one *generation*. For the fit every generation is an item by itself, so that
attraction (and every other parameter of items) is estimated from the lists of that time, while parameters of ranks come
from all lists. Nothing depends on the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.fitting.counts import LONGEST_LIST, ListCounts, Pairs
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.environments import Replay
from driftrank.logs.changes import QueryDrift
from driftrank.logs.query_lists import QueryLists
from driftrank.queries import Queries

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QueryTable:
    """The lists of a query as a table, in the order of time; empty ones are left out."""

    query: Any
    items: tuple[Any, ...]  #: ids, by code
    slots: NDArray[np.int32]  #: (lists, positions) codes of the items, -1 beyond the end
    mask: Integers  #: (lists,) bit k - 1 is a click at k
    time: Sequence[Any]  #: (lists,)

    @classmethod
    def of(cls, lists: QueryLists) -> QueryTable:
        keep = lists.position <= LONGEST_LIST
        row, place = lists.list_of[keep] - 1, lists.position[keep] - 1
        slots = np.full((lists.count, int(place.max(initial=0)) + 1), -1, np.int32)
        slots[row, place] = lists.item[keep]
        mask = np.zeros(lists.count, np.int64)
        np.add.at(mask, row, lists.clicked[keep].astype(np.int64) << place)
        some = slots[:, 0] >= 0
        time = [lists.time[row] for row in np.flatnonzero(some)]
        return cls(lists.query, tuple(lists.names.tolist()), slots[some], mask[some], time)

    def __len__(self) -> int:
        return len(self.mask)

    def lists(self) -> QueryLists:
        """The same lists with a row per position."""
        row, place = np.nonzero(self.slots >= 0)
        clicked = ((self.mask[row] >> place) & 1).astype(bool)
        return QueryLists(
            self.query, list(self.time), np.array(self.items, object),
            self.slots[row, place].astype(np.int64), row + 1, place + 1, clicked,
        )  # fmt: skip

    def latest(self, most: int) -> QueryTable:
        """The latest lists, at most so many."""
        return dataclasses.replace(self, slots=self.slots[-most:], mask=self.mask[-most:], time=self.time[-most:])

    def segment_of(self, after: Sequence[int]) -> Integers:
        """By list, the number of changes before it; ``after`` has the last list before each."""
        return np.searchsorted(np.asarray(after, np.int64), np.arange(1, len(self) + 1), side="left")


@dataclass(frozen=True, eq=False)
class DriftingQuery:
    """A query of a log as a click model sees it."""

    query: Any
    items: tuple[Any, ...]  #: ids, by code
    after: tuple[int, ...]  #: the last list before each change
    attraction: Floats  #: (segment, code)
    users: ClickModel  #: with the parameters of all items
    shown: Integers  #: the codes of the items that are simulated


@dataclass(frozen=True, eq=False)
class Generations:
    """The lists of several queries for a fit. Pairs are generations of items."""

    tables: Sequence[QueryTable]
    drifts: Sequence[QueryDrift]  #: of the same queries
    pairs: Pairs
    pair_of: Sequence[Integers]  #: by query: (segment, code) the pair

    @classmethod
    def of(cls, tables: Sequence[QueryTable], drifts: Sequence[QueryDrift]) -> Generations:
        pair_of: list[Integers] = []
        first, sizes = 0, []
        for table, drift in zip(tables, drifts, strict=True):
            code = {item: n for n, item in enumerate(table.items)}
            generation = np.zeros((len(drift.changes) + 1, len(table.items)), np.int64)
            for n, change in enumerate(drift.changes, 1):
                generation[n:, [code[item] for item in change.items]] += 1
            begins = np.concatenate([[0], np.cumsum(generation[-1] + 1)])
            pair_of.append(first + begins[:-1] + generation)
            sizes.append(int(begins[-1]))
            first += sizes[-1]
        query = np.repeat(np.arange(len(tables), dtype=np.int32), sizes)
        return cls(tables, drifts, Pairs(np.arange(len(tables)), query, np.arange(first)), pair_of)

    def counts(self, fold: int | None = None, folds: int = 5) -> ListCounts:
        """The lists; with ``fold`` only every ``folds``-th, from that one on, or with ``-1 - fold`` all but these."""
        longest = max(table.slots.shape[1] for table in self.tables)
        slots, masks = [], []
        for table, drift, pairs in zip(self.tables, self.drifts, self.pair_of, strict=True):
            segment = table.segment_of([change.after for change in drift.changes])
            found = np.where(table.slots >= 0, pairs[segment[:, None], table.slots], -1)
            chosen = np.ones(len(table), bool)
            if fold is not None:
                chosen = np.arange(len(table)) % folds == (fold if fold >= 0 else -1 - fold)
                chosen = chosen if fold >= 0 else ~chosen
            slots.append(np.pad(found, ((0, 0), (0, longest - found.shape[1])), constant_values=-1)[chosen])
            masks.append(table.mask[chosen])
        rows = np.concatenate(slots).astype(np.int32)
        return ListCounts(self.pairs, *_counted(rows, np.concatenate(masks)))

    def queries(self, fit: Fit) -> list[DriftingQuery]:
        """The queries by a fit of these lists."""
        starts, found = self.pairs.starts, []
        for q, (table, drift, pairs) in enumerate(zip(self.tables, self.drifts, self.pair_of, strict=True)):
            users = fit.query(q)[2]
            # parameters of items other than attraction do not change: those of the generation that was shown most
            main = pairs[fit.views[pairs].argmax(axis=0), np.arange(pairs.shape[1])]
            code = {item: n for n, item in enumerate(table.items)}
            found.append(
                DriftingQuery(
                    table.query, table.items, tuple(change.after for change in drift.changes), fit.attraction[pairs],
                    dataclasses.replace(users.only(main - starts[q]), objective="any"),
                    np.array([code[item] for item in drift.items], np.int64),
                )
            )  # fmt: skip
        return found


def fit_generations(model: type[ClickModel], counts: ListCounts, **options: Any) -> Fit:
    """Fit a model to counts of generations, by maximum likelihood."""
    options = {"exact": True} | options
    kind = model.counts_for(bool(options["exact"]))
    return model.fit(counts if kind == "lists" else counts.positions(), **options)


def replay_of(queries: Iterable[DriftingQuery], k: int) -> Replay:
    """The environment in which these queries change as they did."""
    attraction, models, items, changes = {}, {}, {}, {}
    for each in queries:
        name, own = str(each.query), each.attraction[:, each.shown]
        attraction[name] = own[0]
        models[name] = each.users.only(each.shown)
        items[name] = tuple(each.items[code] for code in each.shown)
        changes[name] = tuple((step, tuple(alpha.tolist())) for step, alpha in zip(each.after, own[1:], strict=True))
    return Replay(Queries(attraction, models, items, changes), k)


def _counted(rows: NDArray[np.int32], mask: Integers) -> tuple[NDArray[np.int32], Integers, Integers]:
    """Different rows with their masks, and how often each occurs."""
    whole = np.ascontiguousarray(np.column_stack([rows.astype(np.int64), mask]))
    keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
    _, first, lists = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first, kind="stable")  # by time, whatever the order of bytes on this machine
    return rows[first[order]], mask[first[order]], lists[order].astype(np.int64)
