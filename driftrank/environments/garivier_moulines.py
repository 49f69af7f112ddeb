"""GarivierMoulines: the two test problems of the paper that introduced discounted and sliding-window UCB."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from driftrank.environments.base import NEVER, Environment
from driftrank.kernels import kernel
from driftrank.kernels.elementary import cosine
from driftrank.queries import Queries
from driftrank.validation import check_choice, check_integer


class GarivierMoulines(Environment):
    r"""Three arms among items of low attraction; the third changes (Garivier and Moulines, 2011).

    The first two items have attraction 0.5 and 0.3, the last L - 3 have 0.1. The third changes:

    - ``"abrupt"``: 0.4, but 0.9 between three and five tenths of the horizon;
    - ``"sinusoid"``: :math:`0.5 + 0.4 \cos(2\pi w t)`, with ``cycles`` cycles in the horizon, in blocks of a
      thousandth of it.

    With K = 1 it is the best item for some of the time; a longer list contains it anyway.

    >>> env = GarivierMoulines(L=4)
    >>> env.breakpoints(10_000), env.attraction(4000).tolist()
    ([3000, 5000], [0.5, 0.3, 0.9, 0.1])
    """

    kind: ClassVar[str] = "abrupt"
    choices = {"shape": ("abrupt", "sinusoid")}

    shape: str = "abrupt"
    L: int = 10
    K: int = 1
    horizon: int = 10_000
    cycles: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("shape", self.shape, self.choices["shape"])
        check_integer("L", self.L, 3)
        check_integer("K", self.K, 1, self.L)
        check_integer("horizon", self.horizon, 10)
        check_integer("cycles", self.cycles, 1)
        third = 0.4 if self.shape == "abrupt" else 0.9
        query = [0.5, 0.3, third] + [0.1] * (self.L - 3)
        object.__setattr__(self, "queries", Queries.of({"Garivier-Moulines": query}))
        object.__setattr__(self, "k", self.K)
        if self.shape == "sinusoid":
            object.__setattr__(self, "kind", "drift")

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        if p.shape == 1:
            size = max(1, p.horizon // 1000)
            block = (t - 1) // size
            alpha[2] = 0.5 + 0.4 * cosine(np.float64(block * size * p.cycles) / p.horizon)
            return (block + 1) * size + 1
        first = 3 * p.horizon // 10
        second = 5 * p.horizon // 10
        if t <= first:
            return first + 1
        if t > second:
            return NEVER
        alpha[2] = 0.9
        return second + 1
