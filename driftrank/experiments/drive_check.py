"""Is what was served what is simulated? Every list, and the regret at every step, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.users import Users
from driftrank.environments.base import Environment
from driftrank.policies.base import Policy
from driftrank.policies.durations import is_duration
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.wire import RankerSettings

if TYPE_CHECKING:
    from driftrank.experiments.drive import Drive
    from driftrank.experiments.drive_result import Driven

#: steps of the simulator beyond which the learner alone is asked
_MANY = 200_000_000


@dataclass(frozen=True)
class Check:
    """What a comparison found."""

    lists: int  #: compared
    difference: tuple[str, int] | None  #: query and step of the first list that is another
    regret: NDArray[np.float64]  #: up to every step, by query, as simulated
    simulator: bool  #: whether the batch simulator was asked, too; it knows no rankers without a horizon

    @property
    def same(self) -> bool:
        return self.difference is None

    def summary(self) -> dict[str, Any]:
        against = ["learner", "simulator"] if self.simulator else ["learner"]
        return {"same": self.same, "lists": self.lists, "difference": self.difference, "against": against}

    def __str__(self) -> str:
        against = "the learner and the simulator" if self.simulator else "the learner"
        if self.difference is None:
            return f"all {self.lists:,} lists are the same as those of {against}, and so is the regret at every step"
        query, step = self.difference
        return f"served and simulated lists part at step {step} of query {query!r}"


def why_not_checked(drive: Drive, environment: Environment) -> str:
    """Why what is served cannot be compared with a simulation; empty where it can."""
    if not drive.mishaps.none:
        return "a simulation knows no feedback that is delayed, dropped or doubled"
    if environment.churns:
        return "in a simulation new items take the place of old ones, which a service does not know of"
    return ""


def why_ranker_not_checked(settings: RankerSettings) -> str:
    """The same of a ranker."""
    policy = policy_of(settings)
    if settings.mode != "live" or settings.holdout:
        return "the ranker must be live, and hold nothing out"
    if settings.second_click != "refuse":
        return "the ranker must learn from clicks at once (second_click = 'refuse')"
    if getattr(policy, "half_life", None) is not None or is_duration(getattr(policy, "window", None)):
        return f"{policy.spec} forgets by the clock, which a simulation does not have"
    return ""


def policy_of(settings: RankerSettings) -> Policy:
    return default_policy() if settings.policy is None else parse_policy(settings.policy)


def check_driven(driven: Driven, settings: RankerSettings, environment: Environment) -> Check:
    """Let the ranker's policy meet the same users without the service, and compare."""
    policy = policy_of(settings)
    regret = np.full_like(driven.regret, np.nan)
    served = driven.cumulative()
    difference = None
    for n, (query, done) in enumerate(zip(driven.queries, driven.done.tolist(), strict=True)):
        lists, regret[n, :done] = stepped(policy, settings, environment, query, driven.seed, done)
        other = (lists != driven.lists[n, :done]).any(axis=1) | (regret[n, :done] != served[n, :done])
        if difference is None and other.any():
            difference = (query, int(np.argmax(other)) + 1)
    simulator = (
        (settings.k, settings.seed) == (environment.k, driven.seed)
        and settings.horizon is not None
        and driven.steps <= settings.horizon <= _MANY // len(driven.queries)
    )
    if simulator and settings.horizon is not None:
        task = Task((policy,), environment, settings.horizon, driven.seed, tuple(range(1, driven.steps + 1)))
        compiled = Simulator(task, 0)
        for n, (query, done) in enumerate(zip(driven.queries, driven.done.tolist(), strict=True)):
            measures = compiled.run(Unit(0, query, (0,)), lambda steps: True)
            assert measures is not None
            simulated = measures[0, :done, :3].T  # regret, reward, clicks
            ours = (served[n], np.cumsum(driven.reward[n]), np.cumsum(driven.clicks[n]))
            other = (simulated != np.array(ours)[:, :done]).any(axis=0)
            if difference is None and other.any():
                difference = (query, int(np.argmax(other)) + 1)
    return Check(int(driven.done.sum()), difference, regret, simulator)


def stepped(
    policy: Policy, settings: RankerSettings, environment: Environment, query: str, seed: int, steps: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The lists of a learner that has the ranker's settings, and the regret up to every step."""
    items = range(len(environment.queries[query]))
    features = environment.features(query) if policy.contextual else None
    learner = policy.start(
        items, settings.k, features=features, seed=settings.seed, horizon=settings.horizon, query=query,
        slots=max(settings.k, len(items)),
    )  # fmt: skip
    users = Users(environment, query, 0, seed)
    lists, regret = np.zeros((steps, environment.k), np.int32), np.zeros(steps)
    total = 0.0
    for t in range(1, steps + 1):
        users.go_to(t)
        ranking = learner.rank(k=environment.k)
        value, clicks = users.meet(ranking)
        learner.update(ranking, [int(position in clicks) for position in range(1, environment.k + 1)])
        total += users.optimal - value
        lists[t - 1], regret[t - 1] = ranking, total
    return lists, regret
