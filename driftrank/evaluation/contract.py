"""Checks that any estimator must pass: exact values by enumeration of small worlds, and sums that add up.

A world is all lists of K of L items, with the probability of every first click. Nothing is sampled: an estimator is
given each list with each outcome, weighted by its probability, and must return the target's value to rounding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from driftrank.evaluation.base import Batch, Estimator, Floats, MeanEstimator, prefix_weights, target_rest

_ALPHA = np.array([0.5, 0.3, 0.1, 0.22])
_LOGGING = np.array([1.0, 2.0, 0.5, 1.5])
#: hazards of the items, right and wrong
_HAZARDS = (_ALPHA, np.zeros(4), np.array([0.9, 0.05, 0.6, 0.3]))
_WORLDS = (
    ([0, 1], "cascade"), ([2, 0, 3], "cascade"), ([0, 1], "choice"), ([3, 1, 2], "choice"), ([2, 0, 3], "position"),
)  # fmt: skip
#: the users of whom an assumption holds
_HOLDS = {
    "A0": ("cascade", "choice", "position"), "A1": ("cascade", "position"), "A2": ("position",),
    "A3": ("cascade", "position"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _World:
    """Every list with every outcome."""

    chance: Floats  #: (n,)
    batch: Batch
    value: float  #: of the target


def check_estimator(estimator: Estimator) -> None:
    """Raise AssertionError unless an estimator keeps its contract.

    - Its value of the expected sums is the target's value, if its assumption about users holds: A1 for users who read
      from the top, A0 also for users who choose from the whole list, A2 for those whose clicks depend on the item and
      its position; whatever the hazards. One that needs no propensities (A3) is given the right model.
    - The numbers of a row of several lists are their sums, and values can be computed for many sums at once.

    >>> from driftrank.evaluation.estimators.prefix_ips import PrefixIPS
    >>> check_estimator(PrefixIPS())
    """
    name = type(estimator).__name__
    for ranking, users in _WORLDS:
        if users not in _HOLDS[estimator.assumes]:
            continue
        for hazards in _HAZARDS:
            world = _world(ranking, users, hazards)
            columns = estimator.columns(world.batch)
            assert columns.ndim == 2, f"{name}.columns: must have two dimensions"
            assert len(columns) == len(world.chance), f"{name}.columns: must have a row for every row of the batch"
            found = float(estimator.value(world.chance @ columns, np.array(1.0)))
            assert abs(found - world.value) < 1e-9, f"{name}: {found} instead of {world.value} ({users} users)"
            _check_sums(estimator, name, world, columns)


def _check_sums(estimator: Estimator, name: str, world: _World, columns: Floats) -> None:
    batch = world.batch
    assert batch.place is not None
    twice = dataclasses.replace(batch, weight=2 * batch.weight, place=2 * batch.place)
    assert np.allclose(estimator.columns(twice), 2 * columns), f"{name}.columns: must add up over the lists of a row"
    totals = world.chance @ columns
    several = estimator.value(np.stack([totals, 3 * totals]), np.array([1.0, 3.0]))
    assert several.shape == (2,), f"{name}.value: must return one value per sum"
    assert np.allclose(several, world.value), f"{name}.value: must not depend on the number of lists"
    if isinstance(estimator, MeanEstimator):
        assert columns.shape[1] == 1, f"{name}.columns: must be one number per list"


def _world(ranking: Sequence[int], users: str, hazards: Floats) -> _World:
    L, K = len(_ALPHA), len(ranking)
    lists = np.array(list(permutations(range(L), K)))
    weight = _LOGGING[lists]
    left = _LOGGING.sum() - (np.cumsum(weight, axis=1) - weight)
    propensities = weight / left
    clicks = _first_clicks(lists, users)
    outcomes = np.column_stack([clicks, 1 - clicks.sum(axis=1)])
    chance = (propensities.prod(axis=1)[:, None] * outcomes).ravel()
    rows = np.repeat(np.arange(len(lists)), K + 1)
    first = np.tile(np.arange(1, K + 2), len(lists))
    matched = np.cumprod(lists == ranking, axis=1).sum(axis=1)
    n = len(rows)
    hazard = np.tile(hazards[list(ranking)], (n, 1))
    whole = propensities.prod(axis=1)
    chances = [[whole[lists[:, k] == item].sum() for k in range(K)] for item in range(L)]  # of items at positions
    place = (lists == ranking) / np.array(chances)[lists, np.arange(K)]
    value = float(clicks[(lists == ranking).all(axis=1)].sum())
    batch = Batch(
        first=first,
        weight=prefix_weights(matched, np.full(len(lists), K), propensities)[rows],
        hazard=hazard,
        rest=target_rest(hazard),
        model=np.full(n, value),
        clicked=first[:, None] == np.arange(1, K + 1),
        place=place[rows],
    )
    return _World(chance, batch, value)


def _first_clicks(lists: np.ndarray, users: str) -> Floats:
    """(list, position) the chance of the first click."""
    alpha = _ALPHA[lists]
    if users == "choice":  # one item or none, by odds
        odds = alpha / (1 - alpha)
        share: Floats = odds / (1 + odds.sum(axis=1, keepdims=True))
        return share
    if users == "position":  # one click at most
        at: Floats = alpha / np.arange(2, 2 + alpha.shape[1])
        return at
    above = np.cumprod(np.column_stack([np.ones(len(alpha)), 1 - alpha]), axis=1)[:, :-1]
    chance: Floats = above * alpha
    return chance
