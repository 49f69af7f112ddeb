"""What the plain versions of ranked bandits share."""

from __future__ import annotations

import numpy as np

from tests.reference.index import key_below


def uniform_of(key):
    """The number in [0, 1) that belongs to a key: its highest 53 bits."""
    return (key >> 11) * 2.0**-53


def mixture_walk(w, g, u):
    """The arm that a uniform number ``u`` draws from (1-g) w/W + g/L, and its probability: the share g of the numbers
    goes to all arms alike, the rest to the arm at which the sum of weights passes it."""
    passed = np.cumsum(w)
    W, L = passed[-1], len(w)
    b = int(u / g * L) if u < g else int(np.argmax(passed > (u - g) / (1 - g) * W))
    return b, (1 - g) * (w[b] / W) + g / L


class _RankedReference:
    """A bandit per position. Subclasses write ``propose(t, i, key) -> (item, probability)`` and
    ``learn(t, i, b, reward, probability)``."""

    def __init__(self, L, K, horizon=None):
        self.L, self.K, self.horizon = L, K, horizon

    def rank(self, t, key):
        shown, self.proposals = [], []
        for i in range(self.K):
            self.proposals.append(self.propose(t, i, key_below(key, 2 * i)))
            item = self.proposals[i][0]
            if item in shown:
                others = key_below(key, 2 * i + 1)
                item = min((a for a in range(self.L) if a not in shown), key=lambda a: key_below(others, a))
            shown.append(item)
        return shown

    def update(self, t, ranking, clicks):
        for i, (b, probability) in enumerate(self.proposals):
            self.learn(t, i, b, int(clicks[i] == 1 and ranking[i] == b), probability)
