from __future__ import annotations

import numpy as np

from driftrank.kernels import pure
from driftrank.kernels.elementary import exp
from tests.reference.index import doubled
from tests.reference.ranked import _RankedReference, mixture_walk, uniform_of


class RankedREXP3(_RankedReference):
    """Weights are worked out from the sums of this batch."""

    def __init__(self, L, K, horizon=None, *, batch="auto", rate="auto", variation=1.0):
        super().__init__(L, K, horizon)
        self.batch, self.rate, self.variation = batch, rate, variation
        self.begin(1)

    def begin(self, t):
        """A batch that begins at step t."""
        L = self.L
        n = self.n = self.horizon or doubled(t, 1)
        D = max(1, np.ceil((L * np.log(L)) ** (1 / 3) * (n / self.variation) ** (2 / 3)))
        self.D = D if self.batch == "auto" else self.batch
        self.g = min(1, np.sqrt(L * np.log(L) / ((np.e - 1) * self.D))) if self.rate == "auto" else self.rate
        self.age, self.G = 0, np.zeros((self.K, L))

    def propose(self, t, i, key):
        w = np.array([pure(exp)(self.g / self.L * G) for G in self.G[i]])
        return mixture_walk(w, self.g, uniform_of(key))

    def learn(self, t, i, b, reward, probability):
        self.G[i, b] += reward / probability

    def update(self, t, ranking, clicks):
        super().update(t, ranking, clicks)
        self.age += 1
        doubles = self.batch == "auto" and self.horizon is None and doubled(t + 1, 1) != self.n
        if doubles or self.age >= self.D:
            self.begin(t + 1)
