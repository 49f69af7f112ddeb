"""Try what the default policy does not: learn from clicks whether users want the best item on top or at the bottom.

    python benchmarks/order_trial.py

``OrderTrial`` is PriorRegimeTS that shows its list as it is or in reverse, whichever has the larger of two draws from
the mean clicks of lists shown so (Thompson sampling, from the 501st list on). With the queries and seeds of
development of benchmarks/users.py: regret, and the part of the clicks lost in the second half. The last row has the
regret of DCM users in satisfied users, of whom a policy sees nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from users import RIVALS, SEEDS, position_bias

from driftrank.clickmodels import CM, DBN, DCM, UBM, ClickModel
from driftrank.environments import Abrupt, PiecewiseRandom, Stationary
from driftrank.environments.base import Environment
from driftrank.experiments import simulate
from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import OF_LIST, derive
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.shared.memo import MEMO
from driftrank.queries import yandex_like
from driftrank.reporting.table import Table

HORIZON = 20_000
_rank, _update = PriorRegimeTS.rank, PriorRegimeTS.update
#: standard deviation of the clicks of a list, about
_SPREAD = 0.6


@kernel
def _reversed(p, s, e):
    """True if the list of this step is shown in reverse."""
    if e.t <= p.after:
        return False
    key = derive(e.key, OF_LIST)
    best = -np.inf
    choice = 0
    for way in range(2):
        n = max(s.lists[way], 0.1)
        draw = s.clicks[way] / n + _SPREAD / np.sqrt(n) * normal(derive(key, way))
        if draw > best:
            best = draw
            choice = way
    return choice == 1


@kernel
def _reverse(values, i, j, width):
    for n in range(width):
        values[width * i + n], values[width * j + n] = values[width * j + n], values[width * i + n]


class OrderTrial(PriorRegimeTS):
    """PriorRegimeTS that tries its lists in reverse. Clicks must come before the next list."""

    after: int = 500

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {**super().fields(p), "lists": field(2), "clicks": field(2)}

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        _rank(p, s, e, c, r)
        if _reversed(p, s, e):
            K = r.items.shape[0]
            for i in range(K // 2):
                _reverse(r.items, i, K - 1 - i, 1)
                _reverse(r.score, i, K - 1 - i, 1)
                _reverse(r.memo, i, K - 1 - i, MEMO)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        way = 1 if _reversed(p, s, e) else 0
        _update(p, s, e, r, clicks, observed)
        if e.t > p.after:
            s.lists[way] += 1.0
            for i in range(r.items.shape[0]):
                s.clicks[way] += clicks[i]


def worlds(queries: int) -> dict[str, Environment]:
    items = yandex_like(queries, seed=SEEDS["development"][0])
    dcm = DCM(objective="clicks")
    kinds: dict[str, ClickModel] = {
        "DCM": dcm, "DBN": DBN(objective="clicks"), "UBM": UBM(), "PBM k^-0.5": position_bias(0.5, 5),
        "PBM k^-1": position_bias(1.0, 5),
    }  # fmt: skip
    out: dict[str, Environment] = {name: Stationary(items, 5, click_model=users) for name, users in kinds.items()}
    for name, users in kinds.items():
        out[f"{name}, breaks"] = PiecewiseRandom(items, 5, horizon=HORIZON, n_breakpoints=4, click_model=users)
    out["cascade, K=3"] = Stationary(items, 3, click_model=CM())
    out["paper"] = Abrupt(items, 3, period=HORIZON // 10)
    out["DCM, satisfied users"] = Stationary(items, 5, click_model=DCM(objective="sat"))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    policies = ("PriorRegimeTS", "OrderTrial", *RIVALS)
    rows = []
    for name, environment in worlds(options.queries).items():
        result = simulate(
            list(policies), environment, horizon=HORIZON, runs=options.runs, seed=SEEDS["development"][1],
            checkpoints=2, threads=options.threads, progress=False,
        )  # fmt: skip
        cells = []
        for policy in policies:
            lost = result.between(policy, HORIZON // 2)[0]
            got = result.between(policy, HORIZON // 2, measure="reward")[0]
            cells.append(f"{result.regret(policy):,.0f} ({lost / (lost + got):.1%})")
        rows.append((name, *cells))
        print(rows[-1], flush=True)
    print(Table(["users", *policies], rows, [None] * (len(policies) + 1)).to_markdown())


if __name__ == "__main__":
    main()
