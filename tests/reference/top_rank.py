from __future__ import annotations

import math

import numpy as np

from tests.reference.index import key_below


class TopRank:
    """The blocks are worked out at every step from the set of pairs."""

    def __init__(self, L, K, horizon=None, *, delta="auto"):
        self.L, self.K = L, K
        self.delta = 1 / horizon if delta == "auto" else delta
        self.S, self.M = np.zeros((L, L)), np.zeros((L, L))
        self.worse = set()  # (i, j): j is worse than i

    def blocks(self):
        left, blocks = set(range(self.L)), []
        while left:
            free = {j for j in left if not any((i, j) in self.worse for i in left)} or set(left)
            blocks.append(free)
            left -= free
        return blocks

    def rank(self, t, key):
        shown = []
        for block in self.blocks():
            shown += sorted(block, key=lambda a: key_below(key, a))
        return shown[: self.K]

    def update(self, t, ranking, clicks):
        click = np.zeros(self.L)
        click[ranking] = clicks
        constant = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
        for block in self.blocks():
            for i in block:
                for j in block:
                    self.S[i, j] += click[i] - click[j]
                    self.M[i, j] += abs(click[i] - click[j])
                    M = self.M[i, j]
                    if M > 0 and self.S[i, j] >= math.sqrt(2 * M * math.log(constant * math.sqrt(M) / self.delta)):
                        self.worse.add((i, j))
