"""Recurring: earlier regimes return."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.validation import check_integer


class Recurring(QueryEnvironment):
    """A few regimes in turn, such as weekdays and weekends.

    The first regime is the query's default attraction. Each of the others is a permutation of it among the items, drawn
    in every run.

    Parameters
    ----------
    regimes
        Number of regimes.
    period
        Steps of each regime.

    >>> env = Recurring([[0.5, 0.4, 0.3, 0.2, 0.1]], k=2, regimes=3, period=100)
    >>> bool((env.attraction(150) == env.attraction(450)).all()), env.attraction(301).tolist()
    (True, [0.5, 0.4, 0.3, 0.2, 0.1])
    """

    kind: ClassVar[str] = "abrupt"

    regimes: int = 2
    period: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("regimes", self.regimes, 1)
        check_integer("period", self.period, 1)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        epoch = (t - 1) // p.period
        regime = epoch % p.regimes
        if regime > 0:
            draw = derive(key, regime)
            for a in range(base.shape[0] - 1, 0, -1):
                b = below(derive(draw, a), a + 1)
                alpha[a], alpha[b] = alpha[b], alpha[a]
        return (epoch + 1) * p.period + 1
