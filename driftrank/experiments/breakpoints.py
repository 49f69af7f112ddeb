"""Which breakpoints are worth a checkpoint, and a line in a figure."""

from __future__ import annotations

from driftrank.environments.base import Environment

#: more than that only clutter
MANY = 50

#: queries, and runs of each, that are looked at
LOOKED_AT = 5


def marked_breakpoints(environment: Environment, horizon: int, runs: int, seed: int) -> list[int]:
    """The breakpoints of all queries and runs, where together they are few; otherwise none.

    They are few where changes come at fixed steps, or where there is hardly more than one run. They are not where every
    run has its own, or where everything drifts.
    """
    found: set[int] = set()
    if environment.kind != "abrupt":
        return []
    for query in environment.names[:LOOKED_AT]:
        for run in range(min(runs, LOOKED_AT)):
            reach = min(horizon, MANY)
            while True:  # a little further every time: a long run may have far too many
                found.update(environment.breakpoints(reach, query, run, seed))
                if len(found) > MANY:
                    return []
                if reach == horizon:
                    break
                reach = min(horizon, 8 * reach)
    return sorted(found)
