"""What the plain versions of policies for the position-based model share."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.cascade_klucb import kl
from tests.reference.discounted import _Discounted
from tests.reference.index import _IndexReference, key_below
from tests.reference.placement import place
from tests.reference.windowed import _Windowed

#: above this attraction no click could be missing
LARGEST = 1 - 1e-9


def bound(N, S, kappa, delta):
    """sup{q: sum_k N_k kl(S_k/N_k, kappa_k q) <= delta}, not left of where the sum is smallest, by halving."""
    seen = [(n, s, k) for n, s, k in zip(N, S, kappa, strict=True) if n > 0]

    def total(q):
        return sum(n * kl(s / n, k * q) for n, s, k in seen)

    def rises(q):
        return sum((n - s) * k / (1 - k * q) - s / q for n, s, k in seen) > 0

    def largest(low, holds):
        if holds(LARGEST):
            return LARGEST
        high = LARGEST
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    smallest = largest(1e-300, lambda q: not rises(q))
    return largest(smallest, lambda q: total(q) <= delta)


class _PBM:
    """In front of the statistics, which count every item at every position; subclasses say what lists they make of
    them. ``counts_at(t)`` gives N and S, items by positions, and the number of steps that count."""

    def __init__(self, L, K, horizon=None, *, examination="auto", epsilon=0.0, **rest):
        super().__init__(L, K, horizon, feedback="all", **rest)
        self.kappa = [1 / (k + 1) for k in range(K)] if examination == "auto" else examination[:K]
        self.epsilon = epsilon

    @property
    def counted(self):
        return self.L * self.K

    def observe(self, t, items, labels):
        super().observe(t, [a * self.K + i for i, a in enumerate(items)], labels)

    def sums(self, t):
        """N_a, Nt_a and S_a of every item."""
        N, S, _ = self.counts_at(t)
        looks = [sum(k * n for k, n in zip(self.kappa, row, strict=True)) for row in N]
        return [sum(row) for row in N], looks, [sum(row) for row in S]

    def delta(self, t):
        return (1 + self.epsilon) * math.log(self.counts_at(t)[2])

    def by_position(self, counts):
        return np.reshape(counts, (self.L, self.K)).tolist()


class _UCB(_PBM):
    def index(self, t, key=None):
        delta = self.delta(t)
        return [
            s / looks + math.sqrt(n / looks) * math.sqrt(delta / (2 * looks)) if n else math.inf
            for n, looks, s in zip(*self.sums(t), strict=True)
        ]

    def rank(self, t, key):
        return place(super().rank(t, key), self.kappa)


class _PIE(_PBM):
    def rank(self, t, key):
        if t <= self.L:
            return place([(t - 1 + i) % self.L for i in range(self.K)], self.kappa)
        shown = self.best(t, key)
        rivals = self.rivals(t, shown)
        if rivals and (key_below(key, 2**64 - 2) >> 11) / 2**53 < 0.5:
            shown[-1] = min(rivals, key=lambda a: key_below(key_below(key, 2**64 - 3), a))
        return place(shown, self.kappa)

    def index(self, t, key=None):
        return [s / looks if n else -1.0 for n, looks, s in zip(*self.sums(t), strict=True)]

    def rivals(self, t, leaders):
        """The items that may be better than the last leader."""
        N, S, _ = self.counts_at(t)
        least = self.index(t)[leaders[-1]]
        return [
            a
            for a in range(self.L)
            if a not in leaders
            and (not any(N[a]) or least <= 0 or bound(N[a], S[a], self.kappa, self.delta(t)) >= min(least, LARGEST))
        ]


class _All(_IndexReference):
    """Statistics that forget nothing."""

    def __init__(self, L, K, horizon=None, **rest):
        super().__init__(L, K, horizon, **rest)
        self.N, self.X = np.zeros(self.counted), np.zeros(self.counted)

    def observe(self, t, cells, labels):
        self.N[cells] += 1
        self.X[cells] += labels

    def counts_at(self, t):
        return self.by_position(self.N), self.by_position(self.X), t


class _Fading(_Discounted):
    def counts_at(self, t):
        N, X, m = self.now(t)
        return self.by_position(N), self.by_position(X), m


class _Latest(_Windowed):
    def counts_at(self, t):
        N, X = self.counts()
        return self.by_position(N), self.by_position(X), min(t, self.tau(t))
