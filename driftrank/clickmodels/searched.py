"""Models in which no order of the items gives the best list: it is searched for."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftrank.clickmodels.placed import most_attractive
from driftrank.kernels import kernel

#: so many lists and beginnings of lists are looked at; all there are of up to 5 of 10 items are fewer
NODES = 60_000


def searched_optimum(value: Any) -> Any:
    """The best list by branch and bound, for the expected number of clicks.

    An item adds at most its attraction to what the items above it are worth, which bounds what a beginning can become.
    The search starts from the most attractive items in decreasing order, improved by exchanging single items. When
    :data:`NODES` lists have been looked at it ends with the best so far, so that it is exact for certain for at most 5
    of 10 items, and mostly so for more.
    """

    @kernel
    def exchanged(m, alpha, best, room):
        """Exchange items of the list with others, and with each other, while that helps."""
        K = best.shape[0]
        total = value(m, alpha, best, room)
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
                    new = value(m, alpha, best, room)
                    if new > total + 1e-13:
                        total = new
                        better = True
                    else:
                        best[k] = old
                        if other >= 0:
                            best[other] = a
        return total

    @kernel
    def optimum(m, alpha, best, room):
        L = alpha.shape[0]
        K = best.shape[0]
        order = room[:L]  # items, most attractive first
        used = room[L : 2 * L]  # by place in that order
        place = room[2 * L : 2 * L + K]  # of the item at every position of the list looked at
        kept = room[2 * L + K : 2 * L + 2 * K]
        work = room[2 * L + 2 * K :]
        for a in range(L):
            used[a] = 0.0
            j = a
            while j > 0 and alpha[np.int64(order[j - 1])] < alpha[a]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = a
        most_attractive(alpha, best)
        total = exchanged(m, alpha, best, work)
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
            worth = value(m, alpha, best[: depth + 1], work)
            if depth == K - 1:
                if worth > total + 1e-13:
                    total = worth
                    for i in range(K):
                        kept[i] = best[i]
                continue
            left = K - 1 - depth
            i = 0
            while left > 0:
                if used[i] == 0.0:
                    worth += alpha[np.int64(order[i])]
                    left -= 1
                i += 1
            if worth > total + 1e-13:
                depth += 1
                place[depth] = -1.0
        for i in range(K):
            best[i] = np.uint32(kept[i])
        return total

    return optimum
