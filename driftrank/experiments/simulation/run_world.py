"""The world of one run: an environment as that run met it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import Environment


@dataclass(frozen=True)
class RunWorld:
    """An environment with the query, the run and the seed of one run of a result, from ``result.world(query, run)``."""

    environment: Environment
    query: str
    run: int
    seed: int
    horizon: int

    def attraction(self, t: int) -> NDArray[np.float64]:
        """The attraction of every item at step t."""
        return self.environment.attraction(t, self.query, self.run, self.seed)

    def best(self, t: int) -> list[int]:
        """The best list at step t, as indices."""
        return self.environment.best(t, self.query, self.run, self.seed)

    def optimal_value(self, t: int) -> float:
        """The expected reward of the best list at step t."""
        return self.environment.optimal_value(t, self.query, self.run, self.seed)

    def present(self, t: int) -> list[int]:
        """The items that can be shown at step t."""
        return self.environment.present(t, self.query, self.run, self.seed)

    def breakpoints(self) -> list[int]:
        """The steps after which the attraction changed."""
        return self.environment.breakpoints(self.horizon, self.query, self.run, self.seed)

    def variation(self) -> float:
        """The total variation of the run."""
        return self.environment.variation(self.horizon, self.query, self.run, self.seed)

    def segments(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """First step, attraction and optimal value of every segment of constant attraction."""
        return self.environment.stretches(self.horizon, self.query, self.run, self.seed)
