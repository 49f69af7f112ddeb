"""LowerBound: the instance of theorem 3."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import NEVER, Environment
from driftrank.kernels import kernel
from driftrank.queries import Queries
from driftrank.validation import check_integer, check_number


class LowerBound(Environment):
    """The problem B_L of theorem 3: attraction is p or p - delta, and changes twice.

    Half of the L items are optimal at any time, K = L/2. After ``period`` steps, ``exchanged`` of the optimal items
    swap attraction with as many others, and after another ``period`` steps they swap back.

    >>> LowerBound(L=4, p=0.2, delta=0.1, period=100).attraction(101).round(3).tolist()
    [0.1, 0.2, 0.2, 0.1]
    """

    kind: ClassVar[str] = "abrupt"

    L: int = 10
    p: float = 0.2
    delta: float = 0.1
    period: int = 33_333
    exchanged: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("L", self.L, 2)
        if self.L % 2:
            raise ValueError(f"L={self.L!r}: must be even, since half of the items are optimal")
        check_number("p", self.p, 0, 1, open_low=True)
        check_number("delta", self.delta, 0, self.p, open_low=True)
        check_integer("period", self.period, 1)
        check_integer("exchanged", self.exchanged, 1, self.L // 2)
        half = self.L // 2
        query = [self.p] * half + [self.p - self.delta] * half
        object.__setattr__(self, "queries", Queries.of({"B_L": query}))
        object.__setattr__(self, "k", half)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        if t <= p.period:
            return p.period + 1
        if t > 2 * p.period:
            return NEVER
        for i in range(p.exchanged):
            alpha[i] = p.p - p.delta
            alpha[p.k + i] = p.p
        return 2 * p.period + 1
