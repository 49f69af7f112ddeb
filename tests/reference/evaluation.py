"""Off-policy estimators list by list, written from the formulas: no arrays, and no code shared with the product.

A logged list is ``(items, first click or None, propensities)``. A target is a function that gives the conditional
probability of the next item, ``target(prefix, item)``; a model is a function that gives the chance of a click.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple


class Logged(NamedTuple):
    items: tuple[int, ...]
    first: int | None
    propensities: tuple[float, ...]


Target = Callable[[tuple[int, ...], int], float]
Model = Callable[[int], float]


def weights(row: Logged, target: Target) -> list[float]:
    """W_0, ..., W_K."""
    out = [1.0]
    for k, item in enumerate(row.items):
        out.append(out[-1] * target(row.items[:k], item) / row.propensities[k])
    return out


def no_click_below(prefix: tuple[int, ...], K: int, items: Sequence[int], target: Target, model: Model) -> float:
    """The chance that the target's list gets no click below a prefix."""
    if len(prefix) == K:
        return 1.0
    total = 0.0
    for a in items:
        if a not in prefix and (e := target(prefix, a)) > 0:
            total += e * (1 - model(a)) * no_click_below((*prefix, a), K, items, target, model)
    return total


def list_ips(row: Logged, target: Target) -> float:
    return weights(row, target)[-1] if row.first is not None else 0.0


def prefix_ips(row: Logged, target: Target) -> float:
    return weights(row, target)[row.first] if row.first is not None else 0.0


def at_position(items: Sequence[int], K: int, k: int, item: int, policy: Target) -> float:
    """The probability that an item stands at position k, whatever is above."""
    return sum(probability(a, policy) for a in permutations(items, K) if a[k - 1] == item)


def item_position_ips(row: Logged, items: Sequence[int], target: Target, logging: Target) -> float:
    if row.first is None:
        return 0.0
    K, item = len(row.items), row.items[row.first - 1]
    return at_position(items, K, row.first, item, target) / at_position(items, K, row.first, item, logging)


def stopping_dr(row: Logged, items: Sequence[int], target: Target, model: Model) -> float:
    K = len(row.items)
    w = weights(row, target)
    psi = 1 - no_click_below((), K, items, target, model)
    for k in range(1, K + 1):
        click = 1 if row.first == k else 0
        below = no_click_below(row.items[:k], K, items, target, model)
        psi += w[k] * (click - model(row.items[k - 1])) * below
        if click:
            break
    return psi


def published_dr(row: Logged, items: Sequence[int], target: Target, model: Model) -> float:
    K = len(row.items)
    w = weights(row, target)
    psi = 0.0
    for k in range(1, K + 1):
        above = math.prod(1 - model(a) for a in row.items[: k - 1])

        def chance(prefix: tuple[int, ...], above: float = above) -> float:
            """A first click at the last item of the prefix or below it."""
            h = model(prefix[-1])
            return above * (h + (1 - h) * (1 - no_click_below(prefix, K, items, target, model)))

        shown, before = row.items[:k], row.items[: k - 1]
        expected = sum(target(before, a) * chance((*before, a)) for a in items if a not in before)
        psi += w[k] * ((row.first == k) - chance(shown)) + w[k - 1] * expected
    return psi


def product_limit(rows: Sequence[Logged], target: Target) -> float:
    K = len(rows[0].items)
    survive = 1.0
    for k in range(1, K + 1):
        at_risk = [weights(row, target)[k] for row in rows if row.first is None or row.first >= k]
        clicks = [weights(row, target)[k] for row in rows if row.first == k]
        survive *= 1 - sum(clicks) / sum(at_risk)
    return 1 - survive


def direct(rows: Sequence[Logged], ranking: Sequence[int]) -> float:
    """The cascade model with one attraction per item: clicks over looks."""
    value = 1.0
    for item in ranking:
        looks = clicks = 0
        for row in rows:
            for k, shown in enumerate(row.items, 1):
                if row.first is not None and k > row.first:
                    break
                if shown == item:
                    looks += 1
                    clicks += row.first == k
        value *= 1 - clicks / looks
    return 1 - value


def jackknife_error(values: Sequence[float]) -> float:
    """The standard error from values that leave out one bucket each."""
    n = len(values)
    mean = sum(values) / n
    return math.sqrt((n - 1) / n * sum((v - mean) ** 2 for v in values))


class World:
    """All lists of K of L items with the probability of each first click: everything about it is exact."""

    def __init__(self, L: int, K: int, users: Callable[[tuple[int, ...]], list[float]]) -> None:
        self.items, self.K = range(L), K
        self.lists = list(permutations(range(L), K))
        self.users = users  #: chances of a first click at 1, ..., K of a list

    def value(self, target: Target) -> float:
        return sum(probability(a, target) * sum(self.users(a)) for a in self.lists)

    def outcomes(self, logging: Target) -> Iterator[tuple[float, Logged]]:
        """Every list and first click that may be logged, with its probability."""
        for a in self.lists:
            p = tuple(logging(a[:k], item) for k, item in enumerate(a))
            clicks = self.users(a)
            for first, chance in [*enumerate(clicks, 1), (None, 1 - sum(clicks))]:
                if math.prod(p) * chance > 0:
                    yield math.prod(p) * chance, Logged(a, first, p)


def probability(items: tuple[int, ...], policy: Target) -> float:
    return math.prod(policy(items[:k], item) for k, item in enumerate(items))


def plackett_luce(scores: Sequence[float]) -> Target:
    """Positions are filled from the top, with chances in proportion to the scores of the items that are left."""
    return lambda prefix, item: scores[item] / sum(s for a, s in enumerate(scores) if a not in prefix)


def fixed(ranking: Sequence[int]) -> Target:
    return lambda prefix, item: float(item == ranking[len(prefix)])


def cascade(alpha: Sequence[float]) -> Callable[[tuple[int, ...]], list[float]]:
    """Users who click the first item that attracts them."""
    return lambda a: [alpha[item] * math.prod(1 - alpha[b] for b in a[:k]) for k, item in enumerate(a)]


def choice(alpha: Sequence[float]) -> Callable[[tuple[int, ...]], list[float]]:
    """Users who read the whole list, and then choose one item or none: they do not read from the top."""
    u = [x / (1 - x) for x in alpha]
    return lambda a: [u[item] / (1 + sum(u[b] for b in a)) for item in a]


def position_based(alpha: Sequence[float]) -> Callable[[tuple[int, ...]], list[float]]:
    """Users who click an item by its attraction and position, once at most."""
    return lambda a: [alpha[item] / (k + 2) for k, item in enumerate(a)]


def log_mixture(s: float, v: float, steps: int = 200_000) -> float:
    """The gamma-exponential mixture by numerical integration.

    The wealth against lambda in [0, 1) is exp(lambda s - v (-ln(1 - lambda) - lambda)); lambda is mixed so that
    1 - lambda has the gamma density with shape and rate 1, cut to (0, 1].
    """
    total = weight = 0.0
    for i in range(steps):
        x = (i + 0.5) / steps  # 1 - lambda
        total += math.exp((1 - x) * s + v * (math.log(x) + (1 - x)) - x)
        weight += math.exp(-x)
    return math.log(total / weight)
