from __future__ import annotations

import numpy as np

from tests.reference.linear import _LinearReference


class CascadeLinUCB(_LinearReference):
    def __init__(self, L, K, horizon=None, *, c="auto", radius="exact", **rest):
        super().__init__(L, K, horizon, **rest)
        self.c, self.radius = c, radius

    def width_factor(self, t):
        if self.c != "auto":
            return self.c
        d, K, sigma = self.d, self.K, self.sigma
        n, weighed = t, 1.0 + (self.steps**2).sum()
        if self.horizon is not None and self.half_life is None:
            n = self.horizon
            weighed = (self.gamma(t, t) ** (2 * np.arange(n))).sum()
        return np.sqrt(d * np.log(1 + weighed * K / (d * sigma**2)) + 2 * np.log(n * K)) / sigma + 1

    def index(self, t, key=None):
        inverse = np.linalg.inv(self.M)
        middle = inverse @ self.M2 @ inverse if self.radius == "exact" else inverse
        width = np.sqrt(np.einsum("ai,ij,aj->a", self.features, middle, self.features))
        return np.minimum(1.0, self.features @ self.theta + self.width_factor(t) * width)
