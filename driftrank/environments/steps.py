"""The template that unrolls an environment into stretches of constant attraction."""

# ruff: noqa: F821 - the capital names are bound when an environment is compiled
# mypy: ignore-errors

from __future__ import annotations


def segments(row, model, base, keys, first, last, until, count, starts, alphas, optimal, best):
    """Fill in the stretches of every run from step ``first``, as many as there is room for; returns how far all of them reach.

    ``until`` remembers when each run changes next: a stretch that goes on from an earlier call starts before ``first``.
    """
    p = PARAMETERS(row)
    reach = last
    for r in range(keys.shape[0]):
        t = first
        n = 0
        while t <= last and n < starts.shape[1]:
            starts[r, n] = t if until[r] <= t else t - 1
            until[r] = WORLD(p, base, keys[r], t, alphas[r, n])
            optimal[r, n] = OPTIMUM(model, alphas[r, n], best[r, n])
            t = until[r]
            n += 1
        count[r] = n
        reach = min(reach, t - 1)
    for r in range(keys.shape[0]):
        # a run that got further than the others is taken up again in mid-stretch
        n = count[r]
        while n > 1 and starts[r, n - 1] > reach + 1:
            n -= 1
        if n > 1 and starts[r, n - 1] == reach + 1:
            n -= 1
            until[r] = reach + 1
        elif until[r] > reach + 1 and n < count[r]:
            until[r] = starts[r, n]
        count[r] = n
    return reach
