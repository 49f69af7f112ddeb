"""Advice on generated logs of known truth: is the policy the best one, does the interval hold the gain, is it refused?

    python benchmarks/advice.py [--logs 30] [--first 0] [--processes N] [--queries 30] [--lists 1600] [--budget 1m]

Users of all seven click models, four kinds of change (none, abrupt, random breaks, drift) and three kinds of logging
(shuffled lists, neighbours exchanged at random, one fixed list), in turn: with 84 logs every combination occurs once.
Ten items per query, lists of five, three positions that count. The truth is the simulation of all candidates in the
very world of the log, and the true values of the logged lists.

Prints a line per log and a summary: how often the advice is within 0.005 of the best candidate, how often the interval
holds the true gain, how often logs were refused. Needs DuckDB, as every command that reads a log.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import driftrank as dr  # noqa: E402
from driftrank.clickmodels.registry import click_model  # noqa: E402
from driftrank.environments.base import Environment  # noqa: E402
from driftrank.experiments.advice.candidates import KEEP, candidates  # noqa: E402
from driftrank.experiments.advice.measuring import measure  # noqa: E402
from driftrank.experiments.advice.worlds import World  # noqa: E402
from driftrank.logs.generations import DriftingQuery, Generations, QueryTable  # noqa: E402
from driftrank.logs.query_lists import lists_of  # noqa: E402
from driftrank.logs.shown_lists import prefix_values  # noqa: E402

USERS = ("CM", "DCM", "SDBN", "DBN", "CCM", "PBM", "UBM")
CHANGES = ("none", "abrupt", "random breaks", "drift")
LOGGING = ("shuffled", "swapped", "sorted")
K, LENGTH = 3, 5
#: of the truth: with two, its own error was .001, a quarter of an interval's half-width
RUNS = 20
#: clicks per list that do not matter
CLOSE = 0.005


def world(number: int, queries: int, lists: int) -> Environment:
    users = click_model(USERS[number % len(USERS)])(objective="any")
    drawn = dr.queries.yandex_like(queries, seed=1000 + number)
    kind = CHANGES[number % len(CHANGES)]
    if kind == "none":
        return dr.environments.Stationary(drawn, k=K, click_model=users)
    if kind == "abrupt":
        return dr.environments.Abrupt(drawn, k=K, period=lists // 2, click_model=users)
    if kind == "random breaks":
        return dr.environments.PiecewiseRandom(
            drawn, k=K, n_breakpoints=2, horizon=lists, spacing=lists // 4, click_model=users
        )
    return dr.environments.Drift(drawn, k=K, period=4 * lists, click_model=users)


def truth(env: Environment, log: Any, seed: int) -> tuple[dict[str, float], float]:
    """The value of every candidate in the world of the log, and that of the logged lists."""
    tables = [QueryTable.of(lists) for lists in lists_of(log, env.names)]
    queries, values = [], []
    for table in tables:
        starts, alphas, _ = env.stretches(len(table), table.query, 0, seed)
        slots = [item % 1000 for item in table.items]  # candidates are the items that were shown
        own = DriftingQuery(
            table.query, table.items, tuple(int(step) - 1 for step in starts[1:]), alphas[:, slots],
            env.users(table.query), np.arange(len(slots)),
        )  # fmt: skip
        queries.append(own)
        values.append(prefix_values(own, table.slots, table.segment_of(own.after), K))
    known = World("truth", Generations(tables, (), None, ()), queries, K, values)  # type: ignore[arg-type]
    chosen = candidates()
    found = measure(known, chosen, RUNS, seed)
    lists = np.array([float(len(table)) for table in tables])
    means = found.by_query @ (lists / lists.sum())
    return {each.name: float(value) for each, value in zip(chosen, means, strict=True)}, float(means[0])


def trial(task: tuple[int, argparse.Namespace]) -> dict[str, Any]:
    """One log."""
    number, options = task
    begin = time.perf_counter()
    seed = 1 + number
    order = LOGGING[number % len(LOGGING)]
    env = world(number, options.queries, options.lists)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        dr.logs.generate(path, env, options.queries * options.lists, length=LENGTH, order=order, seed=seed)
        log = dr.logs.open_log(path)
        values, keep = truth(env, log, seed)
        advice = dr.advise(log, k=K, budget=options.budget, seed=seed)
    if advice.used < advice.lists:
        raise ValueError(f"budget={options.budget!r}: must suffice for all lists, or the truth is of other queries")
    best = max(values, key=lambda name: values[name])
    used = advice.policy or KEEP
    return {
        "number": number, "users": USERS[number % len(USERS)], "change": CHANGES[number % len(CHANGES)],
        "logging": order, "verdict": advice.verdict, "codes": [refusal.code for refusal in advice.refused],
        "trial": advice.trial, "models": [m.check.model for m in advice.models if m.gain is not None],
        "said": None if advice.gain is None else advice.gain.to_dict(),
        "true": values[advice.trial] - keep if advice.trial is not None else 0.0,
        "best": best, "lost": values[best] - values[used], "lost_by_trial": values[best] - values[advice.trial or KEEP],
        "values": values, "losers": len(advice.losers), "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    said = row["said"]
    gain = "–" if said is None else f"{said['value']:+.4f} ({said['low']:+.4f} to {said['high']:+.4f})"
    held = "–" if said is None else "yes" if said["low"] <= row["true"] <= said["high"] else "**no**"
    verdict = row["verdict"] if said is not None else f"refused: {', '.join(row['codes'])}"
    return (
        f"| {row['number']} | {row['users']} | {row['change']} | {row['logging']} | {verdict} | {row['trial']} |"
        f" {', '.join(row['models'])} | {gain} | {row['true']:+.4f} | {held} | {row['best']} | {row['lost']:.4f} |"
        f" {row['lost_by_trial']:.4f} | {row['seconds']:.0f} |"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    given = [row for row in rows if row["said"] is not None]
    fixed = [row for row in rows if row["logging"] == "sorted"]
    varied = [row for row in rows if row["logging"] != "sorted"]
    within = sum(row["lost"] <= CLOSE for row in given)
    held = sum(row["said"]["low"] <= row["true"] <= row["said"]["high"] for row in given)
    named = sum(row["lost_by_trial"] <= CLOSE for row in varied)
    refused = [row for row in varied if row["said"] is None]
    codes = sorted({code for row in refused for code in row["codes"]})
    return "\n".join(
        [
            f"{len(rows)} logs, {len(given)} with a number.",
            f"Advice within {CLOSE} of the best candidate: {within} of {len(given)}.",
            f"Interval holds the true gain: {held} of {len(given)}.",
            f"Fixed logging refused: {sum(row['said'] is None for row in fixed)} of {len(fixed)}.",
            f"Varied logging refused: {len(refused)} of {len(varied)} ({', '.join(codes) or 'none'}).",
            f"The policy named, with or without a number, within {CLOSE} of the best: {named} of {len(varied)}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--lists", type=int, default=1600, help="per query; the budget must suffice for all of them")
    parser.add_argument("--budget", default="1m")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    tasks = [(number, options) for number in range(options.first, options.first + options.logs)]
    print(
        "| | users | change | logging | verdict | policy | models | said gain | true gain | held | best | lost | ",
        end="",
    )
    print("lost by the policy | s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    # a fresh process for each log: DuckDB and the threads of kernels do not survive a fork
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=None) as pool:
        for row in pool.imap_unordered(trial, tasks):
            rows.append(row)
            print(line(row), flush=True)
    print(f"\n{summary(rows)}")
    if options.json:
        Path(options.json).write_text(json.dumps(sorted(rows, key=lambda row: row["number"]), indent=1), "utf-8")


if __name__ == "__main__":
    main()
