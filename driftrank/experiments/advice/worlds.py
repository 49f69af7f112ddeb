"""Worlds made from a log: its users by every click model, those that are plausible, and how well they fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from driftrank.clickmodels.base import ClickModel
from driftrank.environments import Replay
from driftrank.evaluation.checks import LEVEL
from driftrank.evaluation.special import chi_square_p
from driftrank.fitting.fit import FittedModels
from driftrank.logs.changes import QueryDrift, find_changes
from driftrank.logs.generations import (
    DriftingQuery,
    Floats,
    Generations,
    Integers,
    QueryTable,
    fit_generations,
    replay_of,
)
from driftrank.logs.log import Log
from driftrank.logs.query_lists import frequent_queries, lists_of
from driftrank.logs.shown_lists import prefix_values

#: queries with fewer lists are left out
_SHORTEST = 50
#: looks at an item of a list below which its value is not known
LOOKS = 100
#: a model's error on the logged lists below which it does not matter, in clicks per list
_SMALL = 0.002


@dataclass(frozen=True, eq=False)
class World:
    """The users of a log by one click model."""

    model: str
    generations: Generations
    queries: Sequence[DriftingQuery]
    k: int
    values: Sequence[Floats]  #: by query: (list, k) the chance of a click among the first items of a logged list

    @property
    def environment(self) -> Replay:
        return replay_of(self.queries, self.k)

    def segments(self, q: int) -> Integers:
        """The segment of every list of a query."""
        return self.generations.tables[q].segment_of(self.queries[q].after)


@dataclass(frozen=True)
class ModelCheck:
    """The fit of a model to the log."""

    model: str
    behind: float  #: log-likelihood of a held-out list that it lacks to the best
    error: float
    plausible: bool  #: not behind the best by more than two standard errors
    off: float  #: its value of the logged lists minus what they earned
    off_error: float
    p: float  #: of first clicks by position as observed

    @property
    def calibrated(self) -> bool:
        return abs(self.off) <= max(3 * self.off_error, _SMALL)

    @property
    def fits(self) -> bool:
        return self.p >= LEVEL

    @property
    def usable(self) -> bool:
        return self.plausible and self.calibrated and self.fits


def read_tables(log: Log, top: int, k: int, most: int) -> list[QueryTable]:
    """The lists of the most frequent queries, as many as hold ``most`` lists together, with k items at least; of the
    first query at least the latest lists.
    """
    tables: list[QueryTable] = []
    for lists in lists_of(log, frequent_queries(log, top)):
        table = QueryTable.of(lists).latest(most)
        if tables and sum(map(len, tables)) + len(table) > most:
            break
        if len(table.items) >= k and len(table) >= _SHORTEST:
            tables.append(table)
    if not tables:
        raise ValueError(f"{log.source}: no query has {_SHORTEST} lists and {k} items")
    return tables


def changes_in(tables: Sequence[QueryTable], items: int) -> list[QueryDrift]:
    """The changes of queries."""
    return find_changes(lambda: (table.lists() for table in tables), items=items)


def world_of(model: type[ClickModel], generations: Generations, k: int) -> World:
    """The users of a log by a model that is fitted to it."""
    queries = generations.queries(fit_generations(model, generations.counts()))
    values = []
    for table, query in zip(generations.tables, queries, strict=True):
        values.append(prefix_values(query, table.slots, table.segment_of(query.after), k))
    return World(model.__name__, generations, queries, k, values)


def compared(
    models: Sequence[type[ClickModel]], generations: Generations, k: int, done: Callable[[], None]
) -> tuple[dict[str, World], list[ModelCheck]]:
    """The world of every model, and their checks from best to worst.

    Models are fitted to four fifths of the lists and compared on every fifth, so that both parts have the same changes.
    """
    held, others = generations.counts(0), generations.counts(-1)
    worlds, fits, evaluations = {}, {}, {}
    for model in models:
        name = model.__name__
        fits[name] = fit_generations(model, others)
        evaluations[name] = fits[name].evaluate(held)
        worlds[name] = world_of(model, generations, k)
        done()
    lists = sum(map(len, generations.tables))
    fitted = FittedModels(fits, lists, int(held.lists.sum()), evaluations, {}, 0.0, {}, held)
    plausible = {fitted.best, *fitted.ties}
    checks = [
        ModelCheck(name, *fitted.behind(name), name in plausible, *_calibration(worlds[name]), _positions(worlds[name]))
        for name in fitted.ranked()
    ]
    return worlds, checks


def first_clicks(table: QueryTable, k: int) -> Integers:
    """The position of the first click of every list, k + 1 for none down to k."""
    clicked = ((table.mask[:, None] >> np.arange(min(k, table.slots.shape[1]))) & 1).astype(bool)
    found: Integers = np.where(clicked.any(axis=1), clicked.argmax(axis=1) + 1, k + 1)
    return found


def _calibration(world: World) -> tuple[float, float]:
    """The mean of the model's value minus the reward of the logged lists, and its standard error."""
    earned = np.concatenate([first_clicks(table, world.k) <= world.k for table in world.generations.tables])
    off = np.concatenate([values[:, -1] for values in world.values]) - earned
    return float(off.mean()), float(off.std() / math.sqrt(len(off)))


def _positions(world: World) -> float:
    """The p-value of first clicks by position; 1 if no position is off by more than what matters."""
    chances = np.diff(np.concatenate(world.values), axis=1, prepend=0.0)
    first = np.concatenate([first_clicks(table, world.k) for table in world.generations.tables])
    observed = (first[:, None] == np.arange(1, world.k + 1)).sum(axis=0)
    variance = (chances * (1 - chances)).sum(axis=0)
    off = observed - chances.sum(axis=0)
    if np.abs(off).max() <= _SMALL * len(first):
        return 1.0
    return chi_square_p(float((off**2 / np.maximum(variance, 1e-12)).sum()), world.k)


def best_lists(world: World, q: int) -> list[list[int]]:
    """The best list of a query by segment, as codes of items."""
    query = world.queries[q]
    users = query.users.only(query.shown)
    return [[int(query.shown[a]) for a in users.best(alpha[query.shown], world.k)] for alpha in query.attraction]


def hardly_known(world: World) -> float:
    """The share of lists in whose place the best list has an item with fewer than 100 looks between its changes."""
    lists = rare = 0
    for q, (table, pairs) in enumerate(zip(world.generations.tables, world.generations.pair_of, strict=True)):
        segment = world.segments(q)
        first = first_clicks(table, table.slots.shape[1])
        read = (table.slots >= 0) & (np.arange(1, table.slots.shape[1] + 1) <= first[:, None])
        row, place = np.nonzero(read)
        own = pairs - pairs.min()
        looks = np.bincount(own[segment[row], table.slots[row, place]], minlength=int(own.max()) + 1)
        best = best_lists(world, q)
        thin = np.array([looks[own[s, codes]].min() < LOOKS for s, codes in enumerate(best)])
        lists += len(table)
        rare += int(thin[segment].sum())
    return rare / lists
