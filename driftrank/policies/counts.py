"""What policies count of every item: how often it was looked at, N, and clicked, X; in all, or by position.

A way of counting can be combined with every way of forgetting: :class:`~driftrank.policies.cumulative.Cumulative` (not
at all), :class:`~driftrank.policies.discounted.Discounted` and :class:`~driftrank.policies.windowed.Windowed`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field, field

#: what is left of an observation after ages: an item out of sight stays one that was seen
_LEAST = 1e-290


class Counts(NamedTuple):
    """A way of counting: the fields that it takes, and its kernels."""

    fields: dict[str, Field]
    add: Any  #: (p, s, a, i, clicked, weight): item ``a`` was looked at in position ``i``, counted from 0
    divide: Any  #: (p, s, a, unit): divide the counts of an item; returns whether it has any
    clear: Any  #: (p, s, a): the item has none


@kernel
def _add(p, s, a, i, clicked, weight):
    s.N[a] += weight
    s.X[a] += weight * clicked


@kernel
def _divide(p, s, a, unit):
    if s.N[a] == 0.0:
        return False
    s.N[a] = max(s.N[a] / unit, _LEAST)
    s.X[a] /= unit
    return True


@kernel
def _clear(p, s, a):
    s.N[a] = 0.0
    s.X[a] = 0.0


@kernel
def _add_at(p, s, a, i, clicked, weight):
    _add(p, s, a * p.K + i, i, clicked, weight)


@kernel
def _divide_at(p, s, a, unit):
    any_left = False
    for j in range(a * p.K, (a + 1) * p.K):
        any_left |= _divide(p, s, j, unit)
    return any_left


@kernel
def _clear_at(p, s, a):
    for j in range(a * p.K, (a + 1) * p.K):
        _clear(p, s, j)


#: ``s.N[a]``, ``s.X[a]``: 2 L floats
PER_ITEM = Counts({"N": field("L"), "X": field("L")}, _add, _divide, _clear)
#: ``s.N[a * p.K + i]``, ``s.X[a * p.K + i]``: 2 K L floats
PER_POSITION = Counts({"N": field("L", "K"), "X": field("L", "K")}, _add_at, _divide_at, _clear_at)
