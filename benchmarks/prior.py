"""Compare policies that use the caller's order and other queries with those that do not, in worlds of Traffic.

    python benchmarks/prior.py shared --runs 5          # many queries, items under many of them, no caller's order
    python benchmarks/prior.py one                      # one query in the caller's order, 5,000 lists
    python benchmarks/prior.py many                     # 300 queries in the caller's order, 20,000 lists
    python benchmarks/prior.py beyond                   # position bias, several clicks, late feedback, other orders
    python benchmarks/prior.py shared --size 0.1 --worlds 'item50;features+new' --folder out/prior

Prints tables in Markdown: for ``shared`` the regret relative to the first policy, in all and by how often a query came;
for the others clicks a list against the caller's order, by window. ``--size`` scales queries and lists; ``--folder``
keeps finished runs and continues with the missing ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments import Traffic
from driftrank.environments.traffic.traffic import AGES
from driftrank.experiments import Result, simulate
from driftrank.reporting.table import Table

#: a new seed: none of the prototypes' worlds
SEED = 31_415

#: worlds of shared effects: what differs from ITEM50
ITEM50: dict[str, Any] = {"item_share": 0.5, "caller": "none"}
SHARED: dict[str, dict[str, Any]] = {
    "useless": {"item_share": 0.0},
    "useless+qshift": {"item_share": 0.0, "query_shift": 0.1},
    "misleading": {"misleading": 100},
    "item25": {"item_share": 0.25},
    "item50": {},
    "item95": {"item_share": 0.95},
    "item50+qshift": {"query_shift": 0.1},
    "item50+shift": {"shift": 0.1},
    "item95+shift": {"item_share": 0.95, "shift": 0.1},
    "item95+shock": {"item_share": 0.95, "shock": 0.05},
    "item50+new": {"new": 0.02},
    "features": {"item_share": 0.2, "feature_share": 0.5},
    "features+new": {"item_share": 0.2, "feature_share": 0.5, "new": 0.02},
    "tokens": {"item_share": 0.2, "token_share": 0.5, "topic_items": 60},
    "all": {
        "item_share": 0.2, "feature_share": 0.2, "token_share": 0.2, "topic_items": 60, "shift": 0.05,
        "query_shift": 0.05, "new": 0.01,
    },
    "lowctr50": {"level": -4.5},
    "longtail50": {"n_queries": 4, "zipf": 0.8},  # times as many queries
}  # fmt: skip
SHARED_POLICIES = ("CascadeRegimeTS", "PriorRegimeTS", "CascadeTS")
CALLER_POLICIES = ("CascadeRegimeTS", "CascadeRegimeTS:order=natural", "CascadeTS", "PriorRegimeTS")

#: candidates, positions, going on, caller
CELLS = (
    (200, 10, 0.85, "noisy"), (200, 10, 0.85, "perfect"), (20, 5, 0.85, "noisy"), (20, 5, 0.85, "perfect"),
    (20, 5, 1.0, "noisy"), (200, 10, 1.0, "noisy"), (200, 10, 0.7, "noisy"), (20, 5, 0.7, "noisy"),
    (20, 5, 0.85, "random"), (200, 10, 0.85, "random"), (20, 5, 0.85, "reversed"), (200, 10, 0.85, "reversed"),
    (20, 5, 0.85, "shuffled"), (200, 10, 0.85, "shuffled"),
)  # fmt: skip
ONE = (50, 200, 500, 1000, 3000, 5000)
MANY, QUERIES = (500, 2000, 5000, 10_000, 20_000), 300
BEYOND: dict[str, dict[str, Any]] = {
    "k^-0.5": {"examination_power": 0.5, "after_click": 1.0, "going_on": 1.0},
    "k^-1": {"examination_power": 1.0, "after_click": 1.0, "going_on": 1.0},
    "k^-1.5": {"examination_power": 1.5, "after_click": 1.0, "going_on": 1.0},
    "several clicks": {"after_click": 0.6},
    "5,000 lists late": {"delay": 5000},
    "order changes from call to call": {"jitter": 4.0},
    "perfect, a riser": {"caller": "perfect", "riser": 15},
}


#: suffixes of measures by frequency of the query
GROUPS = tuple(f"_frequency_{least}" for least in AGES)


def in_order(candidates: int, K: int, going_on: float, caller: str, queries: int, lists: int) -> Traffic:
    """Queries with items of their own, in the caller's order."""
    tau, noise = (12.0, 18.0) if candidates >= 100 else (4.0, 4.0)
    shuffled = caller == "shuffled"
    return Traffic(
        n_queries=queries, candidates=candidates, K=K, catalogue=0, d=0, topics=0, shape="exponential", tau=tau,
        noise=noise, query_sd=0.5 if queries > 1 else 0.0, going_on=going_on,
        caller="noisy" if shuffled else caller, shuffle=lists // 2 if shuffled else 0,
    )  # fmt: skip


def shared(options: argparse.Namespace) -> Table:
    """Regret relative to the first policy."""
    lists = size(options, 300_000)
    rows = []
    for name in chosen(options, SHARED):
        changes = ITEM50 | SHARED[name]
        queries = size(options, 5000) * changes.pop("n_queries", 1)
        world = Traffic(n_queries=queries, day=max(1, lists // 15), **changes)
        result = run(options, name, world, SHARED_POLICIES, lists, [lists])
        first, *others = result.labels
        for label in others:
            ratios = [relative(result, label, first, f"regret{group}") for group in ("", *GROUPS)]
            cells = [f"**{ratios[0][0]:.3f}** ± {ratios[0][1]:.3f}", *(f"{ratio:.2f}" for ratio, _ in ratios[1:])]
            rows.append((name, f"{result.regret(first):,.0f}", label, *cells, f"{lists / result.speed(label):.1f}"))
    names = ("<10", "10-99", "100-999", ">=1000")
    return Table(("world", first, "policy", "ratio", *names, "seconds a run"), rows, (None,) * 9)


def one(options: argparse.Namespace) -> Table:
    """One query in the caller's order."""
    cells = {f"{c},{K},{g:g},{caller}": (c, K, g, caller) for c, K, g, caller in CELLS}
    return windows(
        options, {name: in_order(*cells[name], 1, size(options, ONE[-1])) for name in chosen(options, cells)}, ONE
    )


def many(options: argparse.Namespace) -> Table:
    """300 queries in the caller's order."""
    cells = {f"{c},{K},{g:g},{caller}": (c, K, g, caller) for c, K, g, caller in CELLS}
    sizes = size(options, QUERIES), size(options, MANY[-1])
    return windows(options, {name: in_order(*cells[name], *sizes) for name in chosen(options, cells)}, MANY)


def beyond(options: argparse.Namespace) -> Table:
    """300 queries in a noisy order, with users and callers of other kinds."""
    worlds, lists = {}, size(options, MANY[-1])
    for name in chosen(options, BEYOND):
        changes = {"going_on": 0.85, "caller": "noisy"} | BEYOND[name]
        world = in_order(20, 5, changes.pop("going_on"), changes.pop("caller"), size(options, QUERIES), lists)
        rise, delay = lists // 2 if "riser" in changes else 0, size(options, changes.pop("delay", 0), 0)
        worlds[name] = dataclasses.replace(world, **changes, rise=rise, delay=delay)
    return windows(options, worlds, MANY)


def windows(options: argparse.Namespace, worlds: dict[str, Traffic], edges: Sequence[int]) -> Table:
    """Clicks a list by window, and the sum of the differences to the caller's order."""
    lists = size(options, edges[-1])
    ends = sorted({size(options, edge) for edge in edges})
    steps = sorted({*ends, *range(1, min(200, lists) + 1), *range(10, lists + 1, max(10, lists // 1000))})
    rows: list[tuple[str, ...]] = []
    for name, world in worlds.items():
        result = run(options, name, world, CALLER_POLICIES, lists, steps)
        caller = result.against_caller(result.labels[0], [0, *ends])
        blank = [""] * 4
        rows.append((name, "the caller's order", *(f"{w.caller:.3f}" for w in caller), *blank))
        rows.append(("", "best list", *(f"{w.best:.3f}" for w in caller), *blank))
        for label in result.labels:
            clicks = [f"{w.clicks:.3f}" for w in result.against_caller(label, [0, *ends])]
            young = result.by_age(label)[0]
            gain = gains(result, label)
            se = gain[:, -1].std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else math.nan
            low = np.minimum(gain.min(axis=1), 0).mean()
            cells = (f"{young.gain:+.3f}", f"{gain[:, -1].mean():+.0f} ± {se:.0f}", f"{low:.1f}", repaid(result, gain))
            rows.append(("", label, *clicks, *cells))
    heads = [f"{begin + 1:,}-{end:,}" for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    columns = ("world", "policy", *heads, "first 10 of a query", "end", "low", "repaid")
    return Table(columns, rows, (None,) * len(columns))


def gains(result: Result, label: str) -> NDArray[np.float64]:
    """Clicks so far less those of the caller's order, (run, checkpoint)."""
    difference: NDArray[np.float64] = (result.values_of(label, "reward") - result.values_of(label, "baseline"))[0]
    return difference


def repaid(result: Result, gain: NDArray[np.float64]) -> str:
    """The list after which the mean over runs stays above the caller's order."""
    below = np.flatnonzero(gain.mean(axis=0) <= 0)
    if not len(below):
        return "1"
    return "never" if below[-1] + 1 == gain.shape[1] else f"{result.checkpoints[below[-1] + 1]:,}"


def relative(result: Result, label: str, other: str, measure: str) -> tuple[float, float]:
    """The ratio of two policies, paired by run, and its standard error."""
    own, reference = (result.values_of(policy, measure)[0, :, -1] for policy in (label, other))
    if not reference.sum():
        return math.nan, math.nan
    ratio = float(own.sum() / reference.sum())
    if len(own) == 1:
        return ratio, math.nan
    return ratio, float((own - ratio * reference).std(ddof=1) / reference.mean() / math.sqrt(len(own)))


def run(
    options: argparse.Namespace, name: str, world: Traffic, policies: Sequence[str], lists: int, steps: list[int]
) -> Result:
    folder = Path(options.folder) / options.what / name.replace(",", "-") if options.folder else None
    return simulate(
        options.policy or list(policies), world, horizon=lists, runs=options.runs, seed=options.seed,
        threads=options.threads, checkpoints=steps, folder=folder, resume=folder is not None,
    )  # fmt: skip


def size(options: argparse.Namespace, full: int, least: int = 1) -> int:
    """A number of queries or lists, scaled."""
    return max(least, round(full * options.size))


def chosen(options: argparse.Namespace, worlds: dict[str, Any]) -> list[str]:
    names: list[str] = options.worlds.split(";") if options.worlds else list(worlds)
    unknown = [name for name in names if name not in worlds]
    if unknown:
        raise SystemExit(f"--worlds {unknown[0]}: must be among {'; '.join(worlds)}")
    return names


def main() -> None:
    what: dict[str, Callable[[argparse.Namespace], Table]] = {
        "shared": shared, "one": one, "many": many, "beyond": beyond,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=what)
    parser.add_argument("--worlds", default="", help="names, separated by semicolons; all by default")
    parser.add_argument("--policy", action="append", help="repeatable; the first is the reference of ratios")
    parser.add_argument("--size", type=float, default=1.0, help="of queries and lists, relative to the full size")
    parser.add_argument("--runs", type=int, default=4, help="each in a world of its own")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--folder", help="keep results there, and continue with those of the same settings")
    options = parser.parse_args()
    print(what[options.what](options).to_markdown())


if __name__ == "__main__":
    main()
