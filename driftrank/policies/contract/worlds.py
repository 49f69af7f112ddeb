"""Small worlds of cascade users for the checks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: the items: strings, so that their randomness is keyed on text
ITEMS = ("ant", "bee", "cat", "dog", "elk", "fox")


def _stationary(seed: int) -> tuple[NDArray[np.float64], int]:
    """Attraction by step and item, and the step from which a policy is judged: here half the steps."""
    alpha = np.random.default_rng(seed).permutation([0.8, 0.6, 0.2, 0.1, 0.1, 0.05])
    return np.tile(alpha, (3000, 1)), 1500


def _abrupt(seed: int) -> tuple[NDArray[np.float64], int]:
    """Two changes in which the best items become the worst; judged from the first change."""
    alpha = np.array([0.8, 0.6, 0.15, 0.1, 0.05, 0.05])
    segments = [np.tile(np.roll(alpha, 2 * n), (1500, 1)) for n in range(3)]
    return np.concatenate(segments)[:, np.random.default_rng(seed).permutation(6)], 1500


def _drift(seed: int) -> tuple[NDArray[np.float64], int]:
    """Every item rises and falls in turn."""
    phase = np.random.default_rng(seed).permutation(6) / 6
    return 0.45 + 0.4 * np.cos(2 * np.pi * (np.arange(4000)[:, None] // 20 / 100 + phase)), 0


#: the kinds of world that a policy may claim
WORLDS: dict[str, Callable[[int], tuple[NDArray[np.float64], int]]] = {
    "stationary": _stationary,
    "abrupt": _abrupt,
    "drift": _drift,
}


def worth(alpha: NDArray[np.float64]) -> float:
    """The probability of a click in the cascade model."""
    return 1.0 - float(np.prod(1.0 - alpha))


@functools.lru_cache(maxsize=16)
def random_and_best(alpha: tuple[float, ...], k: int) -> tuple[float, float]:
    """The worth of a random list and of the best one."""
    lists = [worth(np.array(chosen)) for chosen in itertools.combinations(alpha, k)]
    return sum(lists) / len(lists), max(lists)


def users(steps: int, attraction: Mapping[str, float] | None = None, seed: int = 0) -> list[frozenset[str]]:
    """For every step, the items that attract its user."""
    alpha = attraction or dict(zip((*ITEMS, "yak"), (0.1, 0.7, 0.2, 0.5, 0.05, 0.3, 0.6), strict=True))
    draws = np.random.default_rng(seed).random((steps, len(alpha)))
    return [frozenset(item for item, u in zip(alpha, row, strict=True) if u < alpha[item]) for row in draws]


def clicks_of(ranking: Sequence[Any], user: Iterable[str]) -> list[int]:
    """The clicks of a user who clicks the first attractive item and leaves."""
    vector = [0] * len(ranking)
    first = next((i for i, item in enumerate(ranking) if item in user), None)
    if first is not None:
        vector[first] = 1
    return vector
