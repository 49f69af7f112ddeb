from __future__ import annotations

from tests.reference.index import _IndexReference, key_below


class Random(_IndexReference):
    """Every item gets a uniform number: the highest 53 bits of its key."""

    def index(self, t, key):
        return [(key_below(key, a) >> 11) * 2.0**-53 for a in range(self.L)]

    def observe(self, t, items, labels):
        pass
