"""The templates that unroll an environment into segments of constant attraction: of one run, of many."""

# ruff: noqa: F821 - the capital names are bound when an environment is compiled
# mypy: ignore-errors

from __future__ import annotations


def unroll(p, model, base, key, first, last, until, starts, ends, alphas, optimal, best, live, work):
    """Fill in the segments of one run from step ``first``, as many as fit, one after the other. Returns their number,
    and the step after the last of them.

    ``until`` is the step of the next change; a segment that continues from an earlier call starts before ``first``.
    """
    L = base.shape[0]
    K = best.shape[0] // starts.shape[0]
    t = first
    n = 0
    while t <= last and n < starts.shape[0]:
        starts[n] = t - 1 if n == 0 and t < until else t
        now = t
        alpha = alphas[n * L : (n + 1) * L]
        t = WORLD(p, base, key, now, alpha)
        if CHURNS:
            LIVE(p, base, key, now, live[n * L : (n + 1) * L])
        ends[n] = t
        if t <= now:  # an error, which the caller sees in ends
            t = now + 1
        optimal[n] = OPTIMUM(model, alpha, best[n * K : (n + 1) * K], work)
        n += 1
    return n, t


def segments(row, model, base, keys, first, last, until, count, starts, ends, alphas, optimal, best, live, work):
    """Fill in the segments of every run; returns the last step that all of them cover."""
    p = PARAMETERS(row)
    reach = last
    for r in range(keys.shape[0]):
        count[r], t = UNROLL(
            p, model, base, keys[r], first, last, until[r], starts[r], ends[r], alphas[r], optimal[r], best[r], live[r],
            work,
        )  # fmt: skip
        reach = min(reach, t - 1)
    for r in range(keys.shape[0]):
        while starts[r, count[r] - 1] > reach:  # this run got further than the others
            count[r] -= 1
        until[r] = ends[r, count[r] - 1]
    return reach
