"""Tasks and units of work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import Environment
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.learner.features import one_hot
from driftrank.validation import check_integer

#: the measures of all environments, recorded at every checkpoint
MEASURES = ("regret", "reward", "clicks", "alarms", "detected", "delay", "false_alarms")


@dataclass(frozen=True)
class Task:
    """Settings that all units of a simulation share."""

    policies: tuple[Policy, ...]
    environment: Environment
    horizon: int
    seed: int
    checkpoints: tuple[int, ...]

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures recorded at every checkpoint."""
        return (*MEASURES, *self.environment.measures)

    @cached_property
    def unlike(self) -> list[str]:
        """Queries that differ in the number of their items or features, one of each kind."""
        there = self.environment
        kinds = {(len(there.queries[query]), there.feature_count(query)): query for query in reversed(there.names)}
        return list(kinds.values())

    def problem(self, query: str, policy: Policy) -> RankingProblem:
        L, width = len(self.environment.queries[query]), 0
        if policy.contextual:
            width = self.environment.feature_count(query) or len(one_hot(L))
        return RankingProblem(L, self.environment.k, self.horizon, self.horizon, width)

    def check(self, policy: Policy) -> None:
        """Check that a policy can run in the environment."""
        for query in self.unlike:
            parameters = policy.parameters(self.problem(query, policy))
            policy.fields(parameters)
        if self.environment.traffic and policy.needs_fixed_list:
            raise ValueError(f"{policy.spec}: cannot run in {type(self.environment).__name__}, which has many queries")
        if policy.shared_fields(parameters) and self.environment.traffic:
            check_integer("dense", parameters.get("dense"), self.environment.feature_count())

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
