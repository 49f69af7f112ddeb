from __future__ import annotations

import numpy as np

from tests.reference.windowed import _Windowed


class CascadeSWUCB(_Windowed):
    def __init__(self, L, K, horizon=None, *, epsilon=0.5, unseen="inf", **rest):
        super().__init__(L, K, horizon, **rest)
        self.epsilon, self.unseen = epsilon, unseen

    def index(self, t, key=None):
        N, X = self.counts()
        U = np.full(self.L, np.inf if self.unseen == "inf" else 1.0 + 1.0)
        seen = N > 0
        U[seen] = X[seen] / N[seen] + np.sqrt(self.epsilon * np.log(min(t, self.tau(t))) / N[seen])
        return U
