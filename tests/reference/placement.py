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

    def __init__(self, L, K, horizon=None, *, stop_after_click="decreasing", feedback="last", **rest):
        super().__init__(L, K, horizon, feedback=feedback, **rest)
        self.stop_after_click = [-i for i in range(K)] if stop_after_click == "decreasing" else stop_after_click

    def rank(self, t, key):
        return place(super().rank(t, key), self.stop_after_click)
