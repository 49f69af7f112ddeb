"""The template that unrolls an environment into stretches of constant attraction."""

# ruff: noqa: F821 - the capital names are bound when an environment is compiled
# mypy: ignore-errors

from __future__ import annotations


def segments(row, model, base, keys, first, last, until, count, starts, ends, alphas, optimal, best, live, work):
    """Fill in the stretches of every run from step ``first``, as many as there is room for; returns how far all of
    them reach.

    ``until`` says when each run changes next; a stretch that goes on from an earlier call starts before ``first``.
    """
    p = PARAMETERS(row)
    reach = last
    for r in range(keys.shape[0]):
        t = first
        n = 0
        while t <= last and n < starts.shape[1]:
            starts[r, n] = t - 1 if n == 0 and t < until[r] else t
            now = t
            t = WORLD(p, base, keys[r], now, alphas[r, n])
            if CHURNS:
                LIVE(p, base, keys[r], now, live[r, n])
            ends[r, n] = t
            optimal[r, n] = OPTIMUM(model, alphas[r, n], best[r, n], work)
            n += 1
        count[r] = n
        reach = min(reach, t - 1)
    for r in range(keys.shape[0]):
        while starts[r, count[r] - 1] > reach:  # this run got further than the others
            count[r] -= 1
        until[r] = ends[r, count[r] - 1]
    return reach
