"""The breakpoints that get a checkpoint, and a line in a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from driftrank.engine.alarm_scoring import note_change, watch_size
from driftrank.environments.base import Environment
from driftrank.kernels import pure

#: more than that would clutter a figure
MANY = 50

#: queries, and runs of each, that are examined
EXAMINED = 5


def marked_breakpoints(environment: Environment, horizon: int, runs: int, seed: int) -> list[int]:
    """The breakpoints of all queries and runs if they are few, otherwise none.

    They are few if changes come at fixed steps, or if there are few runs; not if every run has its own, or under drift.
    """
    found: set[int] = set()
    if environment.kind != "abrupt":
        return []
    for query in environment.names[:EXAMINED]:
        for run in range(min(runs, EXAMINED)):
            reach = min(horizon, MANY)
            while True:  # a little further every time: a long run may have far too many
                found.update(environment.breakpoints(reach, query, run, seed))
                if len(found) > MANY:
                    return []
                if reach == horizon:
                    break
                reach = min(horizon, 8 * reach)
    return sorted(found)


def breakpoints_to_detect(environment: Environment, horizon: int, query: str, run: int, seed: int) -> list[int]:
    """The breakpoints of a run that a policy could detect: none if changes are announced, or under drift."""
    if environment.kind != "abrupt" or environment.traffic:  # in traffic every query has its own
        return []
    starts, alphas, _, _, live = environment.unroll(1, horizon, query, run, seed)
    watch = np.zeros(watch_size(alphas.shape[1]))
    found = []
    for begin, alpha, there in zip(starts.tolist(), alphas, live, strict=True):
        pure(note_change)(watch, alpha, there, begin)  # as in the simulator
        if watch[0] == begin:
            found.append(begin - 1)
    return found


def common_breakpoints(runs: Sequence[Sequence[int]]) -> list[int]:
    """The breakpoints of most runs, if they are few enough to be drawn."""
    often = Counter(step for steps in runs for step in steps)
    common = sorted(step for step, n in often.items() if 2 * n > len(runs))
    return common if len(common) <= MANY else []
