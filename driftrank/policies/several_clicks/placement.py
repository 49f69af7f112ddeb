"""Place the k-th best item at the position with the k-th largest weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, integers
from driftrank.policies.base import RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.validation import check_number


def ahead(weights: Sequence[float]) -> tuple[int, ...]:
    """For every position, the number of those above it with at least its weight.

    This suffices to place items that are sorted best first, for lists of any length.

    >>> ahead([0.9, 0.5, 0.1]), ahead([0.1, 0.5, 0.9])
    ((0, 1, 2), (0, 0, 0))
    """
    return tuple(sum(above >= weight for above in weights[:i]) for i, weight in enumerate(weights))


@cache
def placed(rank: Any) -> Any:
    """The kernel that places the items of a list that ``rank`` makes best first."""

    @kernel
    def place(p, s, e, c, r):
        rank(p, s, e, c, r)
        # the first i + 1 items, best first, are for positions 0 .. i; of these, ahead[i] count more than position i
        for i in range(r.items.shape[0] - 1, 0, -1):
            j = np.int64(s.ahead[i])
            a = r.items[j]
            u = r.score[j]
            while j < i:
                r.items[j] = r.items[j + 1]
                r.score[j] = r.score[j + 1]
                j += 1
            r.items[i] = a
            r.score[i] = u

    return place


class Placed(IndexPolicy):
    """Policies whose most important positions need not be at the top.

    A subclass defines the weights of positions by :meth:`weights`; it comes before the policy whose list is placed,
    ``class Mine(Placed, CascadeUCB1)``. State: K integers more.
    """

    abstract: ClassVar[bool] = True
    #: the weights determine the order
    order: ClassVar[str] = "decreasing"  # type: ignore[misc]

    def weights(self, K: int) -> Sequence[float]:
        """The weights of K positions; only their order matters."""
        raise NotImplementedError(f"{type(self).__name__} does not define weights")

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | {"order": 0}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | {"ahead": integers("K", fill=ahead(self.weights(p["K"])))}

    def kernels(self) -> PolicyKernels:
        own = super().kernels()
        return own._replace(rank=placed(own.rank))


def numbers_by_position(
    name: str, value: Any, option: str, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False
) -> Any:
    """A parameter that is the string ``option`` or has one number per position, as a tuple."""
    if isinstance(value, str) and value == option:
        return value
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(numbers, (list, tuple)) or not numbers:
        raise ValueError(f"{name}={value!r}: must be {option!r}, or a list of numbers, one for every position")
    for i, number in enumerate(numbers):
        check_number(f"{name}[{i}]", number, low, high, open_low=open_low)
    return tuple(float(number) for number in numbers)


def first_positions(name: str, numbers: tuple[float, ...], K: int) -> tuple[float, ...]:
    """The numbers of the first K positions."""
    if len(numbers) < K:
        raise ValueError(f"{name}={numbers!r}: must have a number for each of the k={K} positions")
    return numbers[:K]
