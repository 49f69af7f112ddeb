"""What the plain versions of linear rankers share."""

from __future__ import annotations

import numpy as np

from tests.reference.index import key_below


class _LinearRankerReference:
    """Items are 0 .. L-1 with the rows of ``features``, or an indicator each."""

    def __init__(self, L, K, horizon=None, *, ties="random", rate=0.1, features=None):
        self.L, self.K, self.ties, self.rate = L, K, ties, rate
        self.features = np.eye(L) if features is None else np.array(features, float)
        self.theta = np.zeros(self.features.shape[1])

    def best(self, scores, left, key):
        """The item with the largest score among those left; ties by their keys, or their numbers."""
        tie = {a: key_below(key, a) if self.ties == "random" else a for a in left}
        return min(left, key=lambda a: (-scores[a], tie[a]))
