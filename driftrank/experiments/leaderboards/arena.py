"""An environment of a leaderboard with its results, and what is found in it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.simulation.result import Result, long_values
from driftrank.policies.base import Policy
from driftrank.policies.policy_kernels import never_alarmed

#: the significance level of verdicts
LEVEL = 0.05

#: the ways in which policies handle change; oracles are not contenders
GROUPS = ("active", "passive", "stationary", "oracle")


def group_of(policy: Policy) -> str:
    """``"active"``: detects changes; ``"passive"``: copes with them by forgetting; ``"stationary"``; ``"oracle"``."""
    if policy.oracle:
        return "oracle"
    if policy.kernels().alarmed is not never_alarmed:
        return "active"
    return "passive" if {"abrupt", "drift"} & set(policy.claims) else "stationary"


@dataclass(frozen=True)
class Arena:
    """An environment of the leaderboard, and its results."""

    name: str
    spec: str
    what: str
    kind: str
    result: Result
    changes: int = 0  #: breakpoints that could be detected, of all queries and runs together
    marks: list[int] = field(default_factory=list)  #: breakpoints that most runs have in common
    obstacles: Mapping[str, str] = field(default_factory=dict)  #: by policy: the reason why it could not run here
    caller: list[float] = field(default_factory=list)  #: of Traffic, the final regret of the caller's order, by run
    part: str = ""  #: the group of environments that it belongs to
    options: str = ""  #: of the command that repeats it, if they differ from those of the leaderboard
    users: str = ""  #: the click model, if it is not that of the queries

    @property
    def runs(self) -> int:
        """Runs of all queries together."""
        return len(self.result.queries) * self.result.runs

    def samples(self, policy: str) -> NDArray[np.float64]:
        """Final regret, by query (its runs averaged), or by run if there is one query."""
        values = self.result.values_of(policy)[:, :, -1]
        samples: NDArray[np.float64] = values.mean(axis=1) if len(values) > 1 else values[0]
        return samples

    def gain(self, policy: str) -> tuple[float, float]:
        """In Traffic, the clicks a list that a policy gains over the caller's order, and the standard error."""
        gains = (np.array(self.caller) - self.samples(policy)) / self.result.horizon
        error = float(gains.std(ddof=1) / math.sqrt(len(gains))) if len(gains) > 1 else math.nan
        return float(gains.mean()), error

    def total(self, policy: str, measure: str) -> float:
        """The sum of a measure over all queries and runs, at the end."""
        return float(self.result.values_of(policy, measure)[..., -1].sum())


@dataclass(frozen=True)
class Comparison:
    """A policy against the default one, in one environment."""

    policy: str
    environment: str
    difference: float  #: of mean regret; negative if the policy is better
    error: float  #: standard error of the paired difference
    ratio: float  #: of mean regret
    p: float  #: of Student's t, adjusted for all comparisons of the leaderboard
    permutation: float = math.nan  #: p of the permutation test, adjusted likewise

    @property
    def confirmed(self) -> bool:
        """True if the permutation test, which does not assume normal differences, finds it significant too."""
        return self.permutation <= LEVEL

    @property
    def verdict(self) -> str:
        if not self.p <= LEVEL:
            return "not significant"
        return "better" if self.difference < 0 else "worse"


@dataclass(frozen=True)
class Detection:
    """The alarms of a policy in one environment, compared with the true changes."""

    policy: str
    environment: str
    changes: int  #: breakpoints of all runs together
    share: float  #: detected before the next one; NaN if there are none
    delay: float  #: mean steps from a breakpoint to its alarm; NaN if none was detected
    alarms: float  #: per run
    false_alarms: float  #: per run


#: the fields of a result, besides its values
_KEPT = ("labels", "specs", "queries", "horizon", "runs", "seed", "device", "environment", "busy", "stepped", "cores")


def facts_of(arena: Arena) -> dict[str, Any]:
    """An environment without its numbers."""
    own = {f.name: getattr(arena, f.name) for f in dataclasses.fields(arena) if f.name != "result"}
    result = {name: getattr(arena.result, name) for name in (*_KEPT, "breakpoints", "seconds", "measures")}
    return own | {"result": result | {"checkpoints": arena.result.checkpoints.tolist()}}


def arena_of(facts: Mapping[str, Any], rows: Any) -> Arena:
    """An environment from its facts and the rows of its results."""
    about = dict(facts["result"])
    steps = np.array(about.pop("checkpoints"), np.int64)
    about["measures"] = tuple(about.get("measures", MEASURES))  # saved at first without those of the environment
    values = long_values(rows, about["labels"], about["queries"], about["runs"], steps, about["measures"])
    part = "traffic" if facts.get("caller") else "change"  # saved at first without parts
    return Arena(**{"part": part, **facts, "result": Result(**about, checkpoints=steps, values=values)})
