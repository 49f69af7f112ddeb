"""Compare served lists with a simulation: every list, and the regret at every step, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.drive.asked_lists import lists_of_query, lists_of_traffic
from driftrank.engine import Simulator, Task, Unit
from driftrank.environments.base import Environment
from driftrank.environments.traffic.traffic import Traffic
from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.parameters import is_duration
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.wire import Item, RankerInfo, RankerSettings

if TYPE_CHECKING:
    from driftrank.drive.drive import Drive
    from driftrank.drive.result import DriveResult

#: beyond this number of steps only the learner is compared, not the simulator
_MAX_STEPS = 200_000_000


@dataclass(frozen=True)
class SimulationCheck:
    """The result of a comparison."""

    lists: int  #: lists that were compared
    difference: tuple[str, int] | None  #: query and step of the first list that differs
    regret: NDArray[np.float64]  #: cumulative, by query and step, as simulated
    simulator: bool  #: the batch simulator was compared, too; it needs a horizon

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
        return f"served and simulated lists differ at step {step} of query {query!r}"


def why_not_checked(drive: Drive, environment: Environment) -> str:
    """The reason why the drive cannot be compared with a simulation; empty if it can."""
    if not drive.faults.none:
        return "in a simulation feedback is never delayed, dropped or duplicated"
    if environment.churns or (isinstance(environment, Traffic) and environment.new):
        return "in a simulation new items replace old ones in their slots, in a service they do not"
    return ""


def why_ranker_not_checked(info: RankerInfo, environment: Environment) -> str:
    """The reason why a ranker cannot be compared with a simulation; empty if it can."""
    settings = info.settings
    policy = policy_of(settings)
    if policy.shares and len(environment.names) > 1:
        return f"queries of {policy.spec} learn together, in the order of their requests: check a single query"
    if policy.shares and info.steps:
        return f"the ranker has learnt from {info.steps} lists, which its shared model has not forgotten: reset it"
    if settings.mode != "live" or settings.holdout:
        return "the ranker must be live, without a holdout"
    if settings.second_click != "refuse":
        return "the ranker must learn from clicks at once (second_click = 'refuse')"
    if getattr(policy, "half_life", None) is not None or is_duration(getattr(policy, "window", None)):
        return f"{policy.spec} forgets by the clock, which a simulation does not have"
    return ""


def policy_of(settings: RankerSettings) -> Policy:
    return default_policy() if settings.policy is None else parse_policy(settings.policy)


def compare_with_simulation(result: DriveResult, settings: RankerSettings, environment: Environment) -> SimulationCheck:
    """Run the ranker's policy with the same users without the service, and compare."""
    policy = policy_of(settings)
    regret = np.full_like(result.regret, np.nan)
    served = result.cumulative()
    difference = None
    for n, (query, done) in enumerate(zip(result.queries, result.done.tolist(), strict=True)):
        lists, regret[n, :done] = learner_lists(policy, settings, environment, n, result.seed, done)
        other = (lists != result.lists[n, :done]).any(axis=1) | (regret[n, :done] != served[n, :done])
        if difference is None and other.any():
            step = int(np.argmax(other))
            difference = (result.asked[step] if result.traffic else query, step + 1)
    simulator = (
        not policy.shares  # the simulator's queries have no shared model
        and not result.traffic  # the simulator draws from one source for all queries, a service has one for each
        and (settings.k, settings.seed) == (environment.k, result.seed)
        and settings.horizon is not None
        and result.steps <= settings.horizon <= _MAX_STEPS // len(result.queries)
    )
    if simulator and settings.horizon is not None:
        task = Task((policy,), environment, settings.horizon, result.seed, tuple(range(1, result.steps + 1)))
        compiled = Simulator(task, 0)
        for n, (query, done) in enumerate(zip(result.queries, result.done.tolist(), strict=True)):
            measures = compiled.run(Unit(0, query, (0,)), lambda steps: True)
            assert measures is not None
            simulated = measures[0, :done, :3].T  # regret, reward, clicks
            ours = (served[n], np.cumsum(result.reward[n]), np.cumsum(result.clicks[n]))
            other = (simulated != np.array(ours)[:, :done]).any(axis=0)
            if difference is None and other.any():
                difference = (query, int(np.argmax(other)) + 1)
    return SimulationCheck(int(result.done.sum()), difference, regret, simulator)


def learner_lists(
    policy: Policy, settings: RankerSettings, environment: Environment, row: int, seed: int, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The lists of learners with the ranker's settings, and the cumulative regret: of a query, or of Traffic."""
    if isinstance(environment, Traffic):
        asked_lists = lists_of_traffic(environment, steps, seed, features=policy.contextual)
    else:
        asked_lists = lists_of_query(environment, row, steps, seed)
    shared = SharedModel(policy) if policy.shares else None  # then items get a state when they are observed
    learners: dict[str, Learner] = {}
    lists, regret = np.full((steps, environment.k), -1, np.int64), np.zeros(steps)
    total = 0.0
    for asked in asked_lists:
        items = [item.id if isinstance(item, Item) else item for item in asked.items]
        if asked.query not in learners:
            features = [item.features for item in asked.items if isinstance(item, Item)]
            learners[asked.query] = policy.start(
                () if shared else items, settings.k, features=np.array(features) if policy.contextual else None,
                seed=settings.seed, horizon=settings.horizon, query=asked.query,
                slots=settings.k if shared else max(settings.k, len(items)), shared=shared,
            )  # fmt: skip
        learner = learners[asked.query]
        prior = None if shared is None else learner.prior(items, ordered=asked.ordered)
        key = learner.key_at(asked.number)
        ranking = learner.rank(items, k=min(environment.k, len(items)), key=key, prior=prior)
        slots = [asked.slots[item] for item in ranking]  # type: ignore[index]
        value, clicks = asked.meet(slots)
        learner.update(ranking, [int(position in clicks) for position in range(1, len(slots) + 1)])
        total += asked.optimal - value
        lists[asked.t - 1, : len(slots)], regret[asked.t - 1] = [asked.names[a] for a in slots], total
    return lists, regret
