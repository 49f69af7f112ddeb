"""The choice of a candidate, and its gain measured on other queries than those that it was chosen on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.experiments.advice.candidates import Candidate
from driftrank.logs.generations import Floats

#: the candidates come in this order: what was shown, the present order, the default policy, others
_KEEP, _DEFAULT = 0, 2
#: another policy must beat the default by so many standard errors, and by this share of its value
_ERRORS, _SHARE = 2.0, 0.01


def choose(values: Sequence[Floats], lists: Floats, chosen: Sequence[Candidate]) -> int:
    """The index of the best candidate beside what was shown, by values (candidate, query) in every plausible world.

    That is the default policy, unless another beats it in every world by more than two standard errors over queries and
    1% of its value. Among several it is the one with the largest gain in its worst world, or a simpler one within a
    standard error.
    """
    better = [
        c
        for c in range(len(chosen))
        if c not in (_KEEP, _DEFAULT) and all(_beats(own[c], own[_DEFAULT], lists) for own in values)
    ]
    if not better:
        return _DEFAULT
    first = max(better, key=lambda c: smallest_gain(values, lists, c))
    close = [c for c in better if all(_within(own[c], own[first], lists) for own in values)]
    return min(close, key=lambda c: (chosen[c].parameters, -smallest_gain(values, lists, c)))


def smallest_gain(values: Sequence[Floats], lists: Floats, c: int) -> float:
    """The gain over what was shown in the world where it is smallest."""
    return min(weighted(own[c] - own[_KEEP], lists)[0] for own in values)


def halves(queries: Sequence[Any]) -> NDArray[np.bool_]:
    """True for half of the queries, whatever their order."""
    digests = [hashlib.blake2b(str(query).encode(), digest_size=8).digest() for query in queries]
    side = np.zeros(len(queries), bool)
    side[sorted(range(len(queries)), key=lambda q: digests[q])[::2]] = True
    return side


def crossed(
    values: Sequence[Floats], lists: Floats, chosen: Sequence[Candidate], side: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """By query, the candidate that is chosen on the other half of the queries."""
    if len(lists) < 2:
        return np.full(len(lists), choose(values, lists, chosen))
    picked = [choose([own[:, half] for own in values], lists[half], chosen) for half in (side, ~side)]
    return np.where(side, picked[1], picked[0])


def gain_of(values: Floats, lists: Floats, picked: NDArray[np.int64]) -> float:
    """The gain over what was shown if every query has the candidate that is picked for it."""
    return weighted(values[picked, np.arange(len(lists))] - values[_KEEP], lists)[0]


def weighted(differences: Floats, lists: Floats) -> tuple[float, float]:
    """The mean over lists, and its standard error over queries."""
    share = lists / lists.sum()
    mean = float(share @ differences)
    n = len(lists)
    spread = float((share**2 * (differences - mean) ** 2).sum())
    return mean, math.sqrt(spread * n / (n - 1)) if n > 1 else math.inf


def _beats(own: Floats, default: Floats, lists: Floats) -> bool:
    mean, error = weighted(own - default, lists)
    return mean > _ERRORS * error and mean > _SHARE * weighted(default, lists)[0]


def _within(own: Floats, first: Floats, lists: Floats) -> bool:
    mean, error = weighted(first - own, lists)
    return mean <= error
