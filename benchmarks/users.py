"""Compare policies among users with position bias, with no caller's order: who loses how many clicks.

    python benchmarks/users.py development              # to choose settings
    python benchmarks/users.py test                     # other queries and seeds: to report

Users are PBM with examination k^-eta (K = 3, 5, 10), DBN, UBM and DCM, stationary and changing, and cascade users in
the paper's world. Prints a table in Markdown: regret, and the part of the clicks lost in the second half.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from driftrank.clickmodels import CM, DBN, DCM, PBM, UBM, ClickModel
from driftrank.environments import Abrupt, PiecewiseRandom, Stationary
from driftrank.environments.base import Environment
from driftrank.experiments import simulate
from driftrank.queries import yandex_like
from driftrank.reporting.table import Table

RIVALS = ("CascadeTS", "GLRTCascadeKLUCB", "CascadeSWTS")
POLICIES = ("PriorRegimeTS", "CascadeRegimeTS", *RIVALS)
#: seeds of the queries and of the runs
SEEDS = {"development": (101, 11), "test": (1907, 2011)}


def position_bias(eta: float, k: int) -> ClickModel:
    return PBM(examination=tuple(n**-eta for n in range(1, k + 1)))


def worlds(queries: int, seed: int, horizon: int) -> dict[str, Environment]:
    """The worlds, by their names in the table."""
    items = yandex_like(queries, seed=seed)
    out: dict[str, Environment] = {}
    for k in (3, 5, 10):
        for eta in (0.5, 1.0, 1.5):
            users = position_bias(eta, k)
            out[f"PBM k^-{eta}, K={k}"] = Stationary(items, k, click_model=users)
    for name, users in {"DBN": DBN(objective="clicks"), "UBM": UBM(), "DCM": DCM(objective="clicks")}.items():
        out[f"{name}, K=5"] = Stationary(items, 5, click_model=users)
    for eta in (0.5, 1.0):
        users = position_bias(eta, 5)
        out[f"PBM k^-{eta}, K=5, breaks"] = PiecewiseRandom(
            items, 5, horizon=horizon, n_breakpoints=4, click_model=users
        )
    out["DBN, K=5, breaks"] = PiecewiseRandom(
        items, 5, horizon=horizon, n_breakpoints=4, click_model=DBN(objective="clicks")
    )
    out["cascade, K=3"] = Stationary(items, 3, click_model=CM())
    out["paper"] = Abrupt(items, 3, period=horizon // 10)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=SEEDS)
    parser.add_argument("--policy", action="append", help="instead of the usual ones; may be repeated")
    parser.add_argument("--only", default="", help="worlds whose names begin so")
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    policies: Sequence[str] = options.policy or POLICIES
    seed, runs_seed = SEEDS[options.part]
    rows = []
    for name, environment in worlds(options.queries, seed, options.horizon).items():
        if not name.startswith(options.only):
            continue
        result = simulate(
            list(policies), environment, horizon=options.horizon, runs=options.runs, seed=runs_seed, checkpoints=2,
            device=options.device, progress=False,
        )  # fmt: skip
        cells, regrets = [], {}
        for policy, label in zip(policies, result.labels, strict=True):
            half = options.horizon // 2
            regrets[policy] = result.regret(label)
            regret = result.between(label, half)[0]
            reward = result.between(label, half, measure="reward")[0]
            cells.append(f"{regrets[policy]:,.0f} ({100 * regret / (regret + reward):.1f}%)")
        best = min((regrets[rival] for rival in RIVALS if rival in regrets), default=float("nan"))
        rows.append((name, *cells, f"{regrets[policies[0]] / best:.2f}"))
        print(rows[-1], flush=True)
    print(Table(["world", *policies, "first / best rival"], rows, [None] * (len(policies) + 2)).to_markdown())


if __name__ == "__main__":
    main()
