from __future__ import annotations

import math

import numpy as np

from tests.reference.index import _IndexReference, doubled


class CascadeSWUCB(_IndexReference):
    """Keeps what was observed at each of the last tau steps and adds it all up whenever it is asked."""

    def __init__(
        self, L, K, horizon=None, *, window="auto", epsilon=0.5, n_breakpoints=1, unseen="inf",
        first_horizon=1, restart=False, **rest,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **rest)
        self.window, self.epsilon, self.n_breakpoints = window, epsilon, n_breakpoints
        self.unseen, self.first_horizon, self.restart = unseen, first_horizon, restart
        self.steps = []

    @property
    def doubling(self):
        return self.window == "doubling" or (self.window == "auto" and self.horizon is None)

    def tau(self, t):
        if not isinstance(self.window, str):
            return self.window
        n = doubled(t, self.first_horizon) if self.doubling else self.horizon
        smallest = max(2, self.L) if self.doubling else 2
        return max(smallest, math.ceil(2 * math.sqrt(n * math.log(n) / self.n_breakpoints)))

    def index(self, t, key=None):
        pairs = [pair for step in self.steps for pair in step]
        N = np.bincount([a for a, _ in pairs], minlength=self.L) if pairs else np.zeros(self.L)
        X = np.bincount([a for a, label in pairs if label], minlength=self.L) if pairs else np.zeros(self.L)
        U = np.full(self.L, np.inf if self.unseen == "inf" else 1.0 + 1.0)
        seen = N > 0
        U[seen] = X[seen] / N[seen] + np.sqrt(self.epsilon * np.log(min(t, self.tau(t))) / N[seen])
        return U

    def observe(self, t, items, labels):
        self.steps = [*self.steps, list(zip(items, labels, strict=True))][-self.tau(t) :]
        if self.doubling and self.restart and doubled(t + 1, self.first_horizon) > doubled(t, self.first_horizon):
            self.steps = []
