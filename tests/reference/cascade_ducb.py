from __future__ import annotations

import numpy as np

from tests.reference.index import _IndexReference, doubled


class CascadeDUCB(_IndexReference):
    """Every step multiplies all counts by gamma; no scaling trick."""

    def __init__(
        self, L, K, horizon=None, *, discount="auto", epsilon=0.5, n_breakpoints=1, unseen="inf",
        clock="steps", first_horizon=1, restart=False, **rest,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **rest)
        self.discount, self.epsilon, self.n_breakpoints = discount, epsilon, n_breakpoints
        self.unseen, self.first_horizon, self.restart = unseen, first_horizon, restart
        self.clock = clock
        self.wipe()

    def wipe(self):
        self.N, self.X, self.m = np.zeros(self.L), np.zeros(self.L), 0.0

    @property
    def doubling(self):
        return self.discount == "doubling" or (self.discount == "auto" and self.horizon is None)

    def gamma(self, t):
        if not isinstance(self.discount, str):
            return self.discount
        n = doubled(t, self.first_horizon) if self.doubling else self.horizon
        return max(0.5, 1 - 0.25 * np.sqrt(self.n_breakpoints / n))

    def index(self, t, key=None):
        m = self.gamma(t) * self.m + 1 if self.clock == "steps" else max(1.0, self.N.sum())
        U = np.full(self.L, np.inf if self.unseen == "inf" else 1.0 + 2.0 * 1.0)
        seen = self.N > 0
        U[seen] = self.X[seen] / self.N[seen] + 2 * np.sqrt(self.epsilon * np.log(m) / self.N[seen])
        return U

    def observe(self, t, items, labels):
        gamma = self.gamma(t)
        self.m = gamma * self.m + 1
        self.N *= gamma
        self.X *= gamma
        for a, label in zip(items, labels, strict=True):
            self.N[a] += 1
            self.X[a] += label
        if self.doubling and self.restart and doubled(t + 1, self.first_horizon) > doubled(t, self.first_horizon):
            self.wipe()
