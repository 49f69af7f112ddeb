"""The best list by position weights: the k-th most attractive item at the position with the k-th largest weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftrank.kernels import kernel


@kernel
def most_attractive(alpha, best):
    """Fill in the K most attractive items, best first; ties by index."""
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
    def value(m, alpha, items, work):
        missed = 1.0
        K = items.shape[0]
        for k in range(K):
            missed *= 1.0 - weight(m, k, K) * alpha[items[k]]
        return 1.0 - missed

    return value


def placed_optimum(weight: Any, value: Any) -> Any:
    """The kernel ``optimum`` for the kernels ``weight(m, k, K)`` and ``value``."""

    @kernel
    def optimum(m, alpha, best, work):
        K = best.shape[0]
        most_attractive(alpha, best)
        sorted_items = work[:K]
        for k in range(K):
            sorted_items[k] = best[k]
        for k in range(K):
            place = 0
            w = weight(m, k, K)
            for j in range(K):
                v = weight(m, j, K)
                place += v > w or (v == w and j < k)
            best[k] = np.uint32(sorted_items[place])
        return value(m, alpha, best, work[K:])

    return optimum
