"""Templates of a learner: one kernel call each.

The names in capitals are bound to the kernels of one policy by :func:`driftrank.kernels.compile.specialise`.
"""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.kernels.observed import observed_prefix
from driftrank.kernels.structures import Candidates, Event, Ranking


def init_step(floats, ints, o, row, t, now, key, slots, token):
    INIT(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), Candidates(slots, token))


def rank_step(floats, ints, o, row, t, now, key, slots, token, items, score, memo, scratch):
    c, r = Candidates(slots, token), Ranking(items, score, memo, scratch)
    RANK(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), c, r)


def update_step(floats, ints, o, row, t, now, key, items, score, memo, clicks):
    p = PARAMETERS(row)
    r = Ranking(items, score, memo, score[:0])
    observed = observed_prefix(clicks, items.shape[0], p.feedback)
    UPDATE(p, STATE(floats, ints, o), Event(t, now, key), r, clicks, observed)


def scores_step(floats, ints, o, row, t, now, key, slots, token, out):
    SCORES(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), Candidates(slots, token), out)


def forget_step(floats, ints, o, row, t, now, key, slots):
    for i in range(slots.shape[0]):
        FORGET(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots[i])


def features_changed_step(floats, ints, o, row, t, now, key, slots):
    FEATURES_CHANGED(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots)


def believe_step(floats, ints, o, row, t, now, key, slots, estimate, samples):
    p = PARAMETERS(row)
    s = STATE(floats, ints, o)
    e = Event(t, now, key)
    for j in range(slots.shape[0]):
        estimate[j], samples[j] = BELIEVE(p, s, e, np.int64(slots[j]))


def greedy_step(floats, ints, o, row, t, now, key, slots, best, estimate):
    """Fill ``best`` with the slots of the largest estimates; of equal ones the first, unknown ones last."""
    p = PARAMETERS(row)
    s = STATE(floats, ints, o)
    e = Event(t, now, key)
    k = best.shape[0]
    for j in range(slots.shape[0]):
        u, _ = BELIEVE(p, s, e, np.int64(slots[j]))
        if np.isnan(u):
            u = -np.inf
        i = j
        if j >= k:
            i = k - 1
            if u <= estimate[i]:
                continue
        while i > 0 and u > estimate[i - 1]:
            estimate[i] = estimate[i - 1]
            best[i] = best[i - 1]
            i -= 1
        estimate[i] = u
        best[i] = slots[j]
