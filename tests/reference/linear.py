"""What the plain versions of policies with features share: ridge regression over the whole history."""

from __future__ import annotations

import numpy as np

from driftrank.policies.parameters import seconds
from tests.reference.index import _IndexReference, doubled


class _LinearReference(_IndexReference):
    """Keeps every observation and its weight; a step multiplies the weights by gamma."""

    def __init__(
        self, L, K, horizon=None, *, discount=1.0, half_life=None, n_breakpoints=1, sigma=1.0, features=None, **rest,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **rest)
        self.discount, self.half_life, self.n_breakpoints, self.sigma = discount, half_life, n_breakpoints, sigma
        self.features = np.eye(L) if features is None else np.array(features, float)
        self.d = self.features.shape[1]
        self.x, self.y, self.weight = np.zeros((0, self.d)), np.zeros(0), np.zeros(0)
        self.steps = np.zeros(0)  # the weight of every step
        self.last = None

    def gamma(self, t, now):
        if self.half_life is not None:
            return 1.0 if self.last is None else 0.5 ** (max(0.0, now - self.last) / seconds("", self.half_life))
        if self.discount == "auto":
            n = doubled(t, 1) if self.horizon is None else self.horizon
            return max(0.5, 1 - 0.25 * np.sqrt(self.n_breakpoints / n))
        return self.discount

    def observe(self, t, items, labels, now=None):
        now = t if now is None else now
        gamma = self.gamma(t, now)
        self.last = now if self.last is None else max(self.last, now)
        self.x = np.vstack([self.x, self.features[items].reshape(-1, self.d)])
        self.y = np.append(self.y, labels)
        self.weight = np.append(gamma * self.weight, np.ones(len(items)))
        self.steps = np.append(gamma * self.steps, 1.0)

    @property
    def M(self):
        return np.eye(self.d) + self.x.T @ (self.weight[:, None] * self.x) / self.sigma**2

    @property
    def M2(self):
        return np.eye(self.d) + self.x.T @ (self.weight[:, None] ** 2 * self.x) / self.sigma**2

    @property
    def theta(self):
        return np.linalg.solve(self.M, self.x.T @ (self.weight * self.y)) / self.sigma**2
