"""Items in decreasing order of attraction; of equal ones, the smaller index comes first."""

from __future__ import annotations

from driftrank.kernels import kernel


@kernel
def better(base, a, b):
    """True if item a comes before b."""
    return base[a] > base[b] or (base[a] == base[b] and a < b)


@kernel
def next_best(base, last):
    """The item after ``last``; the first one after -1."""
    best = -1
    for a in range(base.shape[0]):
        if (last < 0 or better(base, last, a)) and (best < 0 or better(base, a, best)):
            best = a
    return best


@kernel
def kth_best(base, k):
    """The k-th item."""
    last = -1
    for _ in range(k):
        last = next_best(base, last)
    return last
