"""LowCTR: click-through rates of a news site."""

from __future__ import annotations

import math
from typing import ClassVar

from driftrank.environments.base import Environment
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform
from driftrank.queries import Queries
from driftrank.validation import check_integer, check_number


class LowCTR(Environment):
    """Click-through rates of a news site: low, and new in every segment of the run.

    Modelled on the front page of Yahoo!, as Cao et al. (2019) use it: the rates of L articles lie between ``low`` and
    ``high``, are constant in each of the equal ``segments`` of ``horizon`` steps, and changes below ``flat`` are
    ignored. The rates here are uniform random numbers, drawn in every run; a longer run continues in the same way.

    >>> env = LowCTR()
    >>> env.breakpoints(100_000)[:3], env.k, len(env.attraction(1))
    ([11112, 22223, 33334], 3, 10)
    """

    kind: ClassVar[str] = "abrupt"

    L: int = 10
    K: int = 3
    low: float = 0.01
    high: float = 0.08
    segments: int = 9
    horizon: int = 100_000
    flat: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("L", self.L, 1)
        check_integer("K", self.K, 1, self.L)
        check_number("high", self.high, 0, 1)
        check_number("low", self.low, 0, self.high)
        check_integer("segments", self.segments, 1)
        check_integer("horizon", self.horizon, self.segments)
        check_number("flat", self.flat, 0)
        object.__setattr__(self, "queries", Queries.of({"low CTR": [0.5 * (self.low + self.high)] * self.L}))
        object.__setattr__(self, "k", self.K)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        segment = (t - 1) * p.segments // p.horizon
        for a in range(base.shape[0]):
            own = derive(key, a)
            for n in range(segment + 1):
                rate = p.low + (p.high - p.low) * uniform(derive(own, n))
                if n == 0 or math.fabs(rate - alpha[a]) >= p.flat:
                    alpha[a] = rate
        return ((segment + 1) * p.horizon + p.segments - 1) // p.segments + 1
