"""Keep the best items of a stream, in order."""

from __future__ import annotations

from driftrank.kernels.compile import kernel
from driftrank.kernels.rng import derive

#: how ties are broken
TIES = ("random", "index")
_INDEX = 1


@kernel
def wins_tie(a, b, e, c, ties):
    """Whether item ``a`` goes before item ``b`` of the same score."""
    if ties == _INDEX:
        return a < b
    return derive(e.key, c.token[a]) < derive(e.key, c.token[b])


@kernel
def insert(r, first, filled, end, u, a, e, c, ties):
    """Offer item ``a`` with score ``u`` to positions ``first .. end-1`` of the list ``r``, of which those before
    ``filled`` are taken and sorted. Returns the new ``filled``.

    The order (score, then tie) is strict, so the list does not depend on the order of the offers. Random ties cost nothing
    where there are none.
    """
    i = filled
    if filled < end:
        filled += 1
    else:
        i -= 1
        v = r.score[i]
        if u < v or (u == v and not wins_tie(a, r.items[i], e, c, ties)):
            return filled
    while i > first:
        v = r.score[i - 1]
        if u < v or (u == v and not wins_tie(a, r.items[i - 1], e, c, ties)):
            break
        r.items[i] = r.items[i - 1]
        r.score[i] = v
        i -= 1
    r.items[i] = a
    r.score[i] = u
    return filled
