"""BLB: Kveton's stationary test problem."""

from __future__ import annotations

from driftrank.environments.base import Environment
from driftrank.environments.stationary import Stationary
from driftrank.queries import Queries
from driftrank.validation import check_integer, check_number


class BLB(Environment):
    """K items of attraction p, L - K of attraction p - delta (Kveton et al., 2015, section 5.1).

    >>> BLB(L=4, K=2, p=0.2, delta=0.15).attraction(1).round(3).tolist()
    [0.2, 0.2, 0.05, 0.05]
    """

    world = staticmethod(Stationary.world)

    L: int = 16
    K: int = 2
    p: float = 0.2
    delta: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("L", self.L, 1)
        check_integer("K", self.K, 1, self.L)
        check_number("p", self.p, 0, 1)
        check_number("delta", self.delta, 0, self.p)
        query = [self.p] * self.K + [self.p - self.delta] * (self.L - self.K)
        object.__setattr__(self, "queries", Queries.of({"B_LB": query}))
        object.__setattr__(self, "k", self.K)
