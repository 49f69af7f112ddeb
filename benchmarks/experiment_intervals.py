"""The share of experiments whose intervals miss a difference of 0 at some of 50 looks, from 100 lists to 20,000.

    python benchmarks/experiment_intervals.py [--runs 300]

A list is assigned to the holdout by its subject. Subjects have one list or a geometric number of them, and their own
click rate (Beta, mean .3). By row: the sequence and the normal interval with lists taken as independent.
"""

from __future__ import annotations

import argparse

import numpy as np

from driftrank.evaluation.sequences import BUCKETS, mixture_width

LISTS = 20_000
LOOKS = np.unique(np.geomspace(100, LISTS, 50).astype(int))


def subjects(rng: np.random.Generator, lists: int) -> np.ndarray:
    """The subject of each list; those of a subject are near to each other."""
    if lists == 1:
        return np.arange(LISTS)
    count = 2 * LISTS // lists
    each = rng.geometric(1 / lists, count)
    times = np.repeat(rng.random(count), each) + rng.exponential(0.01, each.sum())
    return np.repeat(np.arange(count), each)[np.argsort(times)][:LISTS]


def missed(rng: np.random.Generator, share: float, lists: int) -> tuple[bool, bool, bool, float]:
    """True if it was missed at some look, by buckets, by row and by the normal interval; the last half-width."""
    of = subjects(rng, lists)
    rate = rng.beta(0.3, 0.7, of.max() + 1) if lists > 1 else np.full(LISTS, 0.3)
    held, bucket = (rng.random(of.max() + 1) < share)[of], rng.integers(0, BUCKETS, of.max() + 1)[of]
    clicks = (rng.random(LISTS) < rate[of]).astype(float)
    before = np.concatenate([[0.0], np.cumsum(clicks)[:-1] / np.arange(1, LISTS)])
    psi = (clicks - before) * np.where(held, -1 / share, 1 / (1 - share))
    found, half = np.zeros(3, bool), 0.0
    for t in LOOKS:
        if min(held[:t].sum(), t - held[:t].sum()) < 100 or len(np.unique(bucket[:t][held[:t]])) < 50:
            continue
        sums, counts = np.bincount(bucket[:t], psi[:t], BUCKETS), np.bincount(bucket[:t], minlength=BUCKETS)
        without = (sums.sum() - sums) / (t - counts)
        error = np.sqrt((BUCKETS - 1) / BUCKETS * ((without - without.mean()) ** 2).sum())
        sd, width = psi[:t].std(), mixture_width(int(t), LISTS)
        half = float(error * np.sqrt(t) * width)
        found |= abs(psi[:t].mean()) > np.array([half, sd * width, 1.96 * sd / np.sqrt(t)])
    return bool(found[0]), bool(found[1]), bool(found[2]), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    print("| holdout | lists per subject | by buckets | half-width | by row | normal |\n|---|---|---|---|---|---|")
    for share in (0.5, 0.2, 0.05):
        for lists in (1, 5, 20):
            rng = np.random.default_rng(12)
            buckets, row, normal, half = np.mean([missed(rng, share, lists) for _ in range(runs)], axis=0)
            print(f"| {share} | {lists} | {buckets:.3f} | {half:.4f} | {row:.3f} | {normal:.3f} |", flush=True)


if __name__ == "__main__":
    main()
