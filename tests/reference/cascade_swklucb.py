from __future__ import annotations

import math

from tests.reference.cascade_klucb import kl_ucb
from tests.reference.windowed import _Windowed


class CascadeSWKLUCB(_Windowed):
    def index(self, t, key=None):
        N, X = self.counts()
        level = math.log(min(t, self.tau(t)))
        return [kl_ucb(x / n, level / n) if n else math.inf for x, n in zip(X, N, strict=True)]
