"""An order of the items that does not depend on their slots.

Items are sorted by token at the start; later ones are appended. ``order`` is a field of L integers filled with -1
for no item.
"""

from __future__ import annotations

from driftrank.kernels import kernel


@kernel
def order_by_token(order, c):
    """Set the first order, in O(L) if slots are sorted by token, as in simulations, in O(L^2) at worst."""
    for j in range(c.items.shape[0]):
        a = c.items[j]
        i = j
        while i > 0 and c.token[a] < c.token[order[i - 1]]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = a


@kernel
def stand_last(order, a):
    """Move the new item ``a`` to the end, from wherever it was."""
    j = 0
    while order[j] >= 0 and order[j] != a:
        j += 1
    while j + 1 < order.shape[0] and order[j + 1] >= 0:
        order[j] = order[j + 1]
        j += 1
    order[j] = a
