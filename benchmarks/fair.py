"""Tune the rivals of the default policy on development worlds; then compare them once, on other kinds of worlds.

    python benchmarks/fair.py tune        # the best of 32 settings for each rival
    python benchmarks/fair.py test        # those in the package: the part "fair" of the leaderboard

Every rival has the same budget, 32 settings, of what its authors leave open: window, discount, exploration, prior,
and the order of the list. The score of a setting is its regret relative to the best one of the same policy, in the
geometric mean over the development worlds. These are disjoint in kind from the worlds of the test (regimes that recur,
items that are replaced, drift), and have other queries and seeds. The settings that win are written down in
driftrank/experiments/leaderboards/policies.py.
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import sys
from collections.abc import Sequence

from driftrank.environments import Churn, Drift, Recurring
from driftrank.environments.base import Environment
from driftrank.experiments import simulate
from driftrank.policies.registry import parse_policy
from driftrank.queries import yandex_like
from driftrank.reporting.table import Table

#: seeds of the queries and of the runs
QUERIES_SEED, RUNS_SEED = 101, 11
HORIZON = 100_000

ORDERS = ("order=decreasing", "order=increasing")
#: by rival, the choices whose combinations are tried: thirty-two for each
CHOICES: dict[str, tuple[tuple[str, ...], ...]] = {
    "CascadeTS": (
        ("a0=0.05", "a0=0.1", "a0=0.5", "a0=1"), ("b0=1", "b0=4", "b0=16", "b0=64"), ORDERS,
    ),
    "CascadeSWUCB": (
        ("window=500", "window=1000", "window=2000", "window=4000"),
        ("epsilon=0.003", "epsilon=0.01", "epsilon=0.03", "epsilon=0.1"),
        ORDERS,
    ),
    "CascadeDUCB": (
        ("discount=0.998", "discount=0.999", "discount=0.9995", "discount=0.99975"),
        ("epsilon=0.003", "epsilon=0.01", "epsilon=0.03", "epsilon=0.1"),
        ORDERS,
    ),
    "CascadeSWTS": (
        tuple(f"window={n}" for n in (250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000)),
        ("a0=1,b0=1", "a0=0.5,b0=0.5"),
        ORDERS,
    ),
    "CascadeSWKLUCB": (
        tuple(f"window={round(500 * 2 ** (i / 2))}" for i in range(16)),
        ORDERS,
    ),
    "GLRTCascadeKLUCB": (
        ("explore=0.003", "explore=0.01", "explore=0.02", "explore=0.04"),
        ("restart=global", "restart=local"),
        ("delta=auto", "delta=0.05"),
        ORDERS,
    ),
}  # fmt: skip


def settings(rival: str) -> list[str]:
    """The specs that are tried."""
    return [f"{rival}:{','.join(choice)}" for choice in itertools.product(*CHOICES[rival])]


def development(queries: int) -> list[Environment]:
    """Worlds with as many changes as those of the test, and with drift."""
    items = yandex_like(queries, seed=QUERIES_SEED)
    return [
        Recurring(items, 3, regimes=3, period=HORIZON // 10),
        Churn(items, 3, announced=False, period=HORIZON // 10),
        Drift(items, 3, shape="sinusoid"),
        Drift(items, 3, shape="walk"),
    ]


def tune(rivals: Sequence[str], queries: int, device: str) -> None:
    worlds = development(queries)
    chosen = {}
    for rival in rivals:
        specs = settings(rival)
        regrets: list[list[float]] = []
        for world in worlds:
            result = simulate(
                specs, world, horizon=HORIZON, seed=RUNS_SEED, checkpoints=1, device=device, progress=False
            )
            regrets.append([result.regret(label) for label in result.labels])
        scores = [
            math.exp(sum(math.log(there[i] / min(there)) for there in regrets) / len(worlds)) for i in range(len(specs))
        ]
        rows = sorted(
            (score, spec, *(there[i] for there in regrets))
            for i, (score, spec) in enumerate(zip(scores, specs, strict=True))
        )
        chosen[rival] = rows[0][1]
        columns = ["score", "setting", "recurring", "churn", "sinusoid", "walk"]
        print(Table(columns, rows, [".3f", None, *[",.0f"] * 4]).to_markdown(), flush=True)
    print("\n".join(f'    "{rival}": "{parse_policy(spec).spec}",' for rival, spec in chosen.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("tune", "test"))
    parser.add_argument("--rival", action="append", choices=CHOICES, help="only this one; may be repeated")
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.part == "tune":
        tune(options.rival or tuple(CHOICES), options.queries, options.device)
    else:
        sys.exit(
            subprocess.call(
                [sys.executable, "-m", "driftrank", "leaderboard", "--env", "fair", "--seed", "23", "--out", "out/fair"]
            )
        )


if __name__ == "__main__":
    main()
