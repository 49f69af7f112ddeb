"""What the plain versions of ranked bandits share."""

from __future__ import annotations

from tests.reference.index import key_below


def uniform_of(key):
    """The number in [0, 1) that belongs to a key: its highest 53 bits."""
    return (key >> 11) * 2.0**-53


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
