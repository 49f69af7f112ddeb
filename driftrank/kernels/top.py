"""Keep the best items of a stream, in order."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel
from driftrank.kernels.rng import derive

#: how ties are broken
TIES = ("random", "index")
_INDEX = 1


@kernel
def precedes(u, a, v, b, e, c, ties):
    """Whether item ``a`` with score ``u`` goes before item ``b`` with score ``v``: a strict order, so that the result
    does not depend on the order of visiting. Random ties cost nothing where there are none."""
    if u != v:
        return u > v
    if ties == _INDEX:
        return a < b
    return derive(e.key, c.token[a]) < derive(e.key, c.token[b])


@kernel
def insert(r, first, filled, end, u, a, e, c, ties):
    """Offer item ``a`` with score ``u`` to positions ``first .. end-1`` of the list ``r``, of which those before
    ``filled`` are taken and sorted. Returns the new ``filled``."""
    i = np.intp(filled)
    if filled < end:
        filled += 1
    else:
        i -= 1
        if not precedes(u, a, r.score[i], r.items[i], e, c, ties):
            return filled
    while i > first and precedes(u, a, r.score[i - 1], r.items[i - 1], e, c, ties):
        r.items[i] = r.items[i - 1]
        r.score[i] = r.score[i - 1]
        i -= 1
    r.items[i] = a
    r.score[i] = u
    return filled
