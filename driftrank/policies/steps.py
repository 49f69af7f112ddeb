"""The templates of a learner: one kernel call at a time.

The names in capitals are bound to the kernels of one policy by :func:`driftrank.kernels.compile.specialise`.
"""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

from driftrank.kernels.feedback import observed_prefix
from driftrank.kernels.structures import Candidates, Event, Ranking


def init_step(floats, ints, o, row, t, now, key, slots, token):
    INIT(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), Candidates(slots, token))


def rank_step(floats, ints, o, row, t, now, key, slots, token, items, score, memo):
    c = Candidates(slots, token)
    RANK(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), c, Ranking(items, score, memo))


def update_step(floats, ints, o, row, t, now, key, items, score, memo, clicks):
    p = PARAMETERS(row)
    observed = observed_prefix(clicks, items.shape[0], p.feedback)
    UPDATE(p, STATE(floats, ints, o), Event(t, now, key), Ranking(items, score, memo), clicks, observed)


def scores_step(floats, ints, o, row, t, now, key, slots, token, out):
    SCORES(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), Candidates(slots, token), out)


def forget_step(floats, ints, o, row, t, now, key, slots):
    for i in range(slots.shape[0]):
        FORGET(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots[i])


def described_step(floats, ints, o, row, t, now, key, slots):
    DESCRIBED(PARAMETERS(row), STATE(floats, ints, o), Event(t, now, key), slots)
