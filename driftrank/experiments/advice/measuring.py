"""Values of the candidates in a world made from a log, by query and window of its lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftrank.environments import Replay
from driftrank.experiments.advice.candidates import KEEP, ORDER, Candidate
from driftrank.experiments.advice.worlds import World
from driftrank.experiments.simulation.simulate import checkpoint_steps, simulate
from driftrank.logs.generations import Floats, Integers, QueryTable
from driftrank.logs.shown_lists import prefix_values

WINDOWS = 20


@dataclass(frozen=True, eq=False)
class Values:
    """Mean values in one world."""

    by_window: Floats  #: (candidate, query, window)
    by_query: Floats  #: (candidate, query)
    best: Floats  #: (query, window) of the best lists

    @property
    def gains(self) -> Floats:
        """(candidate, query) above what was shown, which is the first candidate."""
        gains: Floats = self.by_query - self.by_query[0]
        return gains


def measure(world: World, chosen: Sequence[Candidate], runs: int, seed: int) -> Values:
    """Simulate policies in a world, each for as many lists as the log has, from nothing; all meet the same users.

    What was shown, and the present order, have the model's values of their lists.
    """
    environment = world.environment
    tables = world.generations.tables
    by_window = np.zeros((len(chosen), len(tables), WINDOWS))
    by_query = np.zeros((len(chosen), len(tables)))
    best = np.zeros((len(tables), WINDOWS))
    policies = [candidate.policy for candidate in chosen if candidate.policy is not None]
    for q, (table, name) in enumerate(zip(tables, environment.names, strict=True)):
        n = len(table)
        edges = np.array([0, *checkpoint_steps(n, WINDOWS)])
        segment = world.segments(q)
        own = Replay(environment.queries.only([name]), world.k)
        result = simulate(policies, own, horizon=n, runs=runs, seed=seed, checkpoints=WINDOWS, progress=False)
        places = [result.place(int(step)) for step in edges[1:]]
        simulated = iter(result.labels)
        for c, candidate in enumerate(chosen):
            if candidate.name == KEEP:
                total = np.cumsum(world.values[q][:, -1])[edges[1:] - 1]
            elif candidate.name == ORDER:
                total = np.cumsum(_of_order(world, q)[segment])[edges[1:] - 1]
            else:
                total = result.values_of(next(simulated), "reward")[0].mean(axis=0)[places]
            by_window[c, q] = np.diff(total, prepend=0.0) / np.diff(edges)
            by_query[c, q] = total[-1] / n
        starts, _, optimal = own.stretches(n)
        ideal = optimal[np.searchsorted(starts, np.arange(1, n + 1), side="right") - 1]
        best[q] = np.diff(np.cumsum(ideal)[edges[1:] - 1], prepend=0.0) / np.diff(edges)
    return Values(by_window, by_query, best)


def present_order(table: QueryTable, segment: Integers, k: int) -> list[int]:
    """The items by how often and how high they stood since the last change."""
    now = table.slots[segment == segment[-1]]
    row, place = np.nonzero(now >= 0)
    height = np.bincount(now[row, place], 1.0 / (place + 1), len(table.items))
    return [int(code) for code in np.argsort(-height, kind="stable")[:k]]


def _of_order(world: World, q: int) -> Floats:
    """By segment, the value of the present order."""
    query, table = world.queries[q], world.generations.tables[q]
    order = np.array([present_order(table, world.segments(q), world.k)] * len(query.attraction), np.int32)
    return prefix_values(query, order, np.arange(len(order)), world.k)[:, -1]
