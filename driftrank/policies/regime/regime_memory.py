"""A memory of regimes: the counts of all items, stored in case the regime returns.

When an event ends a regime, the counts of all items are stored in one of G places. Stored regimes compete, as a whole,
with the items' own posteriors: the one that predicts clicks better gains weight, and is recalled when its probability
is high. Fields of the state, where G is the parameter ``regimes``: ``kept_S kept_F`` (G times L), ``belief`` (G+1;
place 0 is for the posteriors), ``kept_at`` and ``visits`` (G: the step at which it was last active, the number of its
returns), ``regime`` (two integers: the active one, -1 if it is not stored; the number of stored ones), ``since`` (1).
"""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.policies.regime.change_posterior import nearest_birth, predictive, restart_item

#: a regime of fewer steps is not stored: too little was learnt
_SHORT = 500.0


@kernel
def weigh_regimes(p, s, a, y, total, A, B):
    """Weigh the regimes by a label of item ``a``, whose prior is Beta(A, B), and whose probability under the posteriors
    was ``total``."""
    for g in range(s.regime[1]):
        one = predictive(s.kept_S[g * p.L + a], s.kept_F[g * p.L + a], A, B)
        s.belief[g + 1] *= (one if y else 1.0 - one) / total


@kernel
def draw_regime(s, u):
    """The stored regime selected by a uniform number; -1: none."""
    for g in range(s.regime[1]):
        if u < s.belief[g + 1]:
            return g
        u -= s.belief[g + 1]
    return -1


@kernel
def _place(p, s, tau):
    """The place for the regime that ended at ``tau``; -1: it was too short."""
    if s.regime[0] >= 0:
        return s.regime[0]
    if tau - s.since[0] < _SHORT:
        return -1
    n = s.regime[1]
    if n < p.regimes:
        s.regime[1] += 1
        return n
    oldest = 0
    for g in range(1, n):
        if s.kept_at[g] < s.kept_at[oldest]:
            oldest = g
    s.belief[0] += s.belief[oldest + 1]
    s.visits[oldest] = 0.0
    return oldest


@kernel
def keep_regime(p, s, tau):
    """Store the regime that ended at step ``tau``, without later observations."""
    if p.regimes == 0:
        return
    g = _place(p, s, tau)
    s.regime[0] = -1
    s.since[0] = tau
    if g < 0:
        return
    s.belief[g + 1] = 0.0
    s.kept_at[g] = tau
    for a in range(p.L):
        first = a * (p.hypotheses + 1)
        S = s.S[first]
        F = s.F[first]
        if s.last[a] >= tau and s.T[first] < tau:
            k = nearest_birth(p, s, a, tau)
            if k >= 0 and s.T[k] >= tau - 1.0:
                S -= s.S[k]
                F -= s.F[k]
        s.kept_S[g * p.L + a] = S
        s.kept_F[g * p.L + a] = F


@kernel
def likeliest_regime(p, s, rate):
    """Update the beliefs at the end of a step: events occur with probability ``rate``, and may bring back a stored
    regime. Returns the most probable one, -1 if there is none."""
    n = s.regime[1]
    active = s.regime[0]
    total = s.belief[0]
    for g in range(n):
        if g == active:
            s.belief[g + 1] = 0.0
        total += s.belief[g + 1]
    others = n - (1 if active >= 0 else 0)
    if others == 0:
        s.belief[0] = 1.0
        return -1
    moved = 0.0
    best = -1
    for g in range(n):
        if g != active:
            # regimes that returned before are more likely to return again
            comeback = (p.comeback_events * p.comeback / others + s.visits[g]) / (p.comeback_events + s.events[0])
            share = rate * comeback * (s.belief[0] / total)
            moved += share
            s.belief[g + 1] = s.belief[g + 1] / total * (1.0 - rate) + share
            if best < 0 or s.belief[g + 1] > s.belief[best + 1]:
                best = g
    s.belief[0] = s.belief[0] / total - moved
    return best


@kernel
def recall_regime(p, s, g, t):
    """Recall regime ``g``: all items continue from its counts."""
    active = s.regime[0]
    s.kept_at[g] = t  # the present regime must not take its place
    if active < 0:
        keep_regime(p, s, t)
    elif t - s.since[0] >= _SHORT:
        s.kept_at[active] = t  # the stored counts stay: the present ones may be of two regimes
    for a in range(p.L):
        restart_item(p, s, a, s.kept_S[g * p.L + a], s.kept_F[g * p.L + a], t)
    s.visits[g] += 1.0
    s.regime[0] = g
    s.since[0] = t
    s.belief[0] = 1.0
    for i in range(s.regime[1]):
        s.belief[i + 1] = 0.0


@kernel
def forget_in_regimes(p, s, a):
    """Reset the counts of a new item ``a`` in all stored regimes."""
    for g in range(s.regime[1]):
        s.kept_S[g * p.L + a] = 0.0
        s.kept_F[g * p.L + a] = 0.0
