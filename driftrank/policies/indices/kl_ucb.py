"""KL upper confidence bounds, U = max{u: N kl(mean, u) <= q}, with a level q that all items share.

A bound is inverted only for items that can be among the K best. Comparing kl(mean, theta) with the K-th best bound so
far, theta, shows this without a logarithm; the items of the last list come first, so mostly K inversions are needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import entropy, kl_ucb_given
from driftrank.kernels.layout import Field, field
from driftrank.kernels.top_k import arrange, insert, listed, offer, tie_break


def kl_fields() -> dict[str, Field]:
    """2 L floats."""
    return {"mean": field("L"), "entropy": field("L")}  # entropy of the mean


@kernel
def refresh_kl(p, s, a):
    """Update mean and entropy of item ``a``, whose counts have changed."""
    if s.N[a] > 0.0:
        s.mean[a] = s.X[a] / s.N[a]
        s.entropy[a] = entropy(s.mean[a])
    else:
        s.mean[a] = 0.0
        s.entropy[a] = 0.0


@kernel
def kl_index(p, s, e, c, a, q):
    """The bound of item ``a``; infinite without counts."""
    if s.N[a] == 0.0:
        return np.inf
    return kl_ucb_given(s.mean[a], q / s.N[a], s.entropy[a])


@kernel
def _always(p, e):
    return True


@cache
def rank_by_kl(level: Any, index: Any = kl_index, bounded: Any = _always) -> Any:
    """The kernel ``rank`` for the level ``level(p, s, e)``.

    ``bounded(p, e)`` is True if the index of an item with counts is its bound at this step.
    """

    @kernel
    def rank(p, s, e, c, r):
        q = level(p, s, e)
        K = r.items.shape[0]
        for i in range(K):  # the list that r holds is a guess at the new one
            insert(r, 0, i, K, index(p, s, e, c, r.items[i], q), r.items[i], e, c, p.ties)
        last_tie = tie_break(r.items[K - 1], e.key, c, p.ties)
        theta = -1.0
        log_theta = 0.0
        log_rest = 0.0
        j = 0
        while True:
            # Search the next item that may belong into the list. Bounds are computed outside of this loop, so that
            # the threads of a GPU compute theirs at the same time, whichever items they are of.
            worst = r.score[K - 1]
            while j < c.items.shape[0]:
                a = c.items[j]
                mean = s.mean[a]
                if not (s.N[a] > 0.0 and bounded(p, e)):
                    break
                if worst < np.inf:  # else the list is full of items never observed
                    if worst != theta:
                        theta = worst
                        log_theta = log(theta)
                        log_rest = log(1.0 - theta)
                    # N kl(mean, theta) above the level: the bound of a is below theta (by more than rounding can hide)
                    below = mean < theta < 0.999999999 and s.N[a] * (
                        s.entropy[a] - mean * log_theta - (1.0 - mean) * log_rest
                    ) > q * (1.0 + 1e-6)
                    if not below and not listed(r, a):
                        break
                j += 1
            if j == c.items.shape[0]:
                break
            a = c.items[j]
            last_tie = offer(r, index(p, s, e, c, a, q), a, last_tie, e, c, p.ties)
            j += 1
        arrange(r, p.order)

    return rank
