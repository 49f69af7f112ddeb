"""Successive halving: settings that are clearly worse get fewer runs (Karnin, Koren and Somekh, 2013; Jamieson and
Talwalkar, 2016).

All settings of a family first make a few runs, the same ones; the better part of them goes on with more, until those
that are left have made all. Runs do not depend on each other, so that nothing is lost: the numbers of a run are those
of a full sweep. Unlike in the textbook, rank alone is not enough. A setting is dropped if it is not in the
better part *and* its regret is above that of the best by several standard errors of their paired difference.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.rng import run_key

#: one in so many continues, with so many times as many runs
FACTOR = 2
#: runs before anything is dropped
LEAST = 6
#: standard errors that make a difference clear
CLEAR = 3.0


def order(queries: Sequence[str], runs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All (query, run) in the order of simulation: a run of every query before the next, in random order."""
    pairs = [(run, run_key(seed, query, run), q) for q, query in enumerate(queries) for run in range(runs)]
    pairs.sort()
    return np.array([q for _, _, q in pairs]), np.array([run for run, _, _ in pairs])


def rungs(total: int) -> list[int]:
    """The number of runs of a setting whenever some are dropped, and at the end.

    >>> rungs(600), rungs(20)
    ([10, 19, 38, 75, 150, 300, 600], [10, 20])
    """
    found = [total]
    while found[0] / FACTOR >= LEAST:
        found.insert(0, math.ceil(found[0] / FACTOR))
    return found


def survivors(regret: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True for settings that continue, given the regret (setting, run) of the same runs."""
    n = regret.shape[1]
    mean = regret.mean(axis=1)
    above = regret - regret[int(mean.argmin())]
    error = above.std(axis=1, ddof=1) / math.sqrt(n)
    rank = np.argsort(np.argsort(mean, kind="stable"), kind="stable")
    kept: NDArray[np.bool_] = (rank < math.ceil(len(mean) / FACTOR)) | (above.mean(axis=1) <= CLEAR * error)
    return kept


def rounds(
    regret: NDArray[np.float64],
    families: Sequence[Sequence[int]],
    always: Collection[int],
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Iterator[NDArray[np.bool_]]:
    """The runs (setting, query, run) to be finished at the end of each round.

    ``regret`` is read after every round: it must be up to date. ``families`` are the settings that compete with
    each other, ``always`` those that make all runs.
    """
    wanted = np.zeros(regret.shape, np.bool_)
    left = [np.array(family) for family in families]
    for rung in rungs(len(places[0])):
        active = np.array(sorted({*always, *(int(s) for family in left for s in family)}))
        queries, runs = places[0][:rung], places[1][:rung]
        wanted[active[:, None], queries, runs] = True
        yield wanted
        if rung < len(places[0]):
            left = [family[survivors(regret[family[:, None], queries, runs])] for family in left]
