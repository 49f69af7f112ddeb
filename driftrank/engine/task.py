"""Tasks and units of work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import Environment
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.learner.features import one_hot

#: the measures recorded at every checkpoint
MEASURES = ("regret", "reward", "clicks", "alarms", "detected", "delay", "false_alarms")


@dataclass(frozen=True)
class Task:
    """Settings that all units of a simulation share."""

    policies: tuple[Policy, ...]
    environment: Environment
    horizon: int
    seed: int
    checkpoints: tuple[int, ...]

    def problem(self, query: str, policy: Policy) -> RankingProblem:
        width = self.features(query).shape[1] if policy.contextual else 0
        L = len(self.environment.queries[query])
        return RankingProblem(L, self.environment.k, self.horizon, self.horizon, width)

    def features(self, query: str) -> NDArray[np.float64]:
        """The features of a query's items, one-hot if the environment has none."""
        given = self.environment.features(query)
        return one_hot(len(self.environment.queries[query])) if given is None else given


@dataclass(frozen=True)
class Unit:
    """Some runs of one policy on one query. Its result depends on nothing else."""

    policy: int  #: index in the task's policies
    query: str
    runs: tuple[int, ...]
