"""Random orders: items sorted by a random number each, so that slots can be permuted."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel


@kernel
def offer(r, first, filled, end, u, a):
    """Offer item ``a`` with the random number ``u`` to positions ``first .. end-1`` of the list ``r``. Those before
    ``filled`` are taken, smallest number first. Returns the new ``filled``. Numbers must be distinct."""
    i = np.intp(filled)
    if filled < end:
        filled += 1
    else:
        i -= 1
        if u >= r.score[i]:
            return filled
    while i > first and u < r.score[i - 1]:
        r.items[i] = r.items[i - 1]
        r.score[i] = r.score[i - 1]
        i -= 1
    r.items[i] = a
    r.score[i] = u
    return filled
