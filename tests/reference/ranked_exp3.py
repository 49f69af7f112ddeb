from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import pure
from driftrank.kernels.elementary import exp
from tests.reference.index import key_below
from tests.reference.ranked import _RankedReference, uniform_of


class RankedEXP3(_RankedReference):
    """All probabilities are worked out at every step from the sums S.

    The algorithm magnifies the smallest difference (a loss is divided by a probability that depends on earlier losses),
    so the exponential is that of ``driftrank.kernels``, tested elsewhere, and sums are exact."""

    def __init__(self, L, K, horizon=None, *, form="loss", rate="auto"):
        super().__init__(L, K, horizon)
        self.form, self.rate = form, rate
        self.S = np.zeros((K, L))

    def learning_rate(self, t):
        L, anytime = self.L, self.rate == "anytime" or self.horizon is None
        if not isinstance(self.rate, str):
            return self.rate
        if self.form == "auer":
            return min(1, np.sqrt(L * np.log(L) / ((np.e - 1) * (t if anytime else self.horizon))))
        return np.sqrt(np.log(L) / (t * L)) if anytime else np.sqrt(2 * np.log(L) / (self.horizon * L))

    def weights(self, t, i):
        rate = -self.learning_rate(t) if self.form == "loss" else self.learning_rate(t) / self.L
        anytime = self.rate == "anytime" or (self.rate == "auto" and self.horizon is None)
        shift = (self.S[i].min() if self.form == "loss" else self.S[i].max()) if anytime else 0.0
        w = np.array([pure(exp)(rate * (S - shift)) for S in self.S[i]])
        return w / math.fsum(w)

    def propose(self, t, i, key):
        w, u = self.weights(t, i), np.array([uniform_of(key_below(key, a)) for a in range(self.L)])
        p = w
        if self.form == "auer":
            g = self.learning_rate(t)
            p = (1 - g) * w + g / self.L
            if uniform_of(key) < g:
                w = np.ones(self.L)
        with np.errstate(divide="ignore", invalid="ignore"):
            b = int(np.argmin(np.where(w > 0, -np.log1p(-u) / w, np.inf)))  # the first of independent exponential times
        return b, p[b]

    def learn(self, t, i, b, reward, probability):
        self.S[i, b] += (1 - reward if self.form == "loss" else reward) / probability
