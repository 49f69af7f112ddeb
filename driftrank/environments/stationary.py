"""Stationary: nothing changes."""

from __future__ import annotations

from driftrank.environments.base import NEVER, QueryEnvironment
from driftrank.kernels import kernel


class Stationary(QueryEnvironment):
    """Attraction that never changes.

    >>> Stationary([[0.1, 0.5, 0.3]], k=2).breakpoints(1000)
    []
    """

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        return NEVER
