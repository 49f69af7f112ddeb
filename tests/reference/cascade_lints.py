from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import specialise
from driftrank.kernels.distributions import normal
from tests.reference.index import key_below
from tests.reference.linear import _LinearReference


def _draw(key):
    return normal(key)


class CascadeLinTS(_LinearReference):
    """The normal numbers are those of ``driftrank.kernels.distributions``, tested elsewhere."""

    def __init__(self, L, K, horizon=None, *, v=1.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.v = v
        self.draw = specialise(_draw, {})

    def index(self, t, key):
        branch = key_below(key, 1 << 63)
        z = np.array([self.draw(np.uint64(key_below(branch, i))) for i in range(self.d)])
        # M = C C^T, so C^-T z has the covariance M^-1
        drawn = self.theta + self.v * np.linalg.solve(np.linalg.cholesky(self.M).T, z)
        return self.features @ drawn
