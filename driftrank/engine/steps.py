"""The templates: a simulation of many runs of one policy on one query; what one list is worth over a run."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.engine.detections import count_alarms, note_change
from driftrank.kernels.feedback import observed_prefix
from driftrank.kernels.rng import POLICY, USERS, derive
from driftrank.kernels.structures import Candidates, Event, Ranking


def simulate(
    fresh_floats, fresh_ints, floats, ints, o, row, slots, token, present, items, score, memo, clicks, origins, keys,
    model, work, count, starts, alphas, optimal, best_lists, live, fixed, watch, first, last, checkpoints, mark_first,
    totals, out,
):  # fmt: skip
    """Take every run from step ``first`` to ``last``.

    ``fresh_*`` is a state before its first step; ``items``, ``score``, ``memo`` and ``clicks`` are room for one list;
    ``origins`` holds the step before each run's (last) start; ``live`` says which items are there, empty where all are
    at all times, and ``present`` is room for those; ``watch`` is what the count of alarms remembers. ``totals`` holds
    the measures of every run so far; ``out`` gets them at every checkpoint, the next of which is ``mark_first``.
    """
    p = PARAMETERS(row)
    churns = live.shape[2] > 0
    everyone = Candidates(slots, token)
    c = everyone
    r = Ranking(items, score, memo)
    for run in range(keys.shape[0]):
        s = STATE(floats[run], ints[run], o)
        regret = totals[run, 0]
        reward = totals[run, 1]
        clicked = totals[run, 2]
        mark = mark_first
        for n in range(count[run]):
            alpha = alphas[run, n]
            best = optimal[run, n]
            begin = max(first, starts[run, n])
            end = min(last, starts[run, n + 1] - 1) if n + 1 < count[run] else last
            if churns:
                there = 0
                for a in range(alpha.shape[0]):
                    if live[run, n, a] > 0:
                        present[there] = a
                        if there < items.shape[0]:
                            items[there] = a
                        there += 1
                c = Candidates(present[:there], token)
            if starts[run, n] == begin:
                if begin == 1 or RESTARTS:
                    for i in range(fresh_floats.shape[0]):
                        floats[run, i] = fresh_floats[i]
                    for i in range(fresh_ints.shape[0]):
                        ints[run, i] = fresh_ints[i]
                    origins[run] = begin - 1
                    INIT(p, s, Event(1, 1.0, derive(derive(keys[run], begin), POLICY)), everyone)
                e = Event(
                    begin - origins[run], np.float64(begin - origins[run]), derive(derive(keys[run], begin), POLICY)
                )
                if churns and begin > 1:
                    for a in range(alpha.shape[0]):
                        if live[run, n, a] == 2:  # announced
                            FORGET(p, s, e, a)
                TOLD(p, s, e, c, alpha, best_lists[run, n], fixed[run])
                note_change(watch[run], alpha, live[run, n], begin)
            origin = origins[run]
            seen = ALARMED(p, s)
            for t in range(begin, end + 1):
                key = derive(keys[run], t)
                e = Event(t - origin, np.float64(t - origin), derive(key, POLICY))
                RANK(p, s, e, c, r)
                value = VALUE(model, alpha, r.items, work)
                regret += best - value
                reward += value
                clicked += CLICK(model, alpha, derive(key, USERS), r.items, clicks)
                UPDATE(p, s, e, r, clicks, observed_prefix(clicks, p.K, p.feedback))
                raised = ALARMED(p, s)
                while seen < raised:
                    a, everything = ALARM(p, s, seen)
                    count_alarms(watch[run], a, everything, t, totals[run])
                    seen += 1
                if t == checkpoints[mark]:
                    out[run, mark, 0] = regret
                    out[run, mark, 1] = reward
                    out[run, mark, 2] = clicked
                    for i in range(3, totals.shape[1]):
                        out[run, mark, i] = totals[run, i]
                    mark += 1
        totals[run, 0] = regret
        totals[run, 1] = reward
        totals[run, 2] = clicked


def fixed_value(model, alphas, weight, items, room):
    """What one list is worth in all, over stretches of these lengths."""
    total = 0.0
    for n in range(weight.shape[0]):
        total += weight[n] * VALUE(model, alphas[n], items, room)
    return total
