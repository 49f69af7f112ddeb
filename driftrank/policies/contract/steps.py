"""Parts that the checks of policies share: learners, their steps and their states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.contracts import require
from driftrank.policies.base import Policy
from driftrank.policies.contract.worlds import ITEMS, clicks_of
from driftrank.policies.learner.learner import Learner


def start(policy: Policy, items: Sequence[str] = ITEMS, k: int = 2, *, seed: int = 7, horizon: int = 1000) -> Learner:
    """A learner of the policy."""
    learner: Learner = policy.start(items, k, seed=seed, horizon=horizon, query="checks")
    return learner


def step(learner: Learner, user: Iterable[str]) -> list[Any]:
    """Rank once, and learn from what the user clicks."""
    ranking = learner.rank()
    learner.update(ranking, clicks_of(ranking, user))
    return ranking


def play(learner: Learner, crowd: Iterable[Iterable[str]]) -> None:
    """Rank and learn, for every user."""
    for user in crowd:
        step(learner, user)


def bits(values: NDArray[Any]) -> bytes:
    """The bits of an array."""
    return values.tobytes()


def state_bits(learner: Learner) -> tuple[bytes, bytes]:
    """The bits of the state."""
    return bits(learner._floats), bits(learner._ints)


def require_valid(ranking: Sequence[Any], allowed: Sequence[str], k: int) -> None:
    """Fail unless a list is of ``k`` distinct items that are allowed."""
    good = len(ranking) == k and len(set(ranking)) == k and set(ranking) <= set(allowed)
    require(good, f"the list {list(ranking)} is not {k} distinct items of {list(allowed)}")


def infinite_fields(learner: Learner) -> set[str]:
    """The fields with an infinite value."""
    views = learner.compiled.layout.views(learner._floats, learner._ints)
    return {name for name, values in views.items() if np.isinf(values).any()}


def require_finite(learner: Learner, infinite: set[str] | None = None) -> None:
    """Fail if the state has NaN, or infinity in fields other than ``infinite``: by default, as at the start."""
    if infinite is None:
        infinite = infinite_fields(start(learner.policy, horizon=learner.compiled.problem.horizon or 1000))
    views = learner.compiled.layout.views(learner._floats, learner._ints)
    for name, values in views.items():
        require(not np.isnan(values).any(), f"step {learner.steps}: {name} has NaN")
        if name not in infinite:
            require(not np.isinf(values).any(), f"step {learner.steps}: {name} has become infinite")
    for item, score in learner.scores().items():
        require(not math.isnan(score), f"step {learner.steps}: the score of {item!r} is NaN")


def guarded(learner: Learner, name: str) -> tuple[NDArray[Any], int]:
    """Surround a row of the state by numbers that must not change."""
    row, edge = getattr(learner, name), 64
    whole = np.full(len(row) + 2 * edge, 77, row.dtype)
    whole[edge : edge + len(row)] = row
    setattr(learner, name, whole[edge : edge + len(row)])
    return whole, edge
