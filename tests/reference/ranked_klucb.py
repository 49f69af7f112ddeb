from __future__ import annotations

from tests.reference.cascade_klucb import kl_ucb
from tests.reference.index import level
from tests.reference.ranked_ucb1 import _RankedIndexReference


class RankedKLUCB(_RankedIndexReference):
    def __init__(self, L, K, horizon=None, *, c=0.0, **rest):
        super().__init__(L, K, horizon, **rest)
        self.c = c

    def bound(self, t, mean, N):
        return kl_ucb(mean, level(t, self.c) / N)
