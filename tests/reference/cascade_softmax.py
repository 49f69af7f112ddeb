from __future__ import annotations

import numpy as np

from tests.reference.discounted import _Discounted
from tests.reference.index import key_below


class CascadeSoftmax(_Discounted):
    """The Gumbel numbers come from the keys of items; everything else is the softmax, position by position."""

    def __init__(self, L, K, horizon=None, *, learning="boltzmann", temperature="auto", rate=0.1, **rest):
        self.learning, self.rate = learning, rate
        self.T = {"boltzmann": 0.05, "reinforce": 1.0}[learning] if temperature == "auto" else temperature
        super().__init__(L, K, horizon, **rest)

    def wipe(self):
        super().wipe()
        self.h, self.earned = np.zeros(self.L), 0.0

    def score(self):
        if self.learning == "reinforce":
            return self.h
        return np.array([x / n if n else 1.0 for x, n in zip(self.X, self.N, strict=True)])

    def index(self, t, key):
        u = np.array([(key_below(key, a) >> 12) + 0.5 for a in range(self.L)]) * 2.0**-52
        return self.score() / self.T - np.log(-np.log(u))

    def probabilities(self, above):
        """Of every item at the position below those of ``above``."""
        w = np.exp((self.score() - self.score().max()) / self.T)
        w[above] = 0
        return w / w.sum()

    def observe(self, t, items, labels):
        reward = float(max(labels))
        b = self.earned / self.m if self.m else 0.0
        gradient = np.zeros(self.L)
        for i, a in enumerate(items):
            gradient -= self.probabilities(items[:i])
            gradient[a] += 1
        self.h = self.h + self.rate * (reward - b) * gradient
        before = self.m
        super().observe(t, items, labels)
        if before and self.m:
            self.earned *= (self.m - 1) / before
        self.earned = self.earned + reward if self.m else 0.0
