from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import specialise
from driftrank.kernels.distributions import normal
from tests.reference.index import _IndexReference, key_below


def _draw(key):
    return normal(key)


class TSCascade(_IndexReference):
    """The draw is that of ``driftrank.kernels.distributions``, tested against the distribution elsewhere."""

    def __init__(self, L, K, horizon=None, **rest):
        super().__init__(L, K, horizon, **rest)
        self.N, self.X = np.zeros(L), np.zeros(L)
        self.draw = specialise(_draw, {})

    @property
    def mu(self):
        return self.X / np.maximum(self.N, 1)

    def deviation(self, t):
        per = np.log(t + 1) / (self.N + 1)
        return np.maximum(np.sqrt(self.mu * (1 - self.mu) * per), per)

    def index(self, t, key):
        return self.mu + self.draw(np.uint64(key_below(key, 2**63))) * self.deviation(t)

    def observe(self, t, items, labels):
        self.N[items] += 1
        self.X[items] += labels
