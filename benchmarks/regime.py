"""Compare CascadeRegimeTS with its rivals, and with variants that lack one of its parts.

    python benchmarks/regime.py test --queries FILE.json      # held-out queries and seeds
    python benchmarks/regime.py ablate --queries FILE.json    # without each part, on the development queries
    python benchmarks/regime.py quiet --queries FILE.json     # a million steps without change

Prints tables in Markdown. Queries at odd places in the file are for tests, those at even places for development, with
other seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from driftrank import queries as files
from driftrank.environments import (
    Abrupt,
    Churn,
    Drift,
    LowCTR,
    OrderOnly,
    PiecewiseRandom,
    Recurring,
    Scaling,
    Silent,
    Stationary,
)
from driftrank.environments.base import Environment
from driftrank.experiments import Result, simulate
from driftrank.policies.base import Policy
from driftrank.policies.regime.cascade_regime_ts import CascadeRegimeTS
from driftrank.policies.registry import parse_policy
from driftrank.queries import Queries
from driftrank.reporting.table import Table

DEVELOPMENT_SEED, TEST_SEED = 11, 1011

#: the policies that it is compared with, all with their "auto" parameters
RIVALS = ("CascadeSWUCB", "CascadeDUCB", "CascadeSWTS", "CascadeDTS", "GLRTCascadeKLUCB")
#: for reference only: one does not look for changes, the other knows them
REFERENCES = ("CascadeTS", "OracleRestart")

#: parts that are left out or set otherwise, one at a time
PARTS = {
    "as specified at first": "sharpness=1,vigilance=1,comeback_events=1e12",
    "draws as wide as the posterior": "sharpness=1",
    "sharper draws": "sharpness=2",
    "four times the vigilance": "vigilance=1",
    "no vigilance": "vigilance=0",
    "no joint test": "joint_every=0",
    "no memory": "regimes=0",
    "comebacks not learnt": "comeback_events=1e12",
    "no coupling at all": "co_changes=0,joint_every=0,regimes=0",
    "natural order": "order=natural",
    "8 hypotheses": "hypotheses=8",
    "24 hypotheses": "hypotheses=24",
    "prior of one change": "hazard_changes=1",
    "prior Beta(1, 1)": "a0=1,b0=1",
}


def suite(queries: Queries, k: int) -> dict[str, Environment]:
    """The environments, by their names in the tables."""
    return {
        "paper": Abrupt(queries, k),
        "paper, .5": Abrupt(queries, k, boost=0.5),
        "paper, 2k": Abrupt(queries, k, period=2000),
        "stationary": Stationary(queries, k),
        "breaks": PiecewiseRandom(queries, k),
        "breaks, own levels": PiecewiseRandom(queries, k, start="uniform"),
        "sinusoid": Drift(queries, k, shape="sinusoid"),
        "walk": Drift(queries, k, shape="walk"),
        "ramp": Drift(queries, k, shape="ramp"),
        "budget": Drift(queries, k, shape="budget"),
        "low CTR": LowCTR(),
        "recurring 2": Recurring(queries, k, regimes=2),
        "recurring 3": Recurring(queries, k, regimes=3),
        "churn": Churn(queries, k),
        "churn, hidden": Churn(queries, k, announced=False),
        "silent": Silent(queries, k),
        "order only": OrderOnly(queries, k),
        "scaling": Scaling(queries, k),
    }


def part(queries: Queries, first: int) -> Queries:
    """Every other query."""
    names = list(queries)[first::2]
    return Queries.of({name: queries[name] for name in names})


def run(
    policies: Sequence[Policy], environment: Environment, horizon: int, runs: int, seed: int, threads: int | None
) -> Result:
    # LowCTR has one query of its own: its number of runs is that of the others times their number of queries
    many = runs if len(environment.queries) > 1 else 20 * runs
    return simulate(
        policies, environment, horizon=horizon, runs=many, seed=seed, threads=threads, checkpoints=1, progress=False
    )


def test(queries: Queries, options: argparse.Namespace) -> Table:
    """The regret of CascadeRegimeTS and its rivals, and the ratio to the best rival with its standard error."""
    policies = [CascadeRegimeTS(), *map(parse_policy, (*RIVALS, *REFERENCES))]
    rows = []
    for name, environment in suite(part(queries, 1), options.k).items():
        result = run(policies, environment, options.horizon, options.runs, TEST_SEED, options.threads)
        own = result.labels[0]
        regret = {label: result.between(label) for label in result.labels}
        best = min(result.labels[1 : 1 + len(RIVALS)], key=lambda label: regret[label][0])
        difference, error = result.compare(own, best)
        cells = [f"{mean:.0f} ± {se:.0f}" for mean, se in regret.values()]
        ratio = regret[own][0] / regret[best][0]
        rows.append((name, *cells, best, f"{ratio:.2f} ({difference:+.0f} ± {error:.0f})"))
    labels = [*result.labels, "best rival", "ratio (difference)"]
    return Table(("environment", *labels), rows, (None,) * (len(labels) + 1))


def ablate(queries: Queries, options: argparse.Namespace) -> Table:
    """The regret of every variant as a paired difference to the whole policy."""
    policies = [CascadeRegimeTS(), *(parse_policy(f"CascadeRegimeTS:{spec}") for spec in PARTS.values())]
    names = ["**CascadeRegimeTS**", *PARTS]
    rows: list[list[str]] = [[name] for name in names]
    logs = [0.0] * len(names)
    worlds = suite(part(queries, 0), options.k)
    for environment in worlds.values():
        result = run(policies, environment, options.horizon, options.runs, DEVELOPMENT_SEED, options.threads)
        own = result.labels[0]
        for i, label in enumerate(result.labels):
            mean = result.regret(label)
            logs[i] += math.log(mean / result.regret(own)) / len(worlds)
            difference, error = result.compare(label, own) if i else (0.0, 0.0)
            rows[i].append(f"{difference:+.0f} ± {error:.0f}" if i else f"{mean:.0f}")
    for i, row in enumerate(rows):
        row.append(f"{math.exp(logs[i]):.3f}")
    return Table(("variant", *worlds, "geometric mean"), rows, (None,) * (len(worlds) + 2))


def quiet(queries: Queries, options: argparse.Namespace) -> Table:
    """Regret in a stationary environment over longer and longer horizons."""
    rows = []
    for horizon in (10_000, 100_000, 1_000_000):
        policies = [CascadeRegimeTS(), parse_policy("CascadeTS"), parse_policy("CascadeKLUCB:c=0")]
        world = Stationary(part(queries, 1), options.k)
        result = run(policies, world, horizon, options.runs, TEST_SEED, options.threads)
        cells = [f"{mean:.0f} ± {se:.0f}" for mean, se in map(result.between, result.labels)]
        rows.append((f"{horizon:,}", *cells, f"{result.regret(result.labels[0]) / result.regret('CascadeTS'):.2f}"))
    return Table(("steps", *result.labels, "ratio to CascadeTS"), rows, (None,) * 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {"test": test, "ablate": ablate, "quiet": quiet}
    parser.add_argument("what", choices=what)
    parser.add_argument("--queries", help="a file of queries; by default 40 drawn like those of the Yandex log")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=4, help="of every query")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    queries = files.load(options.queries) if options.queries else files.yandex_like(40, seed=0)
    print(what[options.what](queries, options).to_markdown())


if __name__ == "__main__":
    main()
