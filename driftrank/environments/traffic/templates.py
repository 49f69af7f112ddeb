"""The templates of Traffic's world: begin, advance to a list, the caller's order, how often queries come."""

# ruff: noqa: F821 - PARAMETERS is bound when an environment is compiled
# mypy: ignore-errors

from __future__ import annotations

from driftrank.environments.traffic.world import EPOCH, begin_world, call_order, query_of, refresh, turn_to


def begin(row, w, key):
    begin_world(PARAMETERS(row), w, key)


def advance(row, w, key, i, q):
    """Advance to list ``i`` and bring query ``q`` up to date, or that of the list if it is negative. Returns it."""
    p = PARAMETERS(row)
    turn_to(p, w, key, i)
    if q < 0:
        q = query_of(w, key, i)
    for a in range(w.fresh.shape[0]):
        w.fresh[a] = 1
    if w.epoch[q] != w.clock[EPOCH]:
        refresh(p, w, key, q)
    return q


def order(row, w, key, i, q, slots, place):
    call_order(PARAMETERS(row), w, key, i, q, slots, place)


def count(w, key, last, out):
    """Count the lists 1 .. ``last`` of every query."""
    for i in range(1, last + 1):
        out[query_of(w, key, i)] += 1
