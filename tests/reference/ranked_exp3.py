from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import pure
from driftrank.kernels.elementary import exp
from tests.reference.index import key_below
from tests.reference.ranked import _RankedReference, mixture_walk, uniform_of


class RankedEXP3(_RankedReference):
    """All probabilities are worked out at every step from the sums S.

    The algorithm magnifies the smallest difference (a loss is divided by a probability that depends on earlier losses),
    so the exponential is that of ``driftrank.kernels``, tested elsewhere."""

    def __init__(self, L, K, horizon=None, *, form="loss", rate="auto"):
        super().__init__(L, K, horizon)
        self.form, self.rate = form, rate
        self.S = np.zeros((K, L))

    @property
    def anytime(self):
        return self.rate == "anytime" or (self.rate == "auto" and self.horizon is None)

    def learning_rate(self, t):
        L, anytime = self.L, self.anytime
        if not isinstance(self.rate, str):
            return self.rate
        if self.form == "auer":
            return min(1, np.sqrt(L * np.log(L) / ((np.e - 1) * (t if anytime else self.horizon))))
        return np.sqrt(np.log(L) / (t * L)) if anytime else np.sqrt(2 * np.log(L) / (self.horizon * L))

    def propose(self, t, i, key):
        g = self.learning_rate(t) if self.form == "auer" else 0.0
        rate = g / self.L if self.form == "auer" else -self.learning_rate(t)
        if self.anytime:
            # the first of independent exponential times
            best = self.S[i].max() if self.form == "auer" else self.S[i].min()
            w = np.array([pure(exp)(rate * (S - best)) for S in self.S[i]])
            u = np.array([uniform_of(key_below(key, a)) for a in range(self.L)])
            speed = np.ones(self.L) if uniform_of(key) < g else w
            b = min((a for a in range(self.L) if speed[a] > 0), key=lambda a: -np.log1p(-u[a]) / speed[a])
            W = math.fsum(w)
        else:
            return mixture_walk(np.array([pure(exp)(rate * S) for S in self.S[i]]), g, uniform_of(key))
        return b, (1 - g) * (w[b] / W) + g / self.L

    def learn(self, t, i, b, reward, probability):
        self.S[i, b] += (1 - reward if self.form == "loss" else reward) / probability
