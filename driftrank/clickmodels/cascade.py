"""The cascade model."""

from __future__ import annotations

from driftrank.clickmodels.base import ClickModel
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform


class CascadeModel(ClickModel):
    r"""Users read from the top and click the first item that attracts them, then leave (Craswell et al., 2008).

    The reward of a list is the probability of a click, :math:`1 - \prod_k (1 - \alpha(R(k)))` (eq. 1 in expectation).
    It does not depend on the order, so the K most attractive items in any order are a best list.

    >>> CascadeModel().best([0.1, 0.9, 0.5], 2)
    [1, 2]
    """

    @staticmethod
    @kernel
    def click(m, alpha, key, items, clicks):
        # each item has its own randomness, so that whether it attracts this user does not depend on the list
        n = items.shape[0]
        i = 0
        clicked = 0
        while i < n and clicked == 0:
            a = items[i]
            clicked = 1 if uniform(derive(key, a)) < alpha[a] else 0
            clicks[i] = clicked
            i += 1
        while i < n:
            clicks[i] = 0
            i += 1
        return clicked

    @staticmethod
    @kernel
    def value(m, alpha, items):
        missed = 1.0
        for i in range(items.shape[0]):
            missed *= 1.0 - alpha[items[i]]
        return 1.0 - missed

    @staticmethod
    @kernel
    def optimum(m, alpha, best):
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
        missed = 1.0
        for i in range(k):
            missed *= 1.0 - alpha[best[i]]
        return 1.0 - missed
