"""The error of a simulated gain, by drawing logs from the fit and going through everything again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.registry import click_model
from driftrank.experiments.advice.candidates import Candidate
from driftrank.experiments.advice.choosing import crossed, gain_of
from driftrank.experiments.advice.measuring import Values, measure
from driftrank.experiments.advice.worlds import World, changes_in, world_of
from driftrank.kernels.rng import run_key
from driftrank.logs.generations import Floats, Generations
from driftrank.logs.shown_lists import clicked

#: half-width of an interval in standard deviations of the error
_WIDTH = 3.0


@dataclass(frozen=True, eq=False)
class Errors:
    """Differences between what a drawn log says and the world that it was drawn from."""

    gain: Floats  #: (repetition,) of the gain of the choice
    by_candidate: Floats  #: (repetition, candidate) of the gain of every candidate
    by_query: Floats  #: (repetition, candidate, query)

    def interval(self, said: float) -> tuple[float, float, float]:
        """The value without the mean error, and the ends of its interval."""
        return _interval(said, self.gain)

    def candidate(self, c: int, said: float) -> tuple[float, float, float]:
        """The same for the gain of one candidate."""
        return _interval(said, self.by_candidate[:, c])


def repeat(
    world: World,
    values: Values,
    chosen: Sequence[Candidate],
    side: NDArray[np.bool_],
    *,
    repetitions: int,
    items: int,
    seed: int,
    done: Callable[[], None],
) -> Errors:
    """Draw logs with the lists of the log and the users of a world; find changes, fit, simulate and choose again."""
    tables = world.generations.tables
    lists = np.array([float(len(table)) for table in tables])
    gain, by_query = [], []
    for n in range(repetitions):
        key = f"driftrank.advice.{world.model}"
        drawn = [
            clicked(query, table, run_key(seed, f"{key}.{table.query}", n))
            for query, table in zip(world.queries, tables, strict=True)
        ]
        again = world_of(click_model(world.model), Generations.of(drawn, changes_in(drawn, items)), world.k)
        found = measure(again, chosen, 1, seed + n + 1)
        picked = crossed([found.by_query], lists, chosen, side)
        gain.append(gain_of(found.by_query, lists, picked) - gain_of(values.by_query, lists, picked))
        by_query.append(found.gains - values.gains)
        done()
    errors = np.array(by_query)
    return Errors(np.array(gain), errors @ (lists / lists.sum()), errors)


def _interval(said: float, errors: Floats) -> tuple[float, float, float]:
    middle = said - float(errors.mean())
    half = _WIDTH * float(errors.std(ddof=1))
    return middle, middle - half, middle + half
