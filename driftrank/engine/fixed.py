"""The best list that never changes: what a static oracle shows."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import Environment

#: up to this many sets are tried one by one
ENUMERATE = 20_000


def best_fixed_list(
    environment: Environment, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0
) -> NDArray[np.int32]:
    """The list R with the largest sum over the steps of r(R, alpha_t), in the cascade model's reward.

    That is no matter of sorting. Where there are few sets all are tried; else the list is built greedily and then
    improved by exchanging single items until no exchange helps.
    """
    starts, alphas, _ = environment.stretches(horizon, query, run, seed)
    weight = np.diff(np.append(starts, horizon + 1)).astype(float)
    missed = 1.0 - alphas
    L, K = alphas.shape[1], environment.k

    def value(items: tuple[int, ...]) -> float:
        return float(weight @ (1.0 - missed[:, items].prod(axis=1)))

    if comb(L, K) <= ENUMERATE:
        best = max(combinations(range(L), K), key=value)
    else:
        best = _exchanged(value, _greedy(value, L, K), L)
    order = np.argsort(-(weight @ alphas)[list(best)], kind="stable")
    return np.array(best, np.int32)[order]


def _greedy(value, L: int, K: int) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    chosen: tuple[int, ...] = ()
    for _ in range(K):
        chosen += (max((a for a in range(L) if a not in chosen), key=lambda a: value((*chosen, a))),)
    return chosen


def _exchanged(value, chosen: tuple[int, ...], L: int) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    while True:
        swaps = [(*chosen[:i], a, *chosen[i + 1 :]) for i in range(len(chosen)) for a in range(L) if a not in chosen]
        better = max(swaps, key=value, default=chosen)
        if value(better) <= value(chosen) + 1e-12:
            return chosen
        chosen = better
