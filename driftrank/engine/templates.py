"""The templates: one run of a policy, many runs on a CPU core, the value of one list over a run, one list shown to one
user."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.alarm_scoring import count_alarms, note_change
from driftrank.kernels import kernel
from driftrank.kernels.rng import POLICY, USERS, derive
from driftrank.kernels.structures import Candidates, Event, Ranking


class Rows(NamedTuple):
    """The memory of a state, and the state before the first step."""

    floats: NDArray[np.float64]
    ints: NDArray[np.int32]
    fresh_floats: NDArray[np.float64]
    fresh_ints: NDArray[np.int32]


@kernel
def reset(rows):
    """Reset a state to that before the first step."""
    for i in range(rows.fresh_floats.shape[0]):
        rows.floats[i] = rows.fresh_floats[i]
    for i in range(rows.fresh_ints.shape[0]):
        rows.ints[i] = rows.fresh_ints[i]


@kernel
def unchanged(alpha, buffer):
    """Use the attraction in its place."""
    return alpha


@kernel
def among(everyone, present, length):
    """Some of the items as candidates."""
    return Candidates(present[:length], everyone.token, everyone.prior, everyone.going_on, everyone.after_click)


def advance(
    p, s, rows, everyone, present, r, clicks, key, model, work, count, starts, alphas, attraction, optimal, best_lists,
    live, fixed, watch, origin, first, last, checkpoints, mark, totals, out, place,
):  # fmt: skip
    """Advance one run from step ``first`` to ``last``; returns the step before its (last) start.

    The state ``s`` is a view of ``rows``, which also hold the state before the first step. The world is given as
    ``count`` segments of constant attraction, one after the other in ``alphas`` and so on; the first may have begun
    before ``first``. ``attraction`` is a buffer for one of them. ``live`` marks the items that are present and is empty
    if all always are; ``present`` is a buffer for their slots. ``watch`` is the state of the alarm counts. ``totals``
    holds the measures of the run so far; they are copied to ``out``, from ``place`` on, at every checkpoint; the next
    one is ``mark``.
    """
    L = everyone.items.shape[0]
    K = r.items.shape[0]
    churns = live.shape[0] > 0
    c = everyone
    alpha = alphas[:L]
    best = 0.0
    regret = totals[0]
    reward = totals[1]
    clicked = totals[2]
    seen = 0
    due = checkpoints[mark]
    n = -1
    change = first
    t = first
    while t <= last:
        if t == change:  # the next segment
            n += 1
            change = starts[n + 1] if n + 1 < count else last + 1
            alpha = FETCHED(alphas[n * L : (n + 1) * L], attraction)
            best = optimal[n]
            there = live[n * L : (n + 1) * L]
            if churns:
                length = 0
                for a in range(L):
                    if there[a] > 0:
                        present[length] = a
                        if length < K:
                            r.items[length] = a
                        length += 1
                c = AMONG(everyone, present, length)
            if starts[n] == t:
                if t == 1 or RESTARTS:
                    RESET(rows)
                    origin = t - 1
                    INIT(p, s, Event(1, 1.0, derive(derive(key, t), POLICY)), everyone)
                e = Event(t - origin, np.float64(t - origin), derive(derive(key, t), POLICY))
                if churns and t > 1:
                    for a in range(L):
                        if there[a] == 2:  # announced
                            FORGET(p, s, e, a)
                REVEAL(p, s, e, c, alpha, best_lists[n * K : (n + 1) * K], fixed)
                note_change(watch, alpha, there, t)
            seen = ALARMED(p, s)
        step_key = derive(key, t)
        e = Event(t - origin, np.float64(t - origin), derive(step_key, POLICY))
        RANK(p, s, e, c, r)
        value = VALUE(model, alpha, r.items, work)
        regret += best - value
        reward += value
        clicked += CLICK(model, alpha, derive(step_key, USERS), r.items, clicks)
        UPDATE(p, s, e, r, clicks, OBSERVED(p, e, r, clicks))
        raised = ALARMED(p, s)
        while seen < raised:
            a, everything = ALARM(p, s, seen)
            count_alarms(watch, a, everything, t, totals)
            seen += 1
        if t == due:
            out[place] = regret
            out[place + 1] = reward
            out[place + 2] = clicked
            for i in range(3, totals.shape[0]):
                out[place + i] = totals[i]
            place += totals.shape[0]
            mark += 1
            due = checkpoints[mark]
        t += 1
    totals[0] = regret
    totals[1] = reward
    totals[2] = clicked
    return origin


def simulate(
    fresh_floats, fresh_ints, floats, ints, o, row, slots, token, prior, present, items, score, memo, scratch, clicks,
    origins, keys, model, work, count, starts, alphas, optimal, best_lists, live, fixed, watch, first, last,
    checkpoints, mark, totals, out,
):  # fmt: skip
    """Advance every run from step ``first`` to ``last``. ``items``, ``score``, ``memo``, ``scratch`` and ``clicks``
    are buffers for one list; everything else has a row for each run."""
    p = PARAMETERS(row)
    everyone = Candidates(slots, token, prior, 0.0, 0.0)
    r = Ranking(items, score, memo, scratch)
    for run in range(keys.shape[0]):
        origins[run] = ADVANCE(
            p, STATE(floats[run], ints[run], o), Rows(floats[run], ints[run], fresh_floats, fresh_ints), everyone,
            present, r, clicks, keys[run], model, work, count[run], starts[run], alphas[run], work, optimal[run],
            best_lists[run], live[run], fixed[run], watch[run], origins[run], first, last, checkpoints, mark,
            totals[run], out[run], mark * totals.shape[1],
        )  # fmt: skip


def fixed_value(model, alphas, weight, items, work):
    """The total value of one list over segments of these lengths."""
    total = 0.0
    for n in range(weight.shape[0]):
        total += weight[n] * VALUE(model, alphas[n], items, work)
    return total


def meet(model, alpha, key, t, items, clicks, work):
    """Show a list to the user of step ``t``; fills in ``clicks`` and returns the value of the list."""
    value = VALUE(model, alpha, items, work)
    CLICK(model, alpha, derive(derive(key, t), USERS), items, clicks)
    return value
