"""Counts of every item: observations N and clicks X, per item or per item and position.

Each way of counting can be combined with each way of forgetting:
:class:`~driftrank.policies.memory.cumulative.Cumulative` (none),
:class:`~driftrank.policies.memory.discounted.Discounted` and :class:`~driftrank.policies.memory.windowed.Windowed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy

#: the least weight of an old observation, so that an item once seen stays one that was seen
_LEAST = 1e-290


class Counts(NamedTuple):
    """A way of counting: its fields and its kernels."""

    fields: dict[str, Field]
    add: Any  #: (p, s, a, i, clicked, weight): count an observation of item ``a`` in position ``i``, from 0
    divide: Any  #: (p, s, a, unit): divide the counts of item ``a``; returns True if it has any
    clear: Any  #: (p, s, a): set the counts of item ``a`` to 0


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


@kernel
def no_refresh(p, s, a):
    """For an index that needs nothing but the counts."""


class CountingPolicy(IndexPolicy):
    """Policies whose index uses the observations N and clicks X of items; subclasses decide how these are forgotten."""

    abstract: ClassVar[bool] = True

    #: counts per item, or per item and position
    counts: ClassVar[Counts] = PER_ITEM
    init: ClassVar[Any] = None
    refresh: ClassVar[Any] = staticmethod(no_refresh)
    believe: ClassVar[Any] = staticmethod(believe_counts)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {**self.counts.fields, **self.item_fields()}

    def item_fields(self) -> dict[str, Field]:
        """Further fields of a subclass."""
        return {}


@cache
def refresh_all(refresh: Any) -> Any:
    """The kernel ``init`` that computes what the index needs of every item."""

    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            refresh(p, s, a)

    return init


@cache
def forget_counts(refresh: Any, clear: Any) -> Any:
    """The kernel ``forget`` of policies that keep nothing else of an item."""

    @kernel
    def forget(p, s, e, a):
        clear(p, s, a)
        refresh(p, s, a)

    return forget
