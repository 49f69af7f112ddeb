"""Logs whose every probability is known: two queries, six items, three positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

L, K = 6, 3
QUERIES = ("lamps", "shoes")
SHARES = (0.7, 0.3)
ALPHA = np.array([[0.40, 0.30, 0.22, 0.15, 0.08, 0.04], [0.05, 0.10, 0.10, 0.25, 0.15, 0.35]])
CHANGED = np.array([[0.04, 0.30, 0.08, 0.15, 0.50, 0.40], [0.30, 0.10, 0.20, 0.05, 0.15, 0.10]])
BEST = {"lamps": [0, 1, 2], "shoes": [5, 3, 4]}
PRODUCTION = ((1, 0, 3), (3, 5, 4))
LISTS = np.array(list(permutations(range(L), K)))

Users = Callable[[np.ndarray], np.ndarray]  #: attraction to (list, position): the chance of a first click there


def cascade(alpha: np.ndarray) -> np.ndarray:
    a = alpha[LISTS]
    above = np.cumprod(np.column_stack([np.ones(len(a)), 1 - a]), axis=1)[:, :-1]
    return above * a


def mixed(alpha: np.ndarray) -> np.ndarray:
    """Half of the users find everything 1.6 times as attractive, half .4 times."""
    return (cascade(np.minimum(1.6 * alpha, 0.98)) + cascade(0.4 * alpha)) / 2


def choice(alpha: np.ndarray) -> np.ndarray:
    """Users who read the whole list, and then choose one item or none."""
    u = (alpha / (1 - alpha))[LISTS]
    return u / (1 + u.sum(axis=1, keepdims=True))


def conditional(scores: np.ndarray) -> np.ndarray:
    """(list, position) propensities of Plackett-Luce."""
    w = scores[LISTS]
    left = scores.sum() - np.column_stack([np.zeros(len(w)), np.cumsum(w, axis=1)[:, :-1]])
    return w / left


def uniform(query: int) -> np.ndarray:
    return conditional(np.ones(L))


def softmax(query: int) -> np.ndarray:
    return conditional(np.exp(ALPHA[query] / (0.15, 0.10)[query]))


def fixed(query: int) -> np.ndarray:
    prefix = np.cumprod(PRODUCTION[query] == LISTS, axis=1).astype(float)
    return prefix


def tenth(query: int) -> np.ndarray:
    """A tenth of the lists uniform, the others fixed: by prefix, those of the mixture."""
    prefixes = 0.9 * fixed(query) + 0.1 * np.cumprod(uniform(query), axis=1)
    return prefixes / np.column_stack([np.ones(len(prefixes)), prefixes[:, :-1]])


def value(users: Users = cascade, alpha: np.ndarray = ALPHA, ranking: dict[str, list[int]] = BEST) -> float:
    """The value of a list per query."""
    total = 0.0
    for share, query, a in zip(SHARES, QUERIES, alpha, strict=True):
        at = int((ranking[query] == LISTS).all(axis=1).argmax())
        total += share * float(users(a)[at].sum())
    return total


class Drawn(NamedTuple):
    query: np.ndarray
    number: np.ndarray  #: of the list
    first: np.ndarray
    propensities: np.ndarray


def draw(
    rng: np.random.Generator, n: int, logging: Callable[[int], np.ndarray], users: Users = cascade,
    change: int | None = None,
) -> Drawn:  # fmt: skip
    query = (rng.random(n) >= SHARES[0]).astype(int)
    number, first = np.zeros(n, int), np.zeros(n, int)
    p = np.zeros((n, K))
    late = np.arange(n) >= (n if change is None else change)
    for q in range(2):
        chances = logging(q)
        for alpha, when in ((ALPHA, ~late), (CHANGED, late)):
            rows = np.flatnonzero((query == q) & when)
            number[rows] = rng.choice(len(LISTS), len(rows), p=chances.prod(axis=1))
            clicks = np.cumsum(users(alpha[q]), axis=1)[number[rows]]
            first[rows] = 1 + (clicks <= rng.random(len(rows))[:, None]).sum(axis=1)
            p[rows] = chances[number[rows]]
    return Drawn(query, number, first, p)


def marginal(drawn: Drawn, logging: Callable[[int], np.ndarray]) -> np.ndarray:
    """(list, position) the probabilities of the items at their positions, whatever is above."""
    chances = [
        [np.bincount(LISTS[:, k], logging(query).prod(axis=1), L) for k in range(K)] for query in range(len(QUERIES))
    ]
    found: np.ndarray = np.array(chances)[drawn.query[:, None], np.arange(K), LISTS[drawn.number]]
    return found


def write(path: Path, drawn: Drawn, users: Sequence[int] | np.ndarray | None = None, **columns: Any) -> Path:
    """A log; ``columns`` replace or, if None, remove some."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = len(drawn.first)
    made: dict[str, Any] = {
        "query": pa.array(np.array(QUERIES)[drawn.query]),
        "time": pa.array(np.arange(n)),
        "ranking": pa.array(LISTS[drawn.number].tolist(), pa.list_(pa.int64())),
        "clicks": pa.array([[f] if f <= K else [] for f in drawn.first.tolist()], pa.list_(pa.int16())),
        "propensities": pa.array(drawn.propensities.tolist(), pa.list_(pa.float64())),
        "user": pa.array(np.arange(n) if users is None else np.asarray(users)),
    } | columns
    pq.write_table(pa.table({name: column for name, column in made.items() if column is not None}), path)
    return path
