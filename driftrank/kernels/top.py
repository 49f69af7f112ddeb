"""Keep the best items of a stream, in order."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel
from driftrank.kernels.rng import derive

#: how ties are broken
TIES = ("random", "index")
#: how the best items are shown; increasing: best last, so that more of the list is looked at (research only)
ORDER = ("decreasing", "increasing")
_INDEX = 1
_INCREASING = 1


@kernel
def lot(a, key, c, ties):
    """What decides between items of the same score: the smaller goes first."""
    if ties == _INDEX:
        return np.uint64(a)
    return derive(key, c.token[a])


@kernel
def wins_tie(a, b, key, c, ties):
    """Whether item ``a`` goes before item ``b`` of the same score."""
    return lot(a, key, c, ties) < lot(b, key, c, ties)


def _insert_by_search(r, first, filled, end, u, a, e, c, ties):
    i = filled
    if filled < end:
        filled += 1
    else:
        i -= 1
        v = r.score[i]
        if u < v or (u == v and not wins_tie(a, r.items[i], e.key, c, ties)):
            return filled
    while i > first:
        v = r.score[i - 1]
        if u < v or (u == v and not wins_tie(a, r.items[i - 1], e.key, c, ties)):
            break
        r.items[i] = r.items[i - 1]
        r.score[i] = v
        i -= 1
    r.items[i] = a
    r.score[i] = u
    return filled


def _insert_by_counting(r, first, filled, end, u, a, e, c, ties):
    place = first
    equal = 0
    for i in range(first, end):
        place += i < filled and r.score[i] > u
        equal += i < filled and r.score[i] == u
    if equal > 0:
        mine = lot(a, e.key, c, ties)
        for i in range(first, end):
            if i < filled and r.score[i] == u:
                place += lot(r.items[i], e.key, c, ties) < mine
    carried = np.uint32(a)
    for i in range(first, end):
        # from its place on, every item moves down
        v = r.score[i]
        b = r.items[i]
        moves = place <= i and i <= filled
        r.score[i] = u if moves else v
        r.items[i] = carried if moves else b
        u = v if moves else u
        carried = b if moves else carried
    return min(filled + 1, end)


#: ``insert(r, first, filled, end, u, a, e, c, ties)``: offer item ``a`` with score ``u`` to the positions from
#: ``first`` to before ``end`` of the list ``r``, of which those before ``filled`` are taken and sorted. Returns the new
#: ``filled``. The order (score, then tie) is strict, so the list does not depend on the order of the offers. Random
#: ties cost nothing where there are none.
insert = kernel(_insert_by_search, on_gpu=_insert_by_counting)


@kernel
def listed(r, a):
    """Whether item ``a`` is in the list."""
    for i in range(r.items.shape[0]):
        if r.items[i] == a:
            return True
    return False


@kernel
def offer(r, u, a, last_lot, e, c, ties):
    """Offer item ``a`` with score ``u``, which may be in the list already, to a full list.

    ``last_lot`` is the lot of the item in the last place, kept so that many ties cost one draw each; returns what it is
    afterwards.
    """
    last = r.items.shape[0] - 1
    if u < r.score[last] or (u == r.score[last] and lot(a, e.key, c, ties) >= last_lot) or listed(r, a):
        return last_lot
    insert(r, 0, last + 1, last + 1, u, a, e, c, ties)
    return lot(r.items[last], e.key, c, ties)


@kernel
def arrange(r, order):
    """Turn a list that is sorted best first into the wanted order."""
    if order == _INCREASING:
        i = 0
        j = r.items.shape[0] - 1
        while i < j:
            r.items[i], r.items[j] = r.items[j], r.items[i]
            r.score[i], r.score[j] = r.score[j], r.score[i]
            i += 1
            j -= 1
