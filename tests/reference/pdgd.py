from __future__ import annotations

import numpy as np

from tests.reference.index import key_below
from tests.reference.linear_ranker import _LinearRankerReference


def probability(f, ranking):
    """Of a list, by the Plackett-Luce model over all items."""
    left, out = list(range(len(f))), 1.0
    for a in ranking:
        weights = np.exp(f[left] - f[left].max())
        out *= weights[left.index(a)] / weights.sum()
        left.remove(a)
    return out


def gradient(f, features, ranking, clicks):
    """The sum over preferences, with the probabilities of both lists from their definition."""
    total = np.zeros(features.shape[1])
    clicked = [i for i, c in enumerate(clicks) if c]
    considered = range(min(clicked[-1] + 2, len(ranking))) if clicked else range(0)
    for k in clicked:
        for n in considered:
            if clicks[n]:
                continue
            exchanged = list(ranking)
            exchanged[k], exchanged[n] = ranking[n], ranking[k]
            here, there = probability(f, ranking), probability(f, exchanged)
            a, b = ranking[k], ranking[n]
            slope = 1 / (2 + np.exp(f[a] - f[b]) + np.exp(f[b] - f[a]))
            total += there / (here + there) * slope * (features[a] - features[b])
    return total


class PDGD(_LinearRankerReference):
    """Gumbel numbers come from the keys of items."""

    def rank(self, t, key):
        self.f = self.features @ self.theta
        u = np.array([(key_below(key, a) >> 12) + 0.5 for a in range(self.L)]) * 2.0**-52
        return np.argsort(-(self.f - np.log(-np.log(u))), kind="stable")[: self.K].tolist()

    def update(self, t, ranking, clicks):
        self.theta = self.theta + self.rate * gradient(self.f, self.features, ranking, clicks)
