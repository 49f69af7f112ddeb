from __future__ import annotations

import numpy as np

from tests.reference.cascade_ts import beta_draws
from tests.reference.discounted import _Discounted


class CascadeDTS(_Discounted):
    def __init__(self, L, K, horizon=None, *, a0=1.0, b0=1.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.a0, self.b0 = a0, b0

    def index(self, t, key):
        N, X, _ = self.now(t)
        return beta_draws(key, self.a0 + X, self.b0 + np.maximum(0, N - X))
