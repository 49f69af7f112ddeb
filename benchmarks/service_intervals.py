"""The misses of the intervals of the service, by the sums that it folds. Drawn lists, no requests.

    python benchmarks/service_intervals.py null [--runs 1000] [--lists 3000] [--jobs 2]
    python benchmarks/service_intervals.py shadow [--runs 200] [--lists 3000] [--jobs 2]

``null``: experiments with a holdout of a fifth in which no arm is better. Subjects have a geometric number of lists, 5
on average, and a click rate of their own (Beta, mean .3); the arms show lists that differ in one place and are worth
the same. Printed is the share of runs whose interval of clicks was on one side of 0 at any of the service's own looks
(after every 16 lists), and whose interval after the shared prefix was so at any of 50 looks.

``shadow``: a ranker in the shadow that learns (CascadeTS) from lists around the caller's order (explore = 2), which
cascade users click; attractions are new in every run. The truth is the mean value of the lists that the policy would
have shown so far. Printed is how often its interval missed it at any of 50 looks, how often an interval for one look at
the end held it, and how many runs had no interval (too few effective lists, or weights that are off).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import driftrank as dr
from driftrank.evaluation.sequences import PLANNED, mixture_width
from driftrank.kernels.rng import key_of
from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.ranking.explore import draw_ranks
from driftrank.serve.state.experiment import Experiment, Pair, Sums

LOOKS = 50
ITEMS = list("abcdef")


def null(seed: int, lists: int) -> tuple[float, float]:
    """1 if the difference was found at some look, and if it was after the shared prefix."""
    users, pair = random.Random(seed), Pair("live", "holdout", PLANNED, 0)
    sums = Experiment(pairs=[pair], arms={arm: Sums() for arm in ("live", "holdout")})
    looks = set(np.unique(np.geomspace(100, lists, LOOKS).astype(int)).tolist())
    rates: dict[int, float] = {}
    found = below = False
    subject = 1
    for n in range(1, lists + 1):
        if users.random() < 0.2:
            subject += 1
        held = key_of(f"{seed}/{subject}") % 5 == 0
        rate = rates.setdefault(subject, users.betavariate(0.6, 1.4))
        arm, share, other = (
            ("holdout", 0.2, {"instead": list("abd")}) if held else ("live", 0.8, {"baseline": list("abc")})
        )
        shown = list("abc" if held else "abd")
        clicks = [1 + users.randrange(3)] if users.random() < rate else []
        who = key_of(f"{seed}/{subject}/who")
        ranked = Ranked("r", "q", f"e{n}", n, 1, shown, "lll", 0, arm=arm, share=share, subject=who, **other)  # type: ignore[arg-type]
        sums.count(1, ranked, Final("r", f"e{n}", n, "feedback", clicks))
        found |= pair.side != 0
        if n in looks and pair.after is not None:
            after = pair.after_prefix(pair.after.below)
            below |= after is not None and after.side != 0
    return float(found), float(below)


def shadow(seed: int, lists: int) -> tuple[float, float]:
    """1 if the truth was missed at some look, and if an interval for one look held it at the end; NaN if refused."""
    users = random.Random(seed)
    likes = {item: users.betavariate(2, 6) for item in ITEMS}
    learner = dr.CascadeTS().start(ITEMS, k=3, seed=seed)
    sums, truth, missed = Experiment(), 0.0, False
    looks = set(np.unique(np.geomspace(100, lists, LOOKS).astype(int)).tolist())
    for n in range(1, lists + 1):
        wanted = list(learner.rank())
        truth += 1 - float(np.prod([1 - likes[item] for item in wanted]))
        ranks, chances = draw_ranks(len(ITEMS), 3, 2.0, users.getrandbits(64))
        shown = [ITEMS[rank] for rank in ranks]
        clicks = [place for place, item in enumerate(shown, 1) if users.random() < likes[item]][:1]
        learner.update(shown, clicks[0] if clicks else None)
        instead = [] if shown == wanted else wanted
        ranked = Ranked("r", "q", f"e{n}", 1.0, 1, shown, "bbb", 0, arm="shadow", propensity=chances, instead=instead)
        sums.count(1, ranked, Final("r", f"e{n}", 1.0, "feedback", clicks))
        its = sums.shadow
        if n in looks and its is not None and not its.few and not its.apart:
            value, half, _ = its.value(PLANNED)
            missed |= abs(value - truth / n) > half
    assert its is not None
    if its.few or its.apart:
        return float("nan"), float("nan")
    value, half, _ = its.value(PLANNED)
    error = half / mixture_width(lists, PLANNED) / lists**0.5
    return float(missed), float(abs(value - truth / lists) <= 1.96 * error)


def rows(run: Callable[[int], tuple[float, float]], runs: int, jobs: int) -> np.ndarray:
    with ProcessPoolExecutor(jobs) as pool:
        return np.array(list(pool.map(run, range(runs), chunksize=5)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("null", "shadow"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--lists", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    runs = options.runs or {"null": 1000, "shadow": 200}[options.kind]
    if options.kind == "null":
        found, below = rows(partial(null, lists=options.lists), runs, options.jobs).mean(axis=0)
        print(f"{runs} null experiments of {options.lists:,} lists: found {found:.3f}, after the prefix {below:.3f}")
        return
    got = rows(partial(shadow, lists=options.lists), runs, options.jobs)
    given = got[np.isfinite(got[:, 0])]
    missed, held = given.mean(axis=0)
    print(f"{runs} shadows of {options.lists:,} lists: {len(given)} had an interval at the end")
    print(f"it missed at some look in {missed:.3f}; one for one look at the end held in {held:.3f}")


if __name__ == "__main__":
    main()
