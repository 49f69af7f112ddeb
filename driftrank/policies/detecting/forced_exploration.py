"""Forced exploration: from time to time an item goes on top regardless of its worth, so that its changes are detected.

The item on top is always observed. In a *sweep* every item has its turn, in L steps one after the other; the schedule
determines when the next sweep begins, counted from the last restart:

* ``constant``: every floor(L/p) steps, at least L, so that a part p of all steps is forced;
* ``episode``: the same with p = p_0 sqrt(k + 1) after k restarts (Besson et al., 2022);
* ``diminishing``: sweep i begins L (i / (2 p))^2 steps after the restart, so that the part of forced steps is
  p sqrt(L/t) after t steps (after arXiv 2410.05734); needs no horizon;
* ``random``: no sweeps, but at every step, with probability p, any item (Liu, Lee and Shroff, 2018).

Items take turns in the order of :mod:`driftrank.policies.item_order`.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import EXPLORATION_COIN, EXPLORED_ITEM, LARGEST_KEY, derive, uniform
from driftrank.kernels.top_k import ORDER

#: ``auto``: constant, or diminishing if the horizon is unknown
SCHEDULES = ("auto", "constant", "episode", "diminishing", "random")
_EPISODE, _DIMINISHING, _RANDOM = 2, 3, 4
_BEGIN, _NEXT, _COUNT, _RATE = 0, 1, 2, 3
_INCREASING = ORDER.index("increasing")


def forced_fields() -> dict[str, Field]:
    """4 floats and L integers."""
    return {
        "turn": integers("L", fill=-1),
        "sweep": field(4),  # begin of the current one, in steps since the restart; of the next; earlier ones; p
    }


@kernel
def _rate(p, t, restarts):
    """p at step t; sqrt(Upsilon L ln t / t) if it depends on an unknown horizon."""
    rate = p.explore
    if p.explore_anytime:
        n = np.float64(max(t, 3))
        rate = np.sqrt(p.n_breakpoints * p.L * log(n) / n)
    if p.schedule == _EPISODE:
        rate *= np.sqrt(restarts + 1.0)
    return min(rate, 1.0)


@kernel
def _next_sweep(p, s, t, restarts):
    """The step at which the next sweep begins."""
    begin = s.sweep[_BEGIN]
    if p.schedule == _DIMINISHING:
        share = 0.5 * (s.sweep[_COUNT] + 1.0) / p.explore
        return max(begin + p.L, np.floor(p.L * share * share))
    return begin + max(np.float64(p.L), np.floor(p.L / _rate(p, t, restarts)))


@kernel
def forced_restart(p, s, t, restarts):
    """Restart after step t (0: the first start)."""
    s.sweep[_COUNT] = 0.0
    s.sweep[_BEGIN] = 0.0
    if p.explore > 0.0 and p.schedule != _RANDOM:
        s.sweep[_NEXT] = _next_sweep(p, s, t, restarts)
    s.sweep[_RATE] = _rate(p, t, restarts)


@kernel
def forced_advance(p, s, t, elapsed, restarts):
    """End step t, the ``elapsed``-th since the last global restart."""
    if p.explore_anytime:
        s.sweep[_RATE] = _rate(p, t, restarts)
    if elapsed == s.sweep[_NEXT]:
        s.sweep[_COUNT] += 1.0
        s.sweep[_BEGIN] = s.sweep[_NEXT]
        s.sweep[_NEXT] = _next_sweep(p, s, t, restarts)


@kernel
def forced_item(p, s, e, c, elapsed):
    """The item that goes on top at this step, the ``elapsed``-th since the restart; -1 for none."""
    if p.explore <= 0.0:
        return -1
    if p.schedule == _RANDOM:
        return _any_item(e, c) if uniform(derive(e.key, EXPLORATION_COIN)) < s.sweep[_RATE] else -1
    j = np.int64(elapsed - s.sweep[_BEGIN])
    if j < 1 or j > p.L:
        return -1
    a = np.int64(s.turn[j - 1])
    if a < 0 or c.items.shape[0] == p.L:
        return a
    for i in range(c.items.shape[0]):
        if c.items[i] == a:
            return a
    return -1  # not a candidate now


@kernel
def _any_item(e, c):
    key = derive(e.key, EXPLORED_ITEM)
    chosen = np.int64(c.items[0])
    least = LARGEST_KEY
    for j in range(c.items.shape[0]):
        u = derive(key, c.token[c.items[j]])
        if u < least:
            least = u
            chosen = np.int64(c.items[j])
    return chosen


@kernel
def put_on_top(r, a, order):
    """Move item ``a`` to the first position, and those above it one down.

    If it is not in the list, the worst item is removed: the last, or the first if the best come last, or one with a
    lower score.
    """
    K = r.items.shape[0]
    i = 0
    while i < K and r.items[i] != a:
        i += 1
    if i == K:
        i = 0 if order == _INCREASING else K - 1
        for j in range(K):  # if better items are placed at positions that count more, the worst may be anywhere
            if r.score[j] < r.score[i]:
                i = j
        r.items[i] = a
    u = r.score[i]
    for j in range(i, 0, -1):
        r.items[j] = r.items[j - 1]
        r.score[j] = r.score[j - 1]
    r.items[0] = a
    r.score[0] = u
