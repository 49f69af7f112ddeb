"""The standard suite: the environments of the leaderboard.

All of it is data. Times are for runs of 100,000 steps and scale with the horizon, so that a run has as many epochs,
cycles and arrivals whatever its length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftrank.environments.base import Environment
from driftrank.environments.registry import registry, takes_queries
from driftrank.experiments.simulation.settings import environment_of
from driftrank.queries import Queries
from driftrank.validation import check_integer, check_known

#: the horizon that times are given for
STEPS = 100_000


@dataclass(frozen=True)
class SuiteEntry:
    """An environment of the suite."""

    name: str
    environment: str
    what: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)  #: in steps, of runs of 100,000
    #: parameters of environments with their own queries that take the sizes of the others
    sizes: Mapping[str, str] = field(default_factory=dict)

    def spec(self, queries: Queries, k: int, horizon: int) -> str:
        """The environment as on the command line."""
        known = {"k": k, "queries": len(queries)}
        numbers = {
            **self.fixed,
            **{key: known[what] for key, what in self.sizes.items()},
            **{key: max(1, math.ceil(steps * horizon / STEPS)) for key, steps in self.times.items()},
        }
        text = ",".join(f"{key}={str(value).lower()}" for key, value in numbers.items())
        return f"{self.environment}:{text}" if text else self.environment


def _drift(shape: str, what: str, period: int) -> SuiteEntry:
    return SuiteEntry(f"Drift-{shape}", "Drift", what, fixed={"shape": shape}, times={"period": period, "block": 100})


SUITE = (
    SuiteEntry("Stationary", "Stationary", "nothing changes"),
    SuiteEntry(
        "Abrupt",
        "Abrupt",
        "the paper's: in every other epoch three items outside the top k become very attractive (0.9)",
        times={"period": 10_000},
    ),
    SuiteEntry(
        "Abrupt-0.5",
        "Abrupt",
        "the same with 0.5: changes that are harder to see",
        fixed={"boost": 0.5},
        times={"period": 10_000},
    ),
    SuiteEntry(
        "PiecewiseRandom",
        "PiecewiseRandom",
        "six times, at random steps, about half of the items move up or down",
        times={"horizon": 100_000, "spacing": 1000},
    ),
    _drift("sinusoid", "every item rises and falls, each in its own time", 20_000),
    _drift("walk", "every item walks at random", 20_000),
    _drift("ramp", "every item moves in straight lines from level to level", 3000),
    _drift("budget", "one item after the other is a little better than by default", 1000),
    SuiteEntry(
        "LowCTR",
        "LowCTR",
        "click-through rates of a news site: 1 to 8%, all of them new in each of nine segments",
        sizes={"K": "k"},
        times={"horizon": 100_000},
    ),
    SuiteEntry("Recurring-2", "Recurring", "two regimes in turn", fixed={"regimes": 2}, times={"period": 5000}),
    SuiteEntry("Recurring-3", "Recurring", "three regimes in turn", fixed={"regimes": 3}, times={"period": 5000}),
    SuiteEntry("Churn", "Churn", "items are replaced by new ones, announced to policies", times={"period": 2000}),
    SuiteEntry(
        "Churn-hidden",
        "Churn",
        "the same, not announced",
        fixed={"announced": False},
        times={"period": 2000},
    ),
    SuiteEntry(
        "Silent",
        "Silent",
        "only items outside the top k change: in every epoch another one joins the best",
        times={"period": 10_000},
    ),
    SuiteEntry("OrderOnly", "OrderOnly", "the best items change places: nothing to gain", times={"period": 10_000}),
    SuiteEntry(
        "Scaling", "Scaling", "all items get worse by the same factor: nothing to gain", times={"period": 10_000}
    ),
    SuiteEntry(
        "GarivierMoulines",
        "GarivierMoulines",
        "one position; a middling item is the best for a fifth of the time",
        times={"horizon": 100_000},
    ),
    SuiteEntry(
        "LinearFeatures",
        "LinearFeatures",
        "50 items whose attraction their features explain; nothing changes",
        sizes={"K": "k", "n_queries": "queries"},
    ),
)


def _traffic(name: str, what: str, **fixed: Any) -> SuiteEntry:
    return SuiteEntry(f"Traffic-{name}", "Traffic", what, {"n_queries": 300, **fixed}, sizes={"K": "k"})


#: a group of its own: all queries of a ranker in one run
TRAFFIC = (
    _traffic(
        "noisy",
        "the caller has a fair order, every query has items of its own, and users stop reading",
        catalogue=0,
        item_share=0,
        going_on=0.85,
    ),
    _traffic(
        "random",
        "the same with an order that means nothing, and users who read to the end",
        catalogue=0,
        item_share=0,
        caller="random",
    ),
    _traffic("shared", "no order; half of the variance belongs to items, which are shared by queries", caller="none"),
    _traffic(
        "position",
        "a fair order, shared items, and users who examine position k with probability 1/k and click several times",
        examination_power=1,
        after_click=1,
    ),
)
#: runs of Traffic for one run of the queries elsewhere
TRAFFIC_RUNS = 5

_ENTRIES = {entry.name: entry for entry in (*SUITE, *TRAFFIC)}


@dataclass(frozen=True)
class Place:
    """An environment in which policies are compared."""

    name: str
    spec: str  #: repeats it with ``driftrank simulate --env``
    what: str
    environment: Environment
    runs: int  #: of every query


def places(names: list[str], queries: Queries, k: int, horizon: int, runs: int) -> list[Place]:
    """Environments by their names in the suite (all of it if none is given), or by their specs.

    An environment with one query of its own gets as many runs as the others have queries and runs together; Traffic,
    whose runs have many queries, five for each.

    >>> queries = Queries.of([[0.5, 0.4, 0.3, 0.2, 0.1, 0.05], [0.4, 0.3, 0.3, 0.1, 0.1, 0.1]])
    >>> [(p.spec, p.runs) for p in places(["Abrupt", "BLB:L=8"], queries, k=2, horizon=5000, runs=3)]
    [('Abrupt:period=500', 3), ('BLB:L=8', 6)]
    """
    check_integer("horizon", horizon, 100)
    check_integer("runs", runs, 1)
    found: dict[str, Place] = {}
    for name in names or _ENTRIES:
        entry = _ENTRIES.get(name.strip())
        label, spec, what = (entry.name, entry.spec(queries, k, horizon), entry.what) if entry else (name, name, "")
        kind = spec.partition(":")[0].strip()
        check_known("environment", kind, {*registry.all(), *_ENTRIES})
        given: dict[str, Any] = {"queries": queries, "k": k} if takes_queries(kind) else {}
        environment = environment_of(spec, **given)
        if label in found:
            raise ValueError(f"environments: {label} occurs twice")
        times = TRAFFIC_RUNS if environment.traffic else -(-len(queries) // len(environment.queries))
        found[label] = Place(label, spec, what or _summary(environment), environment, runs * times)
    return list(found.values())


def _summary(environment: Environment) -> str:
    """The first line of its docstring, for use inside a sentence."""
    line = (type(environment).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return line[:1].lower() + line[1:]
