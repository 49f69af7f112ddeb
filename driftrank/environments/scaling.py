"""Scaling: all attraction changes by one factor; the best list does not."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.kernels import kernel
from driftrank.validation import check_integer, check_number


class Scaling(QueryEnvironment):
    """Every second epoch, all items are less attractive by the same factor; the best list stays the same.

    A policy that detects changes will detect these, but gains nothing from a restart.

    Parameters
    ----------
    period
        Steps of an epoch; the first has the default attraction.
    factor
        Factor of the attraction.

    >>> env = Scaling([[0.8, 0.6, 0.2, 0.1]], k=2, period=100, factor=0.5)
    >>> env.attraction(101).tolist(), env.best(101) == env.best(1)
    ([0.4, 0.3, 0.1, 0.05], True)
    """

    kind: ClassVar[str] = "abrupt"

    period: int = 10_000
    factor: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)
        check_number("factor", self.factor, 0, 1, open_low=True)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        epoch = (t - 1) // p.period
        factor = p.factor if epoch % 2 == 1 else 1.0
        for a in range(base.shape[0]):
            alpha[a] = factor * base[a]
        return (epoch + 1) * p.period + 1
