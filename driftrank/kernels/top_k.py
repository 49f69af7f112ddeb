"""Keep the best items of a stream in order."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel
from driftrank.kernels.rng import derive

#: tie-breaking
TIES = ("random", "index")
#: order of the list; increasing: best last, so that more of the list is observed (research only)
ORDER = ("decreasing", "increasing")
_INDEX = 1
_INCREASING = 1


@kernel
def tie_break(a, key, c, ties):
    """The tie-break of item ``a``: of items with the same score, the smallest goes first."""
    if ties == _INDEX:
        return np.uint64(a)
    return derive(key, c.token[a])


@kernel
def wins_tie(a, b, key, c, ties):
    """True if item ``a`` goes before item ``b`` of the same score."""
    return tie_break(a, key, c, ties) < tie_break(b, key, c, ties)


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
        mine = tie_break(a, e.key, c, ties)
        for i in range(first, end):
            if i < filled and r.score[i] == u:
                place += tie_break(r.items[i], e.key, c, ties) < mine
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


#: ``insert(r, first, filled, end, u, a, e, c, ties)``: offer item ``a`` with score ``u`` to positions
#: ``first .. end-1`` of the list ``r``; those before ``filled`` are taken and sorted. Returns the new ``filled``. The
#: order (score, then tie-break) is strict, so the list does not depend on the order of the offers. Tie-breaks cost
#: nothing unless scores are equal.
insert = kernel(_insert_by_search, on_gpu=_insert_by_counting)


@kernel
def listed(r, a):
    """True if item ``a`` is in the list."""
    for i in range(r.items.shape[0]):
        if r.items[i] == a:
            return True
    return False


@kernel
def offer(r, u, a, last_tie, e, c, ties):
    """Offer item ``a`` with score ``u``, which may be in the list already, to a full list.

    ``last_tie`` is the tie-break of the last item, stored so that many ties cost one draw each; returns the new one.
    """
    last = r.items.shape[0] - 1
    if u < r.score[last] or (u == r.score[last] and tie_break(a, e.key, c, ties) >= last_tie) or listed(r, a):
        return last_tie
    insert(r, 0, last + 1, last + 1, u, a, e, c, ties)
    return tie_break(r.items[last], e.key, c, ties)


@kernel
def arrange(r, order):
    """Bring a list that is sorted best first into the given order."""
    if order == _INCREASING:
        i = 0
        j = r.items.shape[0] - 1
        while i < j:
            r.items[i], r.items[j] = r.items[j], r.items[i]
            r.score[i], r.score[j] = r.score[j], r.score[i]
            i += 1
            j -= 1
