"""Templates of a learner: one kernel call each.

The names in capitals are bound to the kernels of one policy by :func:`driftrank.kernels.compile.specialise`.
"""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.kernels.structures import Candidates, Described, Event, Ranking


def init_step(floats, ints, o, row, t, now, key, slots, token, prior, going_on, after_click):
    c = Candidates(slots, token, prior, going_on, after_click)
    INIT(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), c)


def rank_step(
    floats, ints, o, row, t, now, key, slots, token, prior, going_on, after_click, items, score, memo, scratch,
):  # fmt: skip
    c, r = Candidates(slots, token, prior, going_on, after_click), Ranking(items, score, memo, scratch)
    RANK(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), c, r)


def update_step(floats, ints, o, row, t, now, key, items, score, memo, clicks):
    p = PARAMETERS(row)
    e, r = Event(t, now, key), Ranking(items, score, memo, score[:0])
    UPDATE(p, STATE(floats, ints, o), e, r, clicks, OBSERVED(p, e, r, clicks))


def observed_step(row, key, items, memo, clicks):
    """The number of observed positions."""
    r = Ranking(items, memo[:0], memo, memo[:0])
    return OBSERVED(PARAMETERS(row), Event(1, 1.0, key), r, clicks)


def shared_init_step(floats, ints, o, row):
    SHARED_INIT(PARAMETERS(row), SHARED(floats, ints, o))


def shared_prior_step(
    floats, ints, o, row, query, item, place, dense, crosses, score, begin, named, value, scaled, out,
):  # fmt: skip
    x = Described(query, item, place, dense, crosses, score, begin, named, value, scaled)
    return SHARED_PRIOR(PARAMETERS(row), SHARED(floats, ints, o), x, out)


def shared_learn_step(
    floats, ints, o, row, key, query, item, place, dense, crosses, score, begin, named, value, scaled, items, memo,
    clicks,
):  # fmt: skip
    p = PARAMETERS(row)
    e, r = Event(1, 1.0, key), Ranking(items, memo[:0], memo, memo[:0])
    x = Described(query, item, place, dense, crosses, score, begin, named, value, scaled)
    SHARED_LEARN(p, SHARED(floats, ints, o), e, r, x, clicks, OBSERVED(p, e, r, clicks))


def scores_step(floats, ints, o, row, t, now, key, slots, token, prior, going_on, after_click, out):
    c = Candidates(slots, token, prior, going_on, after_click)
    SCORES(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), c, out)


def forget_step(floats, ints, o, row, t, now, key, slots):
    for i in range(slots.shape[0]):
        FORGET(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots[i])


def features_changed_step(floats, ints, o, row, t, now, key, slots):
    FEATURES_CHANGED(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots)


def believe_step(floats, ints, o, row, t, now, key, slots, token, prior, going_on, after_click, estimate, samples):
    p = PARAMETERS(row)
    s = STATE(floats, ints, o)
    e = Event(t, now, key)
    c = Candidates(slots, token, prior, going_on, after_click)
    for j in range(slots.shape[0]):
        estimate[j], samples[j] = BELIEVE(p, s, e, c, np.int64(slots[j]))


def greedy_step(floats, ints, o, row, t, now, key, slots, token, prior, going_on, after_click, best, estimate):
    """Fill ``best`` with the slots of the largest estimates; of equal ones the first, unknown ones last."""
    p = PARAMETERS(row)
    s = STATE(floats, ints, o)
    e = Event(t, now, key)
    c = Candidates(slots, token, prior, going_on, after_click)
    k = best.shape[0]
    for j in range(slots.shape[0]):
        u, _ = BELIEVE(p, s, e, c, np.int64(slots[j]))
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
