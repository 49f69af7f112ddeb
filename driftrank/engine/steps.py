"""The template of a simulation: many runs of one policy on one query."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.kernels.feedback import observed_prefix
from driftrank.kernels.rng import POLICY, USERS, derive
from driftrank.kernels.structures import Candidates, Event, Ranking


def simulate(
    fresh_floats, fresh_ints, floats, ints, o, row, slots, token, items, score, memo, clicks, origins, keys, model,
    count, starts, alphas, optimal, fixed, first, last, checkpoints, mark_first, totals, out,
):  # fmt: skip
    """Take every run from step ``first`` to ``last``.

    ``fresh_*`` is a state before its first step; ``items``, ``score``, ``memo`` and ``clicks`` are room for one list;
    ``origins`` holds the step before each run's (last) start. ``totals`` holds, per run, the regret, the expected
    reward and the clicks so far; ``out`` gets them at every checkpoint, the next of which is number ``mark_first``.
    """
    p = PARAMETERS(row)
    c = Candidates(slots, token)
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
            if starts[run, n] == begin:
                if begin == 1 or RESTARTS:
                    for i in range(fresh_floats.shape[0]):
                        floats[run, i] = fresh_floats[i]
                    for i in range(fresh_ints.shape[0]):
                        ints[run, i] = fresh_ints[i]
                    origins[run] = begin - 1
                    INIT(p, s, Event(1, 1.0, derive(derive(keys[run], begin), POLICY)), c)
                e = Event(
                    begin - origins[run], np.float64(begin - origins[run]), derive(derive(keys[run], begin), POLICY)
                )
                TOLD(p, s, e, c, alpha, fixed[run])
            origin = origins[run]
            for t in range(begin, end + 1):
                key = derive(keys[run], t)
                e = Event(t - origin, np.float64(t - origin), derive(key, POLICY))
                RANK(p, s, e, c, r)
                value = VALUE(model, alpha, r.items)
                regret += best - value
                reward += value
                clicked += CLICK(model, alpha, derive(key, USERS), r.items, clicks)
                UPDATE(p, s, e, r, clicks, observed_prefix(clicks, p.K, p.feedback))
                if t == checkpoints[mark]:
                    out[run, mark, 0] = regret
                    out[run, mark, 1] = reward
                    out[run, mark, 2] = clicked
                    mark += 1
        totals[run, 0] = regret
        totals[run, 1] = reward
        totals[run, 2] = clicked
