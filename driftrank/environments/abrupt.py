"""Abrupt: the environment of the paper's section 5."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.order import better, kth_best
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.validation import check_integer, check_number


class Abrupt(QueryEnvironment):
    """Every other epoch, a few items outside the top k become very attractive (section 5).

    The first epoch has the default attraction. In every second epoch ``n_boosted`` items, drawn in every run from those
    outside the k best by default, have attraction ``boost``; then the default returns.

    Parameters
    ----------
    period
        Steps of an epoch with the default attraction, m1 of the paper.
    boosted_for
        Steps of the other epochs, m2 of the paper; by default as many, as there. Far fewer make them a blip.
    boost, n_boosted
        0.9 and 3 in the paper.

    >>> Abrupt([[0.5, 0.4, 0.3, 0.2, 0.1, 0.05]], k=2, period=100).breakpoints(450)
    [100, 200, 300, 400]
    >>> Abrupt([[0.5, 0.4, 0.3, 0.2, 0.1, 0.05]], k=2, period=100, boosted_for=5).breakpoints(220)
    [100, 105, 205, 210]
    """

    kind: ClassVar[str] = "abrupt"

    period: int = 10_000
    boost: float = 0.9
    n_boosted: int = 3
    boosted_for: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)
        if self.boosted_for is not None:
            check_integer("boosted_for", self.boosted_for, 1)
        check_number("boost", self.boost, 0, 1)
        check_integer("n_boosted", self.n_boosted, 1)
        for name, alpha in self.queries.attraction.items():
            left = len(alpha) - self.k
            if left < self.n_boosted:
                raise ValueError(
                    f"n_boosted={self.n_boosted!r}: query {name!r} has only {left} items outside its top {self.k}"
                )

    def parameters(self) -> dict[str, float]:
        return {**super().parameters(), "boosted_for": self.boosted_for or self.period}

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        L = base.shape[0]
        for a in range(L):
            alpha[a] = base[a]
        both = p.period + p.boosted_for
        begin = (t - 1) // both * both
        boosted = t > begin + p.period
        if boosted:
            epoch = (t - 1) // both * 2 + 1
            draw = derive(key, epoch)
            last = kth_best(base, p.k)
            for n in range(p.n_boosted):
                # the n-th draw is from the items that are neither among the best nor already boosted
                left = below(derive(draw, n), L - p.k - n)
                for a in range(L):
                    if a == last or better(base, a, last) or alpha[a] < 0.0:
                        continue
                    if left == 0:
                        alpha[a] = -1.0
                        break
                    left -= 1
            for a in range(L):
                if alpha[a] < 0.0:
                    alpha[a] = p.boost
        return begin + (both if boosted else p.period) + 1
