from __future__ import annotations

import numpy as np

from tests.reference.index import _IndexReference


class CascadeUCBV(_IndexReference):
    def __init__(self, L, K, horizon=None, **rest):
        super().__init__(L, K, horizon, **rest)
        self.N, self.X = np.zeros(L), np.zeros(L)

    def index(self, t, key=None):
        U = np.full(self.L, np.inf)
        for a in np.flatnonzero(self.N):
            p, f = self.X[a] / self.N[a], np.log(t) / self.N[a]
            U[a] = min(1, p + np.sqrt(4 * p * (1 - p) * f) + 6 * f)
        return U

    def observe(self, t, items, labels):
        self.N[items] += 1
        self.X[items] += labels
