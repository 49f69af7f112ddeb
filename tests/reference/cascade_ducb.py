from __future__ import annotations

import numpy as np

from tests.reference.discounted import _Discounted


class CascadeDUCB(_Discounted):
    def __init__(self, L, K, horizon=None, *, epsilon=0.5, unseen="inf", **rest):
        super().__init__(L, K, horizon, **rest)
        self.epsilon, self.unseen = epsilon, unseen

    def index(self, t, key=None):
        N, X, m = self.now(t)
        U = np.full(self.L, np.inf if self.unseen == "inf" else 1.0 + 2.0 * 1.0)
        seen = N > 0
        U[seen] = X[seen] / N[seen] + 2 * np.sqrt(self.epsilon * np.log(m) / N[seen])
        return U
