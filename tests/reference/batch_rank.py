from __future__ import annotations

import math

from tests.reference.cascade_klucb import kl_ucb
from tests.reference.index import key_below
from tests.reference.ranked import uniform_of


class _Batch:
    def __init__(self, items, positions, stage=0):
        self.items, self.positions, self.stage = list(items), positions, stage
        self.count, self.clicks = dict.fromkeys(self.items, 0), dict.fromkeys(self.items, 0)


class BatchRank:
    """A list of batches, each with its items, number of positions, stage and counts."""

    def __init__(self, L, K, horizon):
        self.log_n = math.log(horizon)
        self.level = self.log_n + 3 * math.log(max(1, self.log_n))
        self.batches = [_Batch(range(L), K)]

    def rank(self, t, key):
        shown = []
        first = {a: uniform_of(key_below(key, a)) for batch in self.batches for a in batch.items}
        second = {a: uniform_of(key_below(key_below(key, 2**63), a)) for a in first}
        for batch in self.batches:
            in_turn = sorted(batch.items, key=lambda a: (batch.count[a], first[a]))
            chosen = in_turn[: batch.positions]
            least = min(batch.count.values())
            # those with the least count, or all there are, are in random order by their first numbers already
            fair = batch.count[chosen[-1]] == least or len(chosen) == len(batch.items)
            shown += sorted(chosen, key=first.get if fair else second.get)
        return shown

    def update(self, t, ranking, clicks):
        clicked = dict(zip(ranking, clicks, strict=True))
        for batch in list(self.batches):
            least = min(batch.count.values())
            for a in batch.items:
                if a in clicked and batch.count[a] == least:
                    batch.count[a] += 1
                    batch.clicks[a] += clicked[a]
            if min(batch.count.values()) == max(1, math.ceil(16 * 4**batch.stage * self.log_n)):
                self.end_stage(batch)

    def end_stage(self, batch):
        n, size = min(batch.count.values()), batch.positions
        U = {a: kl_ucb(batch.clicks[a] / n, self.level / n) for a in batch.items}
        W = {a: 1 - kl_ucb(1 - batch.clicks[a] / n, self.level / n) for a in batch.items}
        d = sorted(batch.items, key=lambda a: -W[a])
        splits = [s for s in range(1, size) if W[d[s - 1]] > max(U[a] for a in d[s:])]
        if splits:
            s = max(splits)
            parts = [_Batch(d[:s], s), _Batch(d[s:], size - s)]
        elif len(d) > size:
            parts = [_Batch([a for a in d if U[a] >= W[d[size - 1]]], size, batch.stage + 1)]
        else:
            parts = [_Batch(d, size, batch.stage + 1)]
        place = self.batches.index(batch)
        self.batches[place : place + 1] = parts
