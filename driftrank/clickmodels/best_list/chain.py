r"""The best list of models in which users read from the top and may leave after every item.

The value of a list is then a chain: :math:`V(R) = \sum_k g(R_k) \prod_{i<k} c(R_i)`, with the gain g of an item and
the probability c to read on after it. The best order of a set is by decreasing :math:`g/(1-c)`, as exchanging two
neighbours shows, and the best list of K items is found by a dynamic program over all items in that order: with
``W[j][k]`` the value of the best k of the items from the j-th on, ``W[j][k] = max(W[j+1][k], g_j + c_j W[j+1][k-1])``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform


@kernel
def still_reading(alpha, b):
    """The probability that the user read an item of attraction ``alpha``, given that it was not clicked."""
    rest = 1.0 - b * alpha
    return b * (1.0 - alpha) / rest if rest > 0.0 else 0.0


@kernel
def chance_if_read(m, alpha, k, a, b):
    """The probability of a click if the belief ``b`` is the probability that the item is read."""
    return b * alpha[a]


@kernel
def attraction_of(m, alpha, a):
    """A gain: the probability of a click."""
    return alpha[a]


@kernel
def unclicked(m, alpha, k, a):
    """The probability of no click and reading on, if the first parameter is that of reading on after no click."""
    return m[0] * (1.0 - alpha[a])


def reading_user(reads_on: Any) -> Any:
    """The kernel ``click`` of users who read from the top and click what attracts them.

    ``reads_on(m, alpha, k, a, own, clicked)`` is true if the user reads on after item ``a``; it may use the branches of
    the key ``own`` from 1 on.
    """

    @kernel
    def click(m, alpha, key, items, clicks):
        total = 0
        reading = True
        for k in range(items.shape[0]):
            a = items[k]
            clicks[k] = 0
            if reading:
                # each item has its own random key, so that whether it attracts this user does not depend on the list
                own = derive(key, a)
                clicks[k] = 1 if uniform(own) < alpha[a] else 0
                total += clicks[k]
                reading = reads_on(m, alpha, k, a, own, clicks[k])
        return total

    return click


def chain_marginals(go_on: Any) -> Any:
    """The kernel ``marginals``; ``go_on(m, alpha, k, a)`` is the probability to read on after item ``a``."""

    @kernel
    def marginals(m, alpha, items, out, work):
        reading = 1.0
        for k in range(items.shape[0]):
            out[k] = reading * alpha[items[k]]
            reading *= go_on(m, alpha, k, items[k])

    return marginals


def chain_value(gain: Any, go_on: Any) -> Any:
    """The kernel ``value`` for the kernels ``gain(m, alpha, a)`` and ``go_on(m, alpha, k, a)``."""

    @kernel
    def value(m, alpha, items, work):
        total = 0.0
        reading = 1.0
        for k in range(items.shape[0]):
            total += reading * gain(m, alpha, items[k])
            reading *= go_on(m, alpha, k, items[k])
        return total

    return value


def chain_optimum(gain: Any, go_on: Any) -> Any:
    """The kernel ``optimum``, if ``go_on`` does not depend on the position: O(L^2 + L K)."""
    value = chain_value(gain, go_on)

    @kernel
    def density(m, alpha, a):
        rest = 1.0 - go_on(m, alpha, 0, a)
        return gain(m, alpha, a) / rest if rest > 0.0 else np.inf

    @kernel
    def optimum(m, alpha, best, work):
        L = alpha.shape[0]
        K = best.shape[0]
        order = work[:L]
        density_of = work[L : 2 * L]
        table = work[2 * L :]  # W, a row of K numbers for every item and one more
        for a in range(L):  # insertion sort; ties by index
            d = density(m, alpha, a)
            j = a
            while j > 0 and density_of[j - 1] < d:
                density_of[j] = density_of[j - 1]
                order[j] = order[j - 1]
                j -= 1
            density_of[j] = d
            order[j] = a
        for k in range(K):
            table[L * K + k] = -1.0 - k  # worse than any list: too few items are left
        for j in range(L - 1, -1, -1):
            a = np.int64(order[j])
            g = gain(m, alpha, a)
            c = go_on(m, alpha, 0, a)
            for k in range(K):
                rest = table[(j + 1) * K + k - 1] if k > 0 else 0.0
                taken = g + c * rest if rest >= 0.0 else -1.0
                table[j * K + k] = max(table[(j + 1) * K + k], taken)
        j = 0
        for i in range(K):
            k = K - 1 - i
            while table[j * K + k] == table[(j + 1) * K + k]:
                j += 1
            best[i] = np.uint32(order[j])
            j += 1
        return value(m, alpha, best, work)  # W[0][K-1] up to rounding: the regret of this list is exactly zero

    return optimum
