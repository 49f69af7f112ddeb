from __future__ import annotations

import math

import numpy as np

from tests.reference.windowed import _Windowed


def cucb_index(N, X, n, exploration):
    """min(1, mean + sqrt(1.5 ln n / N)), infinite where N = 0."""
    U = np.full(len(N), np.inf)
    seen = N > 0
    U[seen] = np.minimum(1, X[seen] / N[seen] + np.sqrt(exploration * np.log(n) / N[seen]))
    return U


class CUCBSW(_Windowed):
    def __init__(self, L, K, horizon=None, *, form="gap_free", variation="auto", exploration=1.5, **rest):
        super().__init__(L, K, horizon, **rest)
        self.form, self.exploration = form, exploration
        self.V = self.n_breakpoints if variation == "auto" else variation

    def recommended(self, n):
        if self.form == "gap_dependent":
            return round(min(math.sqrt(n / self.V), n), 9)
        return round(min(math.cbrt(self.L * n**2 / (self.K * self.V**2)), n), 9)

    def index(self, t, key=None):
        return cucb_index(*self.counts(), self.horizon or t, self.exploration)
