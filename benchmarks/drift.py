"""False changes and power of the search for changes in a log, by users and shown orders.

    python benchmarks/drift.py --queries 500

Queries of ten items and 4,000 lists (attraction: logistic of a normal number, mean -2, s.d. 1.2). The shown order
changes; in every second table the attraction of three items is exchanged after 2,000 lists as well. Orders:

* ``once``: one order, another one after 2,000 lists, as in a log whose ranker was replaced once
* ``once, swaps``: the same, and neighbours are exchanged at random in every list
* ``retrained``: a new order every 250 lists
* ``drifting``: an order by noisy scores that change in every list, and whose mean changes after 2,000 lists
* ``shuffled``: all orders are equally likely
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.ubm import YANDEX
from driftrank.logs.changes import QueryDrift, find_changes
from driftrank.logs.query_lists import QueryLists

ITEMS, LISTS, HALF = 10, 4000, 2000
EXAMINATION = np.array([1, 0.67, 0.55, 0.46, 0.34, 0.29, 0.27, 0.21, 0.22, 0.2])
#: by rank and rank of the last click above; without one first
BROWSING = np.roll(np.array(YANDEX), 1, axis=1)

Orders = NDArray[np.int64]
#: (attraction by list and rank, random numbers) -> clicks
Users = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.bool_]]


def position_based(alpha: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    clicks: NDArray[np.bool_] = rng.random(alpha.shape) < EXAMINATION * alpha
    return clicks


def browsing(alpha: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    clicks, last = np.zeros(alpha.shape, bool), np.zeros(len(alpha), int)
    for k in range(ITEMS):
        clicks[:, k] = rng.random(len(alpha)) < BROWSING[k][last] * alpha[:, k]
        last[clicks[:, k]] = k + 1
    return clicks


def reading(satisfied: float, going_on: float) -> Users:
    """Users who read from the top; CM: (1, 1), DBN: satisfied with this probability after a click."""

    def users(alpha: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
        clicks, there = np.zeros(alpha.shape, bool), np.ones(len(alpha), bool)
        for k in range(ITEMS):
            clicks[:, k] = there & (rng.random(len(alpha)) < alpha[:, k])
            there &= ~(clicks[:, k] & (rng.random(len(alpha)) < satisfied)) & (rng.random(len(alpha)) < going_on)
        return clicks

    return users


def chained(alpha: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """CCM: they go on with 0.9 after a skip, and after a click less often the more attractive the item."""
    clicks, there = np.zeros(alpha.shape, bool), np.ones(len(alpha), bool)
    for k in range(ITEMS):
        clicks[:, k] = there & (rng.random(len(alpha)) < alpha[:, k])
        after_click = np.where(rng.random(len(alpha)) < alpha[:, k], 0.4, 0.8)
        there &= rng.random(len(alpha)) < np.where(clicks[:, k], after_click, 0.9)
    return clicks


USERS: dict[str, Users] = {
    "PBM": position_based, "UBM": browsing, "CM": reading(1.0, 1.0), "DCM, 0.6": reading(0.6, 1.0),
    "SDBN, 0.3": reading(0.3, 1.0), "DBN, 0.9": reading(0.5, 0.9), "CCM": chained,
}  # fmt: skip


def once(rng: np.random.Generator) -> Orders:
    return np.repeat([rng.permutation(ITEMS), rng.permutation(ITEMS)], HALF, axis=0)


def once_swaps(rng: np.random.Generator) -> Orders:
    orders = once(rng).copy()
    for row in orders:
        for k in np.flatnonzero(rng.random(ITEMS - 1) < 0.2):
            row[[k, k + 1]] = row[[k + 1, k]]
    return orders


def retrained(rng: np.random.Generator) -> Orders:
    return np.repeat([rng.permutation(ITEMS) for _ in range(LISTS // 250)], 250, axis=0)


def drifting(rng: np.random.Generator) -> Orders:
    scores = np.repeat(rng.normal(size=(2, ITEMS)), HALF, axis=0)
    return np.argsort(scores + rng.normal(size=(LISTS, ITEMS)), axis=1)


def shuffled(rng: np.random.Generator) -> Orders:
    return np.argsort(rng.random((LISTS, ITEMS)), axis=1)


ORDERS: dict[str, Callable[[np.random.Generator], Orders]] = {
    "once": once, "once, swaps": once_swaps, "retrained": retrained, "drifting": drifting, "shuffled": shuffled,
}  # fmt: skip


def lists_of_query(name: str, users: Users, orders: Orders, changes: bool, rng: np.random.Generator) -> QueryLists:
    alpha = 1 / (1 + np.exp(-rng.normal(-2, 1.2, ITEMS)))
    after = alpha.copy()
    if changes:
        three = rng.choice(ITEMS, 3, replace=False)
        after[three] = alpha[np.roll(three, 1)]
    of_list = np.repeat([alpha, after], HALF, axis=0)
    clicks = users(np.take_along_axis(of_list, orders, axis=1), rng)
    numbers = np.arange(1, LISTS + 1)
    return QueryLists(
        name, numbers.tolist(), np.arange(ITEMS), orders.ravel(), np.repeat(numbers, ITEMS),
        np.tile(np.arange(1, ITEMS + 1), LISTS), clicks.ravel(),
    )  # fmt: skip


def found(users: Users, order: str, changes: bool, queries: int, seed: int, delta: float) -> list[QueryDrift]:
    rng = np.random.default_rng([seed, 20261118])
    logs = [lists_of_query(f"q{q}", users, ORDERS[order](rng), changes, rng) for q in range(queries)]
    return find_changes(lambda: iter(logs), delta=delta)


def share(found: int, n: int) -> str:
    """A share with its 95% interval (Wilson, 1927)."""
    z2 = 1.96**2
    middle = (found + z2 / 2) / (n + z2)
    width = 1.96 * math.sqrt(found * (n - found) / n + z2 / 4) / (n + z2)
    return f"{found / n:.1%} ({max(middle - width, 0):.1%}-{min(middle + width, 1):.1%})"


def compare(queries: int, delta: float, only: list[str]) -> None:
    """Print the table of these users."""
    print(f"{queries} queries, delta={delta}")
    print("| users | order | false change | refused | change found | within 40 lists | refused |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, users in ((name, USERS[name]) for name in only):
        for order in ORDERS:
            nothing = found(users, order, False, queries, 1, delta)
            something = found(users, order, True, queries, 2, delta)
            near = [any(abs(c.after - HALF) <= 40 for c in f.changes) for f in something]
            numbers = (
                sum(bool(f.changes) for f in nothing), sum(bool(f.confounded) for f in nothing),
                sum(bool(f.changes) for f in something), sum(near), sum(bool(f.confounded) for f in something),
            )  # fmt: skip
            print(f"| {name} | {order} | {' | '.join(share(x, queries) for x in numbers)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--delta", type=float, default=0.01)
    parser.add_argument("--users", action="append", choices=USERS, help="only these; may be repeated")
    options = parser.parse_args()
    compare(options.queries, options.delta, options.users or list(USERS))


if __name__ == "__main__":
    main()
