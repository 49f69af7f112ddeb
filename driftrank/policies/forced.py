"""Forced exploration: from time to time an item goes on top whatever it is worth, so that its changes are noticed.

The item on top is always looked at. In a *sweep* every item has its turn, in L steps one after the other; the schedule
says when the next sweep begins, counted from the last restart:

* ``constant``: every floor(L/p) steps, at least L, so that a part p of all steps is forced;
* ``episode``: the same with p = p_0 sqrt(k + 1) after k restarts (Besson et al., 2022);
* ``diminishing``: sweep i begins L (i / (2 p))^2 steps after the restart, so that the part of forced steps is
  p sqrt(L/t) after t steps (after arXiv 2410.05734); needs no horizon;
* ``random``: no sweeps, but at every step, with probability p, any item (Liu, Lee and Shroff, 2018).

Items take their turns by token, and those that come later behind (:mod:`driftrank.policies.turns`).
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.rng import derive, uniform
from driftrank.kernels.top import ORDER
from driftrank.kernels.tuples import Field, field, integers

#: ``auto``: constant, or diminishing where the horizon is not known
SCHEDULES = ("auto", "constant", "episode", "diminishing", "random")
_EPISODE, _DIMINISHING, _RANDOM = 2, 3, 4
_BEGIN, _NEXT, _COUNT, _RATE = 0, 1, 2, 3
_INCREASING = ORDER.index("increasing")

# branches of a step's key that no item's token leads to
_COIN = np.uint64(2**64 - 2)
_CHOICE = np.uint64(2**64 - 3)
_MOST = np.uint64(2**64 - 1)


def forced_fields() -> dict[str, Field]:
    """4 floats and L integers."""
    return {
        "turn": integers("L", fill=-1),
        "sweep": field(4),  # begin of the current one, in steps since the restart; of the next; how many before; p
    }


@kernel
def _rate(p, t, restarts):
    """p at step t; sqrt(Upsilon L ln t / t) where it follows from a horizon that is not known."""
    rate = p.explore
    if p.explore_anytime:
        n = np.float64(max(t, 3))
        rate = np.sqrt(p.n_breakpoints * p.L * log(n) / n)
    if p.schedule == _EPISODE:
        rate *= np.sqrt(restarts + 1.0)
    return min(rate, 1.0)


@kernel
def _next_sweep(p, s, t, restarts):
    """When the sweep after the current one begins."""
    begin = s.sweep[_BEGIN]
    if p.schedule == _DIMINISHING:
        share = 0.5 * (s.sweep[_COUNT] + 1.0) / p.explore
        return max(begin + p.L, np.floor(p.L * share * share))
    return begin + max(np.float64(p.L), np.floor(p.L / _rate(p, t, restarts)))


@kernel
def forced_restart(p, s, t, restarts):
    """Everything was started anew at step t (0: it starts for the first time)."""
    s.sweep[_COUNT] = 0.0
    s.sweep[_BEGIN] = 0.0
    if p.explore > 0.0 and p.schedule != _RANDOM:
        s.sweep[_NEXT] = _next_sweep(p, s, t, restarts)
    s.sweep[_RATE] = _rate(p, t, restarts)


@kernel
def forced_advance(p, s, t, elapsed, restarts):
    """Step t is over, the ``elapsed``-th since everything was started anew."""
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
        return _any_item(e, c) if uniform(derive(e.key, _COIN)) < s.sweep[_RATE] else -1
    j = np.int64(elapsed - s.sweep[_BEGIN])
    if j < 1 or j > p.L:
        return -1
    a = np.int64(s.turn[j - 1])
    if a < 0 or c.items.shape[0] == p.L:
        return a
    for i in range(c.items.shape[0]):
        if c.items[i] == a:
            return a
    return -1  # it cannot be shown now


@kernel
def _any_item(e, c):
    key = derive(e.key, _CHOICE)
    chosen = np.int64(c.items[0])
    least = _MOST
    for j in range(c.items.shape[0]):
        u = derive(key, c.token[c.items[j]])
        if u < least:
            least = u
            chosen = np.int64(c.items[j])
    return chosen


@kernel
def put_on_top(r, a, order):
    """Item ``a`` goes to the first position, those above it one further down; if it was not in the list, the worst
    leaves, which is the last, the first where the best come last, or one of a lower score."""
    K = r.items.shape[0]
    i = 0
    while i < K and r.items[i] != a:
        i += 1
    if i == K:
        i = 0 if order == _INCREASING else K - 1
        for j in range(K):  # where better items stand at positions that count more, the worst may stand anywhere
            if r.score[j] < r.score[i]:
                i = j
        r.items[i] = a
    u = r.score[i]
    for j in range(i, 0, -1):
        r.items[j] = r.items[j - 1]
        r.score[j] = r.score[j - 1]
    r.items[0] = a
    r.score[0] = u
