"""The lists that the shared prefix saves, and a check of its interval: experiments that are looked at 50 times.

    python benchmarks/after_prefix.py [--runs 200]

Users read from the top; the two lists of three items share the first two, the first one, or none. Without a difference
the items that differ are equally attractive. Each experiment is folded as the service does it.
"""

from __future__ import annotations

import argparse

import numpy as np

from driftrank.serve.log.records import Final, Ranked
from driftrank.serve.state.experiment import Experiment, Pair

LISTS = 10_000
LOOKS = set(np.unique(np.geomspace(250, LISTS, 50).astype(int)).tolist())
ATTRACTION = {"a": 0.40, "b": 0.30, "c": 0.22, "d": 0.15, "e": 0.10}
CASES = {"2 of 3": ("abc", "abd"), "1 of 3": ("abc", "adc"), "none": ("abc", "dea")}


def run(own: str, other: str, share: float, attraction: dict[str, float], seed: int) -> tuple[bool, bool, float, float]:
    """True if the truth was missed at some look, by all clicks and after the prefix; the last half-widths."""
    users, pair = np.random.default_rng(seed), Pair("live", "holdout", LISTS, 0)
    sums = Experiment(pairs=[pair])
    value = [1 - np.prod([1 - attraction[item] for item in shown]) for shown in (own, other)]
    missed, halves = np.zeros(2, bool), (0.0, 0.0)
    for n in range(LISTS):
        held = users.random() < share
        shown, instead = (other, own) if held else (own, other)
        click = next((at for at, item in enumerate(shown, 1) if users.random() < attraction[item]), None)
        names = {"instead" if held else "baseline": list(instead)}
        arm, p = ("holdout", share) if held else ("live", 1 - share)
        ranked = Ranked("r", "q", f"{seed}/{n}", 1.0, 1, list(shown), "lll", 0, arm=arm, share=p, **names)
        sums.count(1, ranked, Final("r", ranked.event_id, 1.0, "feedback", [] if click is None else [click]))
        if n + 1 in LOOKS and not pair.few and pair.after is not None:
            found = pair.estimate(pair.clicks), pair.after_prefix(pair.after.below)
            if found[1] is None:
                continue
            halves = found[0].half, found[1].half
            missed |= [abs(each.difference - (value[0] - value[1])) > each.half for each in found if each is not None]
    return bool(missed[0]), bool(missed[1]), *halves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print("| shared | difference | holdout | all clicks: missed | half-width | after the prefix: missed | half-width |")
    print("|---|---|---|---|---|---|---|")
    for name, (own, other) in CASES.items():
        for null in (True, False):
            for share in (0.5, 0.1):
                attraction = dict.fromkeys("abcde", 0.3) if null else ATTRACTION
                found = np.array([run(own, other, share, attraction, seed) for seed in range(runs)])
                a, b, wide, narrow = found.mean(axis=0)
                truth = "none" if null else "as attractive"
                print(f"| {name} | {truth} | {share} | {a:.3f} | {wide:.4f} | {b:.3f} | {narrow:.4f} |", flush=True)


if __name__ == "__main__":
    main()
