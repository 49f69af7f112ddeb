"""OrderOnly: the best items stay the best, in a different order."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.order import next_best
from driftrank.kernels import kernel
from driftrank.validation import check_integer


class OrderOnly(QueryEnvironment):
    """The top k items exchange their attraction among each other, so that the best set stays the same.

    In epoch e = 0, 1, ... the i-th best item by default has the attraction of number i + e, cyclically. In the cascade
    model the order within the list does not affect the reward, so a policy gains nothing from a restart.

    Parameters
    ----------
    period
        Steps of an epoch.

    >>> env = OrderOnly([[0.8, 0.6, 0.2, 0.1]], k=3, period=100)
    >>> env.attraction(101).tolist(), env.attraction(201).tolist()
    ([0.6, 0.2, 0.8, 0.1], [0.2, 0.8, 0.6, 0.1])
    """

    kind: ClassVar[str] = "abrupt"

    period: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        epoch = (t - 1) // p.period
        shift = epoch % p.k
        source = -1
        for _ in range(shift):
            source = next_best(base, source)
        target = -1
        for i in range(p.k):
            target = next_best(base, target)
            source = next_best(base, source if i + shift != p.k else -1)
            alpha[target] = base[source]
        return (epoch + 1) * p.period + 1
