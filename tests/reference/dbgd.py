from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import specialise
from driftrank.kernels.distributions import normal
from tests.reference.index import key_below
from tests.reference.linear_ranker import _LinearRankerReference

_COINS = 2**64 - 2


def _draw(key):
    return normal(key)


class DBGD(_LinearRankerReference):
    """The normal numbers are those of ``driftrank.kernels.distributions``, tested elsewhere."""

    def __init__(self, L, K, horizon=None, *, delta=1.0, features=None, **rest):
        super().__init__(L, K, horizon, features=features, **rest)
        self.delta, self.indicators = delta, features is None
        self.draw = specialise(_draw, {})

    def rank(self, t, key):
        branch = key_below(key, 1 << 63)
        z = np.array([self.draw(np.uint64(key_below(branch, i))) for i in range(len(self.theta))])
        self.u = z / np.sqrt((z**2).sum())
        rankers = self.features @ self.theta, self.features @ (self.theta + self.delta * self.u)
        shown, self.team = [], []
        while len(shown) < self.K:
            first = int((key_below(key_below(key, _COINS), len(shown) // 2) >> 11) * 2.0**-53 < 0.5)
            for team in (first, 1 - first)[: self.K - len(shown)]:
                shown.append(self.best(rankers[team], [a for a in range(self.L) if a not in shown], key))
                self.team.append(team)
        return shown

    def update(self, t, ranking, clicks):
        by_team = np.bincount(self.team, clicks, 2)
        if by_team[1] > by_team[0]:
            moved = np.isin(np.arange(self.L), ranking) if self.indicators else True
            self.theta = self.theta + self.rate * self.u * moved
