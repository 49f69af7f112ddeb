"""The theorems beside the measured regret."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrank.environments import Environment, LowerBound
from driftrank.environments.registry import parse_environment, takes_queries
from driftrank.experiments.simulation.simulate import simulate
from driftrank.policies.base import Policy
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.queries import parse_queries
from driftrank.reporting.table import Table
from driftrank.theory import gaps, recommended_discount, recommended_window, theorem1, theorem2, theorem3
from driftrank.validation import check_integer, check_number

#: segments without change, if a spec does not give the period: ten in section 5, three in theorem 3
SEGMENTS = {"Abrupt": 10, "LowerBound": 3}


def theorem_policies(epsilon: float, n_breakpoints: int) -> list[Policy]:
    """The two policies as in the theorems: with the number of breakpoints, and x/0 := 1."""
    given: dict[str, Any] = {"epsilon": epsilon, "n_breakpoints": max(1, n_breakpoints), "unseen": "paper"}
    return [CascadeSWUCB(**given), CascadeDUCB(**given)]


def environment_for(spec: str, queries: str, k: int, horizon: int, seed: int) -> Environment:
    """An environment from its spec; its period fits the horizon unless it is given."""
    check_integer("horizon", horizon, 100)
    name = spec.partition(":")[0].strip()
    given = {"queries": parse_queries(queries, seed), "k": k} if takes_queries(name) else {}
    environment = parse_environment(spec, **given)
    if name in SEGMENTS and "period=" not in spec.replace(" ", ""):
        return with_period(environment, math.ceil(horizon / SEGMENTS[name]))
    return environment


def with_period(environment: Environment, period: int) -> Environment:
    return dataclasses.replace(environment, period=period)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Bounds:
    """Theorems 1 to 3 for an environment, and the measured regret."""

    env: str
    queries: int
    L: int
    k: int
    horizon: int
    n_breakpoints: int
    epsilon: float
    smallest_gap: float
    discount: float
    window: float
    upper: dict[str, float]  #: theorem 1 or 2, by policy; the mean over queries and runs
    lower: float | None  #: theorem 3, if the environment is its instance
    regret: dict[str, tuple[float, float]]  #: mean and standard error, by policy

    def vacuous(self, policy: str) -> bool:
        """True if the bound is weaker than that a step costs at most 1."""
        return self.upper[policy] > self.horizon

    def table(self) -> Table:
        rows = []
        for policy, theorem in (("CascadeDUCB", 1), ("CascadeSWUCB", 2)):
            mean, error = self.regret[policy]
            bound = self.upper[policy]
            verdict = "vacuous: above n" if self.vacuous(policy) else "holds" if mean <= bound else "broken"
            setting = f"discount {self.discount:.6f}" if theorem == 1 else f"window {math.ceil(self.window):,}"
            rows.append(
                (
                    policy,
                    setting,
                    mean,
                    error,
                    f"theorem {theorem}",
                    bound,
                    f"{bound / mean:,.0f} x" if mean else "",
                    verdict,
                )
            )
        if self.lower is not None:
            rows.append(("any policy", "", math.nan, math.nan, "theorem 3", self.lower, "", "lower bound, as n grows"))
        columns = (
            "policy",
            "recommended",
            "measured regret",
            "± s.e.",
            "bound",
            "regret at most",
            "bound / measured",
            "",
        )
        if self.lower is not None:
            columns = (*columns[:5], "value", *columns[6:])
        return Table(columns, rows, (None, None, ",.1f", ",.1f", None, ",.0f", "", None))

    def facts(self) -> str:
        """One line about the environment."""
        queries = "1 query" if self.queries == 1 else f"{self.queries} queries"
        return (
            f"{self.env}: {queries}, L={self.L}, K={self.k}, n={self.horizon:,}, {self.n_breakpoints} breakpoints, "
            f"epsilon={self.epsilon:g}, smallest gap {self.smallest_gap:.2g}"
        )

    def to_json(self) -> dict[str, Any]:
        def plain(x: float | None) -> float | None:
            return x if x is not None and math.isfinite(x) else None

        policies = {
            policy: {
                "theorem": 1 if policy == "CascadeDUCB" else 2,
                "bound": plain(bound),
                "vacuous": self.vacuous(policy),
                "regret": {"mean": plain(self.regret[policy][0]), "se": plain(self.regret[policy][1])},
            }
            for policy, bound in self.upper.items()
        }
        return {
            "env": self.env, "queries": self.queries, "L": self.L, "k": self.k, "horizon": self.horizon,
            "breakpoints": self.n_breakpoints, "epsilon": self.epsilon, "smallest_gap": plain(self.smallest_gap),
            "discount": self.discount, "window": self.window, "policies": policies, "lower_bound": plain(self.lower),
        }  # fmt: skip


def measure_bounds(
    env: str,
    environment: Environment,
    *,
    horizon: int,
    epsilon: float = 0.6,
    runs: int = 10,
    seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Bounds:
    """Simulate both policies with the parameters that the theorems recommend, and compute the bounds."""
    check_number("epsilon", epsilon, 0.5, 1, open_low=True, open_high=True)
    check_integer("runs", runs, 1)
    n_breakpoints = len(environment.breakpoints(horizon, seed=seed))
    changes = max(1, n_breakpoints)
    upper: dict[str, list[float]] = {"CascadeDUCB": [], "CascadeSWUCB": []}
    smallest = math.inf
    # the perturbed items, and so the gaps, differ between runs
    for query in environment.names:
        for run in range(runs):
            every = gaps(environment, horizon, query, run, seed)
            smallest = min(smallest, float(np.min(every, where=~np.isnan(every), initial=np.inf)))
            upper["CascadeDUCB"].append(theorem1(horizon, len(every), n_breakpoints, every.tolist(), epsilon))
            upper["CascadeSWUCB"].append(theorem2(horizon, len(every), n_breakpoints, every.tolist(), epsilon))
    policies = theorem_policies(epsilon, n_breakpoints)
    result = simulate(
        policies, environment, horizon=horizon, runs=runs, seed=seed, threads=threads, checkpoints=1, progress=progress
    )
    return Bounds(
        env=env,
        queries=len(environment.queries),
        L=max(len(environment.queries[name]) for name in environment.names),
        k=environment.k,
        horizon=horizon,
        n_breakpoints=n_breakpoints,
        epsilon=epsilon,
        smallest_gap=smallest,
        discount=recommended_discount(horizon, changes),
        window=recommended_window(horizon, changes),
        upper={policy: float(np.mean(values)) for policy, values in upper.items()},
        lower=lower_bound(environment, horizon),
        regret={policy: result.between(policy) for policy in upper},
    )


def lower_bound(environment: Environment, horizon: int) -> float | None:
    """Theorem 3, if the environment is its instance."""
    if not isinstance(environment, LowerBound):
        return None
    return theorem3(horizon, environment.L, environment.k, environment.p, environment.delta)
