"""What the plain versions of windowed policies share."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.index import _IndexReference, doubled


class _Windowed(_IndexReference):
    """Keeps what was observed at each of the last tau steps and adds it all up whenever it is asked.

    Subclasses write ``index(t, key)``."""

    def __init__(
        self, L, K, horizon=None, *, window="auto", capacity=100_000, n_breakpoints=1, first_horizon=1, restart=False,
        **rest,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **rest)
        self.window, self.n_breakpoints = window, n_breakpoints
        self.first_horizon, self.restart = first_horizon, restart
        self.steps = []

    @property
    def doubling(self):
        return self.window == "doubling" or (self.window == "auto" and self.horizon is None)

    def recommended(self, n):
        return 2 * math.sqrt(n * math.log(n) / self.n_breakpoints)

    def tau(self, t):
        if not isinstance(self.window, str):
            return self.window
        n = doubled(t, self.first_horizon) if self.doubling else self.horizon
        smallest = max(2, self.L) if self.doubling else 2
        return max(smallest, math.ceil(self.recommended(n)))

    def counts(self):
        """Observations and clicks in the window."""
        N, X = np.zeros(self.counted), np.zeros(self.counted)
        for step in self.steps:
            for a, label in step:
                N[a] += 1
                X[a] += label
        return N, X

    def observe(self, t, items, labels):
        self.steps = [*self.steps, list(zip(items, labels, strict=True))][-self.tau(t) :]
        if self.doubling and self.restart and doubled(t + 1, self.first_horizon) > doubled(t, self.first_horizon):
            self.steps = []
