"""Better items at positions that count more: the k-th best item at the position with the k-th largest weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.tuples import Field, integers
from driftrank.policies.base import IndexPolicy, Problem
from driftrank.validation import check_number


def ahead(weights: Sequence[float]) -> tuple[int, ...]:
    """For every position, how many of those above it have at least its weight.

    With the items sorted best first, this is all it takes to place them, whatever the length of the list.

    >>> ahead([0.9, 0.5, 0.1]), ahead([0.1, 0.5, 0.9])
    ((0, 1, 2), (0, 0, 0))
    """
    return tuple(sum(above >= weight for above in weights[:i]) for i, weight in enumerate(weights))


def placed(rank: Any) -> Any:
    """The kernel that puts the items of a list, which ``rank`` makes with the best first, at their positions."""

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

    pure(place).placed = True
    pure(place).made = getattr(pure(rank), "made", False)  # where it is made anew, this is as well
    return place


class Placed(IndexPolicy):
    """Policies that show their items, the K best, at positions that do not count less the further down they are.

    A subclass says by :meth:`weights` how much positions count; it comes before the policy whose list is to be placed,
    ``class Mine(Placed, CascadeUCB1)``. State: K integers more.
    """

    abstract: ClassVar[bool] = True
    #: where items stand is up to the weights
    order: ClassVar[str] = "decreasing"  # type: ignore[misc]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        rank = getattr(cls, "rank", None)
        if rank is not None and not getattr(pure(rank), "placed", False):
            cls.rank = staticmethod(placed(rank))

    def weights(self, K: int) -> Sequence[float]:
        """How much each of K positions counts; only their order matters."""
        raise NotImplementedError(f"{type(self).__name__} does not say which positions count more")

    def parameters(self, problem: Problem) -> dict[str, float]:
        return super().parameters(problem) | {"order": 0}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | {"ahead": integers("K", fill=ahead(self.weights(p["K"])))}


def numbers_by_position(
    name: str, value: Any, word: str, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False
) -> Any:
    """A parameter that is ``word`` or has one number per position, as a tuple."""
    if isinstance(value, str) and value == word:
        return value
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(numbers, (list, tuple)) or not numbers:
        raise ValueError(f"{name}={value!r}: must be {word!r}, or a list of numbers, one for every position")
    for i, number in enumerate(numbers):
        check_number(f"{name}[{i}]", number, low, high, open_low=open_low)
    return tuple(float(number) for number in numbers)


def first_positions(name: str, numbers: tuple[float, ...], K: int) -> tuple[float, ...]:
    """The numbers of the first K positions."""
    if len(numbers) < K:
        raise ValueError(f"{name}={numbers!r}: must have a number for each of the k={K} positions")
    return numbers[:K]
