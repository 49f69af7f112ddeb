"""What the plain versions of index policies share."""

from __future__ import annotations

import numpy as np

from driftrank.kernels import pure
from driftrank.kernels.rng import derive


def key_below(key, n):
    """The n-th key below ``key``, in plain Python."""
    with np.errstate(over="ignore"):
        return int(pure(derive)(np.uint64(key), np.uint64(n)))


def observed_positions(clicks, feedback):
    """How many positions count as observed (section 0.3 of the specification)."""
    clicked = [i for i, c in enumerate(clicks) if c]
    if feedback == "all" or not clicked:
        return len(clicks)
    return (clicked[0] if feedback == "first" else clicked[-1]) + 1


def level(t, c):
    """f_c(t) = ln t + c ln(max(1, ln t))."""
    return np.log(t) + c * np.log(max(1.0, np.log(t)))


class _IndexReference:
    """Shows the K items of largest index; subclasses write ``index(t, key)`` and ``observe(t, items, labels)``."""

    def __init__(self, L, K, horizon=None, *, ties="random", feedback="first", order="decreasing", initial="inf"):
        self.L, self.K, self.horizon, self.ties, self.feedback = L, K, horizon, ties, feedback
        self.order, self.initial = order, initial

    @property
    def counted(self):
        """How many things are counted: items."""
        return self.L

    def rank(self, t, key):
        if self.initial == "first_position" and t <= self.L:  # item t on top, the rest shuffled
            others = sorted((a for a in range(self.L) if a != t - 1), key=lambda a: -(key_below(key, a) >> 11))
            return [t - 1, *others][: self.K]
        best = self.best(t, key)
        return best if self.order == "decreasing" else best[::-1]

    def best(self, t, key):
        U = self.index(t, key)
        tie = range(self.L) if self.ties == "index" else [key_below(key, a) for a in range(self.L)]
        return sorted(range(self.L), key=lambda a: (-U[a], tie[a]))[: self.K]

    def update(self, t, ranking, clicks):
        n = observed_positions(clicks, self.feedback)
        self.observe(t, list(ranking[:n]), list(clicks[:n]))


def doubled(t, first):
    """The horizon assumed at step t by the doubling trick: the largest first * 2^k <= t, at least ``first``."""
    n = first
    while 2 * n <= t:
        n *= 2
    return n
