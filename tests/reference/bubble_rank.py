from __future__ import annotations

import math

import numpy as np

from tests.reference.index import key_below


class BubbleRank:
    """s and m are kept as two matrices, both halves of each."""

    def __init__(self, L, K, horizon=None, *, initial="random", extend="outside", delta="auto"):
        self.L, self.K, self.initial, self.extend = L, K, initial, extend
        self.log = 4 * math.log(horizon) if delta == "auto" else math.log(1 / delta)
        self.s, self.m = np.zeros((L, L)), np.zeros((L, L))
        self.base = list(range(L))

    def above(self, i, j):
        """Whether i is known to belong above j."""
        return self.s[i, j] > 2 * math.sqrt(self.m[i, j] * self.log)

    def rank(self, t, key):
        if t == 1 and self.initial == "random":
            self.base.sort(key=lambda a: key_below(key, a))
        K, h = self.K, t % 2
        shown = self.base[:K]
        self.pairs = []
        for k in range(1, (K - h) // 2 + 1):
            upper, lower = 2 * k - 1 + h - 1, 2 * k + h - 1  # counted from 0
            i, j = self.base[upper], self.base[lower]
            if not self.above(i, j):
                self.pairs.append((upper, lower))
                if key_below(key, upper) % 2:
                    shown[upper], shown[lower] = j, i
        self.rival = None
        if self.extend == "outside" and ((K - h) % 2 == 1 or K == 1):
            mine = key_below(key, K - 1)
            i = self.base[K - 1]
            rivals = [j for j in self.base[K:] if not self.above(i, j)]
            if rivals:
                self.rival = min(rivals, key=lambda j: key_below(mine, j))
                if mine % 2:
                    shown[K - 1] = self.rival
        return shown

    def score(self, i, j, difference):
        self.s[i, j] += difference
        self.s[j, i] -= difference
        self.m[i, j] += abs(difference)
        self.m[j, i] += abs(difference)

    def update(self, t, ranking, clicks):
        K = self.K
        for upper, lower in self.pairs:
            self.score(ranking[upper], ranking[lower], clicks[upper] - clicks[lower])
        if self.rival is not None:
            i = self.base[K - 1]
            self.score(i, self.rival, clicks[K - 1] if ranking[K - 1] == i else -clicks[K - 1])
            if self.above(self.rival, i):
                place = self.base.index(self.rival)
                self.base[K - 1], self.base[place] = self.rival, i
        for k in range(K - 1):
            if self.above(self.base[k + 1], self.base[k]):
                self.base[k], self.base[k + 1] = self.base[k + 1], self.base[k]
