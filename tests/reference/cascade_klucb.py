from __future__ import annotations

import math

import numpy as np

from tests.reference.index import _IndexReference, level


def kl(p, q):
    """kl(p, q), with 0 ln 0 = 0 and ln(x/0) infinite."""
    total = 0.0
    for x, y in ((p, q), (1 - p, 1 - q)):
        if x > 0:
            total += x * math.log(x / y) if y > 0 else math.inf
    return total


def kl_ucb(p, d):
    """max{q in [p, 1]: kl(p, q) <= d}, by halving."""
    low, high = p, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(p, middle) <= d else (low, middle)
    return low


class CascadeKLUCB(_IndexReference):
    def __init__(self, L, K, horizon=None, *, c=3.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.c = c
        self.N, self.X = np.zeros(L), np.zeros(L)

    def index(self, t, key=None):
        f = level(t, self.c)
        return np.array([kl_ucb(x / n, f / n) if n else np.inf for x, n in zip(self.X, self.N, strict=True)])

    def observe(self, t, items, labels):
        self.N[items] += 1
        self.X[items] += labels
