"""Models in which the best list has the K most attractive items, the better ones at the positions that count more."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftrank.kernels import kernel


@kernel
def most_attractive(alpha, best):
    """The K most attractive items, best first; equal ones by index."""
    k = best.shape[0]
    for a in range(alpha.shape[0]):
        i = min(a, k)
        if i == k:
            i -= 1
            if alpha[a] <= alpha[best[i]]:
                continue
        while i > 0 and alpha[a] > alpha[best[i - 1]]:
            best[i] = best[i - 1]
            i -= 1
        best[i] = a


def missed_value(weight: Any) -> Any:
    r"""The value :math:`1 - \prod_k (1 - w_k \alpha(R_k))` for the kernel ``weight(m, k, K)``."""

    @kernel
    def value(m, alpha, items, room):
        missed = 1.0
        K = items.shape[0]
        for k in range(K):
            missed *= 1.0 - weight(m, k, K) * alpha[items[k]]
        return 1.0 - missed

    return value


def placed_optimum(weight: Any, value: Any) -> Any:
    """The k-th most attractive item at the position with the k-th largest weight."""

    @kernel
    def optimum(m, alpha, best, room):
        K = best.shape[0]
        most_attractive(alpha, best)
        sorted_items = room[:K]
        for k in range(K):
            sorted_items[k] = best[k]
        for k in range(K):
            place = 0
            w = weight(m, k, K)
            for j in range(K):
                v = weight(m, j, K)
                place += v > w or (v == w and j < k)
            best[k] = np.uint32(sorted_items[place])
        return value(m, alpha, best, room[K:])

    return optimum
