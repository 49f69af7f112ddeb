from __future__ import annotations

import numpy as np

from tests.reference.cascade_klucb import CascadeKLUCB
from tests.reference.cascade_ucb1 import CascadeUCB1
from tests.reference.index import key_below
from tests.reference.ranked import uniform_of


class CascadeMASTER:
    """Every instance is a plain policy of its own; a block is the list of its rewards and values."""

    def __init__(
        self, L, K, horizon=None, *, base="klucb", test_scale=1e-3, delta="auto", c=0.0, width=1.5,
        first_horizon=100_000, **rest,
    ):  # fmt: skip
        self.L, self.horizon, self.test_scale, self.delta = L, horizon, test_scale, delta
        self.first_horizon = first_horizon
        if base == "ucb1":
            self.fresh = lambda: CascadeUCB1(L, K, exploration=width, **rest)
        else:
            self.fresh = lambda: CascadeKLUCB(L, K, c=c, **rest)
        self.restarts = []
        self.open(0)
        self.begin(0)

    def rho(self, t):
        return np.sqrt(self.L / t) + self.L / t

    def rho_hat(self, t):
        n = max(self.horizon, 2) if self.horizon else max(self.first_horizon, 2 ** (self.m + 1))
        delta = 1 / n if self.delta == "auto" else self.delta
        return self.test_scale * 6 * (np.log2(n) + 1) * np.log(n / delta) * self.rho(t)

    def open(self, m):
        """A block of order m."""
        if self.horizon:
            m = min(m, int(np.log2(self.horizon)))
        self.m, self.rewards, self.values, self.instances = m, [], [], {}

    def begin(self, key):
        """Instances that begin before the coming step: (plain version, steps at which it acted, first step)."""
        tau, below = len(self.rewards), key_below(key, 2**63)
        for m in range(self.m + 1):
            chance = self.rho(2**self.m) / self.rho(2**m)
            if tau % 2**m == 0 and (m == self.m or uniform_of(key_below(below, m)) < chance):
                self.instances[m] = [self.fresh(), 0, tau]

    def rank(self, t, key):
        self.key, self.active = key, self.instances[min(self.instances)]
        policy, acted, _ = self.active
        shown = policy.rank(acted + 1, key)
        U = policy.index(acted + 1, key)
        self.value = 1 - np.prod([1 - min(1, U[a]) for a in shown])
        return shown

    def update(self, t, ranking, clicks):
        policy, acted, _ = self.active
        policy.update(acted + 1, ranking, clicks)
        self.active[1] += 1
        self.rewards.append(float(any(clicks)))
        self.values.append(self.value)
        done = len(self.rewards)
        failed = np.mean(np.array(self.values) - self.rewards) >= 3 * self.rho_hat(done)
        for m, (_, _, first) in list(self.instances.items()):
            if done == first + 2**m:
                failed |= np.mean(self.rewards[first:]) >= min(self.values) + 9 * self.rho_hat(2**m)
                del self.instances[m]
        if failed:
            self.restarts.append(t)
            self.open(0)
        elif done == 2**self.m:
            self.open(self.m + 1)
        self.begin(self.key)
