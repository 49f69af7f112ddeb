from __future__ import annotations

import math

import numpy as np

from tests.reference.cucb_sw import cucb_index
from tests.reference.index import _IndexReference, doubled, key_below
from tests.reference.ranked import uniform_of


class CUCBBoB(_IndexReference):
    """A list of the steps of the block, and EXP3.P over the powers of two."""

    def __init__(self, L, K, horizon=None, *, exploration=1.5, first_horizon=1, **rest):
        super().__init__(L, K, horizon, **rest)
        self.exploration, self.first_horizon = exploration, first_horizon
        self.plan(horizon or first_horizon)
        self.block = None

    def plan(self, n):
        self.length = math.ceil(math.sqrt(self.L * self.K * n))
        self.windows = [2**i for i in range(self.length.bit_length())]
        J, pulls = len(self.windows), math.ceil(n / self.length)
        self.beta = math.sqrt(math.log(J) / (pulls * J))
        self.eta = 0.95 * math.sqrt(math.log(J) / (pulls * J))
        self.g = min(1, 1.05 * math.sqrt(J * math.log(J) / pulls))
        self.G = np.zeros(J)

    def probabilities(self):
        w = np.exp(self.eta * (self.G - self.G.max()))
        return (1 - self.g) * w / w.sum() + self.g / len(w)

    def start(self, key):
        self.arm = min(int(np.sum(np.cumsum(self.probabilities()) <= uniform_of(key))), len(self.G) - 1)
        self.block, self.clicked = [], 0

    def rank(self, t, key):
        self.key = key_below(key, 2**63)
        if self.block is None:
            self.start(self.key)
        return super().rank(t, key)

    def index(self, t, key):
        N, X = np.zeros(self.L), np.zeros(self.L)
        for items, labels in self.block[-self.windows[self.arm] :]:
            N[items] += 1
            X[items] += labels
        return cucb_index(N, X, self.horizon or t, self.exploration)

    def update(self, t, ranking, clicks):
        self.clicked += any(clicks)
        super().update(t, ranking, clicks)
        n = doubled(t + 1, self.first_horizon)
        if self.horizon is None and n > doubled(t, self.first_horizon):
            self.plan(n)
        elif len(self.block) == self.length:
            p = self.probabilities()
            reward = np.zeros(len(p))
            reward[self.arm] = self.clicked / self.length
            self.G += (reward + self.beta) / p
        else:
            return
        self.start(key_below(self.key, t))

    def observe(self, t, items, labels):
        self.block.append((items, labels))
