from __future__ import annotations

import math

from tests.reference.cascade_klucb import kl_ucb
from tests.reference.discounted import _Discounted


class CascadeDKLUCB(_Discounted):
    def index(self, t, key=None):
        N, X, m = self.now(t)
        return [kl_ucb(x / n, math.log(m) / max(n, 1e-12)) if n else math.inf for x, n in zip(X, N, strict=True)]
