"""The template of a detector of one stream."""

# ruff: noqa: F821 - the capital names are bound when a detector is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.kernels.structures import Event


def watch(floats, ints, o, row, labels, fired, restart):
    """Mark in ``fired`` the labels at which the detector fires."""
    p = PARAMETERS(row)
    s = STATE(floats, ints, o)
    CLEAR(p, s, 0)
    for t in range(1, labels.shape[0] + 1):
        if OBSERVE(p, s, Event(t, np.float64(t), np.uint64(0)), 0, labels[t - 1]):
            fired[t - 1] = 1
            if restart:
                CLEAR(p, s, 0)
