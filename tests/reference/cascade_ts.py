from __future__ import annotations

from functools import cache

import numpy as np

from driftrank.kernels.compile import specialise
from driftrank.kernels.distributions import beta
from tests.reference.index import _IndexReference, key_below


def _draw(key, a, b):
    return beta(key, a, b)


@cache
def _compiled():
    return specialise(_draw, {})


def beta_draws(key, a, b):
    """One Beta(a[i], b[i]) number for every item i.

    The draws are those of ``driftrank.kernels.distributions``, tested against the distribution elsewhere."""
    draw = _compiled()
    return [draw(np.uint64(key_below(key, i)), a[i], b[i]) for i in range(len(a))]


class CascadeTS(_IndexReference):
    def __init__(self, L, K, horizon=None, *, a0=1.0, b0=1.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.a0, self.b0 = a0, b0
        self.S, self.F = np.zeros(L), np.zeros(L)

    def index(self, t, key):
        return beta_draws(key, self.a0 + self.S, self.b0 + self.F)

    def observe(self, t, items, labels):
        self.S[items] += labels
        self.F[items] += 1 - np.array(labels)
