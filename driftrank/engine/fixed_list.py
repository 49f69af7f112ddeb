"""The best fixed list, which the static oracle shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from math import comb, perm

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import CM
from driftrank.engine.templates import fixed_value
from driftrank.environments.base import Environment
from driftrank.kernels.compile import specialise

#: up to this many lists are enumerated
ENUMERATE = 20_000

#: the value of a list
Value = Callable[[tuple[int, ...]], float]


def best_fixed_list(
    environment: Environment, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0
) -> NDArray[np.int32]:
    """The list R with the largest sum over the steps of r(R, alpha_t).

    Sorting does not find it. If there are few lists, all are enumerated; otherwise the list is built greedily and then
    improved by exchanging single items until no exchange helps. In the cascade model the order does not matter, so sets
    are enumerated.
    """
    starts, alphas, _ = environment.stretches(horizon, query, run, seed)
    weight = np.diff(np.append(starts, horizon + 1)).astype(float)
    L, K = alphas.shape[1], environment.k
    if isinstance(environment.users(query), CM):
        chosen = _cascade(alphas, weight, K)
        order = np.argsort(-(weight @ alphas)[list(chosen)], kind="stable")
        return np.array(chosen, np.int32)[order]
    value = _value(environment, query, alphas, weight)
    if perm(L, K) <= ENUMERATE:
        return np.array(max(permutations(range(L), K), key=value), np.int32)
    return np.array(_exchanged(value, _greedy(value, L, K), L, ordered=True), np.int32)


def _cascade(alphas: NDArray[np.float64], weight: NDArray[np.float64], K: int) -> tuple[int, ...]:
    """The best set in the cascade model."""
    missed, L = 1.0 - alphas, alphas.shape[1]

    def value(items: tuple[int, ...]) -> float:
        return float(weight @ (1.0 - missed[:, items].prod(axis=1)))

    if comb(L, K) <= ENUMERATE:
        return max(combinations(range(L), K), key=value)
    return _exchanged(value, _greedy(value, L, K), L, ordered=False)


def _value(
    environment: Environment, query: str | int, alphas: NDArray[np.float64], weight: NDArray[np.float64]
) -> Value:
    """The total value of a list, by the click model of the environment."""
    model = environment.users(query)
    L, K = alphas.shape[1], environment.k
    m, work = model.row(L, K), np.zeros(model.work_size(L, K))
    total = specialise(fixed_value, {"VALUE": model.kernels().value})
    return lambda items: float(total(m, alphas, weight, np.array(items, np.uint32), work))


def _greedy(value: Value, L: int, K: int) -> tuple[int, ...]:
    chosen: tuple[int, ...] = ()
    for _ in range(K):
        chosen += (max((a for a in range(L) if a not in chosen), key=lambda a: value((*chosen, a))),)
    return chosen


def _exchanged(value: Value, chosen: tuple[int, ...], L: int, ordered: bool) -> tuple[int, ...]:
    """Replace single items and, if the order matters, swap pairs, as long as that helps."""
    while True:
        others = [(*chosen[:i], a, *chosen[i + 1 :]) for i in range(len(chosen)) for a in range(L) if a not in chosen]
        if ordered:
            for i, j in combinations(range(len(chosen)), 2):
                swapped = list(chosen)
                swapped[i], swapped[j] = chosen[j], chosen[i]
                others.append(tuple(swapped))
        better = max(others, key=value, default=chosen)
        if value(better) <= value(chosen) + 1e-12:
            return chosen
        chosen = better
