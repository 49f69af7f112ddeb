from __future__ import annotations

import numpy as np

from driftrank.kernels import pure
from driftrank.kernels.elementary import exp
from tests.reference.index import doubled
from tests.reference.ranked import _RankedReference, mixture_walk, uniform_of


class RankedEXP3S(_RankedReference):
    """The weights are brought to a sum of 1 after every step."""

    def __init__(self, L, K, horizon=None, *, rate="auto", sharing="auto", n_breakpoints=1):
        super().__init__(L, K, horizon)
        self.rate, self.sharing, self.n_breakpoints = rate, sharing, n_breakpoints
        self.w = np.full((K, L), 1 / L)

    def numbers(self, t):
        """g and a at step t."""
        n, L = self.horizon or doubled(t, 1), self.L
        g = min(1, np.sqrt(L * (self.n_breakpoints * np.log(L * n) + np.e) / ((np.e - 1) * n)))
        return g if self.rate == "auto" else self.rate, 1 / n if self.sharing == "auto" else self.sharing

    def propose(self, t, i, key):
        return mixture_walk(self.w[i], self.numbers(t)[0], uniform_of(key))

    def learn(self, t, i, b, reward, probability):
        g, a = self.numbers(t)
        W = self.w[i].sum()
        self.w[i, b] *= pure(exp)(g * reward / (probability * self.L))
        self.w[i] += np.e * a / self.L * W
        self.w[i] /= self.w[i].sum()
