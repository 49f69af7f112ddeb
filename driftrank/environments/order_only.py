"""OrderOnly: the best items stay the best, in another order."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.order import next_best
from driftrank.kernels import kernel
from driftrank.validation import check_integer


class OrderOnly(QueryEnvironment):
    """The top k items exchange their attraction among each other, so that the best set stays what it is.

    In epoch e = 0, 1, ... the i-th best item by default has the value of number i + e, in a circle. In the
    cascade model the order within the list does not matter for the reward, so that a policy has nothing to gain from
    starting anew.

    Parameters
    ----------
    period
        How long an epoch lasts.

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
        giver = -1
        for _ in range(shift):
            giver = next_best(base, giver)
        taker = -1
        for i in range(p.k):
            taker = next_best(base, taker)
            giver = next_best(base, giver if i + shift != p.k else -1)
            alpha[taker] = base[giver]
        return (epoch + 1) * p.period + 1
