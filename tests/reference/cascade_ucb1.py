from __future__ import annotations

import numpy as np

from tests.reference.index import _IndexReference


class CascadeUCB1(_IndexReference):
    def __init__(self, L, K, horizon=None, *, exploration=1.5, **rest):
        super().__init__(L, K, horizon, **rest)
        self.exploration = exploration
        self.N, self.X = np.zeros(L), np.zeros(L)

    def index(self, t, key=None):
        U = np.full(self.L, np.inf)
        seen = self.N > 0
        bonus = np.sqrt(self.exploration * np.log(t - 1) / self.N[seen]) if t > 2 else 0.0
        U[seen] = self.X[seen] / self.N[seen] + bonus
        return U

    def observe(self, t, items, labels):
        self.N[items] += 1
        self.X[items] += labels
