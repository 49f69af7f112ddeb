"""The best list by search, for models in which no order of the items is always best."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftrank.clickmodels.best_list.by_position import most_attractive
from driftrank.kernels import kernel

#: at most this many lists and prefixes are evaluated; there are fewer of up to 5 of 10 items
NODES = 60_000


def searched_optimum(value: Any) -> Any:
    """The best list by branch and bound, for the expected number of clicks.

    An item adds at most its attraction to the value of the items above it, which bounds the value of a prefix. The
    search starts from the most attractive items in decreasing order, improved by exchanging single items. After
    :data:`NODES` lists it returns the best so far: it is exact for at most 5 of 10 items, and mostly so for more.
    """

    @kernel
    def exchanged(m, alpha, best, work):
        """Exchange items of the list with others, and with each other, while that raises its value."""
        K = best.shape[0]
        total = value(m, alpha, best, work)
        better = True
        while better:
            better = False
            for k in range(K):
                for a in range(alpha.shape[0]):
                    old = best[k]
                    other = -1
                    for j in range(K):
                        if best[j] == a:
                            other = j
                    if other >= 0:
                        best[other] = old
                    best[k] = a
                    new = value(m, alpha, best, work)
                    if new > total + 1e-13:
                        total = new
                        better = True
                    else:
                        best[k] = old
                        if other >= 0:
                            best[other] = a
        return total

    @kernel
    def optimum(m, alpha, best, work):
        L = alpha.shape[0]
        K = best.shape[0]
        order = work[:L]  # items, most attractive first
        used = work[L : 2 * L]  # by place in that order
        place = work[2 * L : 2 * L + K]  # of the item at every position of the current list
        kept = work[2 * L + K : 2 * L + 2 * K]
        rest = work[2 * L + 2 * K :]
        for a in range(L):
            used[a] = 0.0
            j = a
            while j > 0 and alpha[np.int64(order[j - 1])] < alpha[a]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = a
        most_attractive(alpha, best)
        total = exchanged(m, alpha, best, rest)
        for i in range(K):
            kept[i] = best[i]
        depth = 0
        place[0] = -1.0
        nodes = 0
        while depth >= 0 and nodes < NODES:
            j = np.int64(place[depth])
            if j >= 0:
                used[j] = 0.0
            j += 1
            while j < L and used[j] > 0.0:
                j += 1
            if j >= L:
                depth -= 1
                continue
            place[depth] = j
            used[j] = 1.0
            best[depth] = np.uint32(order[j])
            nodes += 1
            bound = value(m, alpha, best[: depth + 1], rest)
            if depth == K - 1:
                if bound > total + 1e-13:
                    total = bound
                    for i in range(K):
                        kept[i] = best[i]
                continue
            left = K - 1 - depth
            i = 0
            while left > 0:
                if used[i] == 0.0:
                    bound += alpha[np.int64(order[i])]
                    left -= 1
                i += 1
            if bound > total + 1e-13:
                depth += 1
                place[depth] = -1.0
        for i in range(K):
            best[i] = np.uint32(kept[i])
        return total

    return optimum
