"""Feedback streams for tests of policies."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from driftrank.kernels.compile import specialise
from driftrank.kernels.structures import Event, Ranking


def streams(L, K, longest=60):
    """Lists that were shown, of up to K of the items 0 .. L-1, and the clicks on them."""
    shown = st.lists(st.integers(0, L - 1), min_size=1, max_size=K, unique=True)
    clicks = st.lists(st.integers(0, 1), min_size=K, max_size=K)
    return st.lists(st.tuples(shown, clicks).map(lambda pair: (pair[0], pair[1][: len(pair[0])])), max_size=longest)


def feed(stream, *learners):
    """Give the same feedback to learners and plain versions."""
    for t, (shown, clicks) in enumerate(stream, 1):
        for learner in learners:
            if hasattr(learner, "steps") and hasattr(learner, "policy"):
                learner.update(shown, clicks)
            else:
                learner.update(t, shown, clicks)


def state(learner):
    """The state of a learner, field by field."""
    return learner.compiled.layout.views(learner._floats, learner._ints)


def repeat(learner, shown, clicks, times):
    """Feed the same list and clicks very often, all of it observed, without the cost of a call each time."""
    run = specialise(_repeat, learner.compiled.bindings)
    slots = np.array([learner._slots.slot(item) for item in shown], np.uint32)
    ranking = Ranking(slots, np.zeros(len(slots)), np.zeros(0), np.zeros(0))
    offsets, row = learner.compiled.layout.offsets, learner.compiled.row
    run(learner._floats, learner._ints, offsets, row, learner.steps, times, ranking, np.array(clicks, np.int8))
    learner.steps += times


def _repeat(floats, ints, o, row, done, times, r, clicks):
    p = PARAMETERS(row)  # noqa: F821 - bound when a policy is compiled
    s = STATE(floats, ints, o)  # noqa: F821
    for t in range(done + 1, done + times + 1):
        UPDATE(p, s, Event(t, np.float64(t), np.uint64(0)), r, clicks, r.items.shape[0])  # noqa: F821
