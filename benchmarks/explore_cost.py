"""The price of the setting ``explore``, in clicks per list.

Thompson sampling ranks 10 items for cascade users, and its order is shown through a softmax by rank. It learns from
what was shown. Printed for each temperature, with two standard errors.

    python benchmarks/explore_cost.py [--lists 3000] [--logs 20]
"""

from __future__ import annotations

import argparse

import numpy as np

import driftrank as dr
from driftrank.kernels.rng import key_of
from driftrank.serve.ranking.explore import draw_ranks, shown_as_ranked

ATTRACTION = (0.40, 0.30, 0.22, 0.15, 0.12, 0.10, 0.08, 0.06, 0.05, 0.04)
K = 3


def clicks_per_list(temperature: float, lists: int, log: int) -> float:
    """The expected clicks per list of one log."""
    users = np.random.default_rng(log)
    learner = dr.CascadeTS().start(items=range(len(ATTRACTION)), k=len(ATTRACTION), seed=log)
    earned = 0.0
    for n in range(lists):
        order = learner.rank()
        ranks = range(K)
        if temperature:
            ranks, _ = draw_ranks(len(ATTRACTION), K, temperature, key_of(f"{log}/{n}"))
        shown = [order[rank] for rank in ranks]
        draws = users.random(len(ATTRACTION))
        clicked = [at for at, item in enumerate(shown, 1) if draws[item] < ATTRACTION[item]]
        earned += 1 - np.prod([1 - ATTRACTION[item] for item in shown])
        learner.update(shown, clicked[0] if clicked else None)
    return earned / lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=3000)
    parser.add_argument("--logs", type=int, default=20)
    options = parser.parse_args()
    print("| explore | first places as ranked | lists as ranked | clicks per list | given up |")
    print("|---|---|---|---|---|")
    without = [clicks_per_list(0.0, options.lists, log) for log in range(options.logs)]
    for temperature in (0.0, 0.25, 0.5, 1.0, 2.0):
        found = without
        if temperature:
            found = [clicks_per_list(temperature, options.lists, log) for log in range(options.logs)]
        given_up = np.subtract(without, found)
        error = given_up.std(ddof=1) / np.sqrt(options.logs) if options.logs > 1 else np.nan
        first, whole = shown_as_ranked(K, temperature) if temperature else (1.0, 1.0)
        price = f"{given_up.mean():.4f} ± {2 * error:.4f}" if temperature else "–"
        print(f"| {temperature:g} | {first:.0%} | {whole:.0%} | {np.mean(found):.4f} | {price} |")


if __name__ == "__main__":
    main()
