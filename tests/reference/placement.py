"""What the plain versions of policies share that place their items."""

from __future__ import annotations


def place(best, weights):
    """The k-th item at the position with the k-th largest weight, of equal ones the upper."""
    positions = sorted(range(len(best)), key=lambda i: (-weights[i], i))
    shown = [None] * len(best)
    for a, position in zip(best, positions, strict=True):
        shown[position] = a
    return shown


class _DCM:
    """In front of the plain version for the cascade model."""

    def __init__(self, L, K, horizon=None, *, termination="decreasing", feedback="last", **rest):
        super().__init__(L, K, horizon, feedback=feedback, **rest)
        self.termination = [-i for i in range(K)] if termination == "decreasing" else termination

    def rank(self, t, key):
        return place(super().rank(t, key), self.termination)
