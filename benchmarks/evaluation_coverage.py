"""Coverage of the intervals of off-policy evaluation. Needs NumPy only.

    python benchmarks/evaluation_coverage.py [--logs 500] [--lists 5000] [--attraction 1] [--jobs 2]

Draws worlds of two queries, six items and three positions with new attractions in every log (Beta(2, 6)), so that they
were not used to choose any threshold: users who stay as they are, who change half-way, of two kinds, who return (each
of two kinds, with 20 lists on average; the truth is that of all users), and logs of a policy that learns. The target is
the best list of each query at the beginning. The first table has how often values had no normal interval, how often
that of the others held the truth, how often a confidence sequence that is looked at after each of
50 windows, with the plan that it has by default, missed the running truth at any of them, and the half-widths. ``error
/ s.d.`` is the mean standard error over the standard deviation of the estimates' errors. The second table has how often
other intervals held the truth: empirical Bernstein, of the same logs and of the first quarter of the lists of all logs
(with 30 to 100 effective lists there is no other); of the difference to the logged lists; and with a half-life of a
fifth of the log, about the mean that is weighted in the same way. The third table has how often the normal intervals of
the other estimators held it, where they were not refused. Intervals since the last change: ``evaluation.py models``.

With ``--attraction 0.03`` and more lists, clicks are rare, and intervals are normal only if the clicks suffice.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from driftrank.evaluation.base import Batch, known_estimators, prefix_weights, target_rest
from driftrank.evaluation.cells import FOLDS, Cells
from driftrank.evaluation.checks import LogChecks
from driftrank.evaluation.estimate import How, Model, estimate, interval, running_values
from driftrank.evaluation.labels import PRIOR
from driftrank.evaluation.sums import Scope, Sums
from tests.evaluation.worlds import (
    LISTS,
    QUERIES,
    SHARES,
    Drawn,
    K,
    L,
    cascade,
    conditional,
    mixed,
)

WORLDS = ("stationary", "change", "two kinds of users", "logged by a learner", "users who return")
CELLS = Cells(windows=50)
OTHERS = ("list", "self-normalised", "prefix", "product-limit", "published")
UNKNOWN = Model(0.0, 1.0, (0.0, 1.0))  # the click model is not measured here


class World(NamedTuple):
    """A log, its target, the target's value at every list, and that of the logged list."""

    drawn: Drawn
    target: dict[str, list[int]]
    value: np.ndarray
    logged: np.ndarray  #: the chance of a click on each logged list, of all users
    user: np.ndarray


def best(alpha: np.ndarray) -> list[int]:
    return np.argsort(-alpha, kind="stable")[:K].tolist()


def sampled(rng: np.random.Generator, n: int, kind: str, attraction: float = 1.0) -> World:
    """A log of random lists around scores that know the attraction only roughly."""
    alpha, later = attraction * rng.beta(2, 6, (2, 2, L))
    change = n // 2 if kind == "change" else n
    returning = kind == WORLDS[4]
    users = mixed if kind == WORLDS[2] or returning else cascade
    user = rng.integers(0, n // 20, n) if returning else np.arange(n)
    likes = np.where(rng.random(n) < 0.5, 1.6, 0.4)[user]  # as in mixed
    query = (rng.random(n) >= SHARES[0]).astype(int)
    number, first, p = np.zeros(n, int), np.zeros(n, int), np.zeros((n, K))
    value, logged = np.zeros((2, n))
    for q in range(2):
        chances = conditional(np.exp((alpha[q] + rng.normal(0, 0.05, L)) / 0.2))
        at = int((best(alpha[q]) == LISTS).all(axis=1).argmax())
        for level, when in ((alpha[q], np.arange(n) < change), (later[q], np.arange(n) >= change)):
            rows = np.flatnonzero((query == q) & when)
            number[rows] = rng.choice(len(LISTS), len(rows), p=chances.prod(axis=1))
            clicks = users(level)
            u = rng.random(len(rows))[:, None]
            for own, like in ((clicks, None), *((cascade(np.minimum(x * level, 0.98)), x) for x in (1.6, 0.4))):
                if returning == (like is not None):
                    those = np.ones(len(rows), bool) if like is None else likes[rows] == like
                    chosen = rows[those]
                    first[chosen] = 1 + (np.cumsum(own, axis=1)[number[chosen]] <= u[those]).sum(axis=1)
            p[rows] = chances[number[rows]]
            logged[rows] = clicks[number[rows]].sum(axis=1)
            value[when] += SHARES[q] * clicks[at].sum()
    target = {name: best(a) for name, a in zip(QUERIES, alpha, strict=True)}
    return World(Drawn(query, number, first, p), target, value, logged, user)


def learnt(rng: np.random.Generator, n: int, attraction: float = 1.0) -> World:
    """A log of a softmax policy that learns from its own lists."""
    alpha = attraction * rng.beta(2, 6, (2, L))
    query = (rng.random(n) >= SHARES[0]).astype(int)
    codes = {tuple(items): number for number, items in enumerate(LISTS.tolist())}
    sums = np.zeros((2, 2, L))
    number, first, p = np.zeros(n, int), np.full(n, K + 1), np.zeros((n, K))
    for t, q in enumerate(query):
        clicks, looks = sums[q]
        weight = np.exp(np.where(looks > 0, clicks / np.maximum(looks, 1), 0.5) / 0.15)
        shown: list[int] = []
        for k in range(K):
            chance = weight / weight.sum()
            item = int(rng.choice(L, p=chance))
            shown.append(item)
            p[t, k] = chance[item]
            weight[item] = 0.0
        number[t] = codes[tuple(shown)]
        for k, item in enumerate(shown, 1):
            sums[q, 1, item] += 1
            if rng.random() < alpha[q, item]:
                sums[q, 0, item] += 1
                first[t] = k
                break
    target = {name: best(a) for name, a in zip(QUERIES, alpha, strict=True)}
    values = [share * (1 - np.prod(1 - a[best(a)])) for share, a in zip(SHARES, alpha, strict=True)]
    logged = 1 - np.prod(1 - alpha[query[:, None], LISTS[number]], axis=1)
    return World(Drawn(query, number, first, p), target, np.full(n, sum(values)), logged, np.arange(n))


def batch_of(world: World, bucket: np.ndarray) -> Batch:
    """The rows of the target, with hazards from users of the other half."""
    drawn, n = world.drawn, len(world.drawn.first)
    items, wanted = LISTS[drawn.number], np.array([world.target[query] for query in QUERIES])[drawn.query]
    read = drawn.first[:, None] >= np.arange(1, K + 1)
    clicked = drawn.first[:, None] == np.arange(1, K + 1)
    fold = bucket % FOLDS
    label = (fold[:, None] * 2 + drawn.query[:, None]) * L + items
    looks, clicks = (np.bincount(label[read], x[read], FOLDS * 2 * L) for x in (np.ones((n, K)), clicked))
    alpha = ((clicks + PRIOR[0]) / (looks + PRIOR[1])).reshape(FOLDS, 2, L)[::-1]
    hazard = alpha[fold[:, None], drawn.query[:, None], wanted]
    matched = np.cumprod(items == wanted, axis=1).sum(axis=1)
    weight = prefix_weights(matched, np.full(n, K), drawn.propensities)
    window = np.arange(n) * CELLS.windows // n
    cell = CELLS.number(np.zeros(n, bool), window, bucket)
    rest = target_rest(hazard)
    return Batch(drawn.first, weight, hazard, rest, 1 - rest[:, 0], clicked, "any", cell, drawn.query)


class Outcome(NamedTuple):
    """Of one log; NaN where a value is refused, or has another interval."""

    held: float = np.nan
    missed: float = np.nan
    half: float = np.nan
    sequence: float = np.nan
    error: float = np.nan
    off: float = np.nan
    exact: float = np.nan
    exact_few: float = np.nan
    difference: float = np.nan
    decayed: float = np.nan
    others: tuple[float, ...] = (np.nan,) * len(OTHERS)  #: by estimator


def generator(seed: int, kind: str) -> np.random.Generator:
    return np.random.default_rng([WORLDS.index(kind), seed, 17])


def drawn_world(rng: np.random.Generator, kind: str, lists: int, attraction: float = 1.0) -> World:
    return learnt(rng, lists, attraction) if kind == WORLDS[3] else sampled(rng, lists, kind, attraction)


def outcome(seed: int, kind: str, lists: int, attraction: float) -> Outcome:
    rng = generator(seed, kind)
    world = drawn_world(rng, kind, lists, attraction)
    batch = batch_of(world, rng.integers(0, CELLS.buckets, lists)[world.user])
    dr, used = known_estimators()["dr"], {key: known_estimators()[key] for key in ("dr", *OTHERS)}

    def scope_of(rows: Batch) -> Scope:
        return Sums.of([rows], used, CELLS, 2).scope(False)

    scope, truth = scope_of(batch), world.value.mean()
    exact = held(scope, "empirical-bernstein", truth)
    early = slice(0, lists // 4)
    few = held(scope_of(part(batch, early)), "empirical-bernstein", world.value[early].mean())
    ages = np.exp2((np.arange(lists) - lists + 1) / (lists / 5))
    old = dataclasses.replace(batch, weight=batch.weight * ages[:, None])
    decayed = held(scope_of(old), "normal", float(ages @ world.value / ages.sum()), decays=True)
    others = tuple(held(scope, "normal", truth, key=key) for key in OTHERS)
    found = estimate(scope, dr, LogChecks(()), How(), UNKNOWN)
    if found.value is None or found.low is None or found.high is None or found.interval != "normal":
        return Outcome(exact=exact, exact_few=few, decayed=decayed, others=others)
    looks = running_values(scope, dr, How())
    at = (np.cumsum(world.value) / np.arange(1, lists + 1))[looks[:, 0].astype(int) - 1]
    assert found.replicates is not None
    low, high = interval(found.replicates.minus(scope.rewards()), lists, "normal", How())
    return Outcome(
        found.low <= truth <= found.high, bool(((at < looks[:, 2]) | (at > looks[:, 3])).any()),
        (found.high - found.low) / 2, (looks[-1, 3] - looks[-1, 2]) / 2, found.error or np.nan, found.value - truth,
        exact, few, low <= (world.value - world.logged).mean() <= high, decayed, others,
    )  # fmt: skip


def part(batch: Batch, rows: slice) -> Batch:
    names = ("first", "weight", "hazard", "rest", "model", "clicked", "cell", "query")
    return dataclasses.replace(batch, **{name: getattr(batch, name)[rows] for name in names})


def held(scope: Scope, kind: str, truth: float, decays: bool = False, key: str = "dr") -> float:
    """1 if the interval of this kind holds the truth, NaN if there is none, or none of this kind."""
    found = estimate(scope, known_estimators()[key], LogChecks(()), How(interval=kind, decays=decays), UNKNOWN)
    if found.low is None or found.high is None or found.interval != kind:
        return np.nan
    return float(found.low <= truth <= found.high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--lists", type=int, default=5000)
    parser.add_argument("--attraction", type=float, default=1.0, help="factor of the attraction of all items")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    error = np.sqrt(0.05 * 0.95 / options.logs)
    print(f"{options.logs} logs of {options.lists:,} lists each; errors of shares: {error:.3f} at .05")
    others, ladder = [], []
    print("| world | refused | normal covers | sequence ever misses | half-widths | error / s.d. | bias |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for kind in WORLDS:
            each = partial(outcome, kind=kind, lists=options.lists, attraction=options.attraction)
            rows = np.array([np.hstack(found) for found in pool.map(each, range(options.logs), chunksize=5)])
            given = rows[np.isfinite(rows[:, 0])]
            if not len(given):
                continue
            covers, missed, half, sequence = given[:, :4].mean(axis=0)
            ratio = np.sqrt((given[:, 4] ** 2).mean()) / given[:, 5].std()
            widths = f"{half:.4f} {sequence:.4f}"
            bias = f"{given[:, 5].mean():+.4f} ± {2 * given[:, 5].std() / len(given) ** 0.5:.4f}"
            refused, share = 1 - len(given) / len(rows), f"{covers:.3f} of {len(given)}"
            print(f"| {kind} | {refused:.3f} | {share} | {missed:.3f} | {widths} | {ratio:.3f} | {bias} |", flush=True)
            shares = [f"{np.nanmean(column):.3f} of {np.isfinite(column).sum()}" for column in rows[:, 6:].T]
            others.append(f"| {kind} | {' | '.join(shares[: -len(OTHERS)])} |")
            ladder.append(f"| {kind} | {' | '.join(shares[-len(OTHERS) :])} |")
    print("\n| world | empirical Bernstein | of a quarter of the lists | difference to logged | half-life |")
    print("|---|---|---|---|---|", *others, sep="\n")
    print(f"\n| world | {' | '.join(OTHERS)} |\n|{'---|' * (1 + len(OTHERS))}", *ladder, sep="\n")


if __name__ == "__main__":
    main()
