from __future__ import annotations

import numpy as np

from tests.reference.index import key_below
from tests.reference.ranked import _RankedReference


class _RankedIndexReference(_RankedReference):
    """Proposes the item of largest ``bound(t, mean, N)``, those never proposed first."""

    def __init__(self, L, K, horizon=None, *, ties="random"):
        super().__init__(L, K, horizon)
        self.ties = ties
        self.N, self.X = np.zeros((K, L)), np.zeros((K, L))

    def propose(self, t, i, key):
        N, X = self.N[i], self.X[i]
        U = [self.bound(t, X[a] / N[a], N[a]) if N[a] else np.inf for a in range(self.L)]
        tie = range(self.L) if self.ties == "index" else [key_below(key, a) for a in range(self.L)]
        return min(range(self.L), key=lambda a: (-U[a], tie[a])), 1.0

    def learn(self, t, i, b, reward, probability):
        self.N[i, b] += 1
        self.X[i, b] += reward


class RankedUCB1(_RankedIndexReference):
    def __init__(self, L, K, horizon=None, *, exploration=0.51, **rest):
        super().__init__(L, K, horizon, **rest)
        self.exploration = exploration

    def bound(self, t, mean, N):
        return mean + np.sqrt(self.exploration * np.log(t)) * (1 / np.sqrt(N))
