"""What the plain versions of discounted policies share."""

from __future__ import annotations

import numpy as np

from tests.reference.index import _IndexReference, doubled


class _Discounted(_IndexReference):
    """Every step multiplies all counts by gamma; no scaling trick. Subclasses write ``index(t, key)``."""

    def __init__(
        self, L, K, horizon=None, *, discount="auto", half_life=None, n_breakpoints=1, clock="steps", first_horizon=1,
        restart=False, **rest,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **rest)
        self.discount, self.half_life, self.n_breakpoints = discount, half_life, n_breakpoints
        self.clock, self.first_horizon, self.restart = clock, first_horizon, restart
        self.wipe()

    def wipe(self):
        self.N, self.X, self.m = np.zeros(self.counted), np.zeros(self.counted), 0.0

    @property
    def doubling(self):
        return self.discount == "doubling" or (self.discount == "auto" and self.horizon is None)

    def gamma(self, t):
        if not isinstance(self.discount, str):
            return self.discount
        n = doubled(t, self.first_horizon) if self.doubling else self.horizon
        return max(0.5, 1 - 0.25 * np.sqrt(self.n_breakpoints / n))

    def now(self, t):
        """Discounted observations, clicks and steps (or observations of all items) at the time of step t."""
        if self.half_life is not None:  # one step lasts a second
            fading = 0.5 ** (1 / self.half_life) if t > 1 else 1.0
            N, X, m = self.N * fading, self.X * fading, self.m * fading + 1
        else:
            N, X, m = self.N, self.X, self.gamma(t) * self.m + 1
        return N, X, m if self.clock == "steps" else max(1.0, N.sum())

    def observe(self, t, items, labels):
        gamma = self.gamma(t) if self.half_life is None else 0.5 ** (1 / self.half_life)
        self.m = gamma * self.m + 1
        self.N *= gamma
        self.X *= gamma
        for a, label in zip(items, labels, strict=True):
            self.N[a] += 1
            self.X[a] += label
        if self.doubling and self.restart and doubled(t + 1, self.first_horizon) > doubled(t, self.first_horizon):
            self.wipe()
