from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import specialise
from driftrank.kernels.distributions import beta
from tests.reference.index import _IndexReference, key_below


def _draw(key, a, b):
    return beta(key, a, b)


class CascadeTS(_IndexReference):
    """The draws are those of ``driftrank.kernels.distributions``, tested against the distribution elsewhere."""

    def __init__(self, L, K, horizon=None, *, a0=1.0, b0=1.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.a0, self.b0 = a0, b0
        self.S, self.F = np.zeros(L), np.zeros(L)
        self.draw = specialise(_draw, {})

    def index(self, t, key):
        keys = [np.uint64(key_below(key, a)) for a in range(self.L)]
        return [self.draw(keys[a], self.a0 + self.S[a], self.b0 + self.F[a]) for a in range(self.L)]

    def observe(self, t, items, labels):
        self.S[items] += labels
        self.F[items] += 1 - np.array(labels)
