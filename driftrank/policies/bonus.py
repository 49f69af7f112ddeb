"""Indices that are a mean and a bonus, U = mean + q radius, where all items share the factor q.

Mean and radius = 1/sqrt(N) are kept, so that a step needs a division and a root only for the items whose counts change.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field, field

#: what an item that is not known is worth: more than any other, or the paper's x/0 := 1
UNSEEN = ("inf", "paper")


def bonus_fields() -> dict[str, Field]:
    """2 L floats."""
    return {"mean": field("L"), "radius": field("L")}


@kernel
def refresh_bonus(p, s, a):
    """The counts of item ``a`` have changed. An item without counts is worth ``p.unseen_index``."""
    if s.N[a] > 0.0:
        per_one = 1.0 / s.N[a]
        s.mean[a] = s.X[a] * per_one
        s.radius[a] = np.sqrt(per_one)
    else:
        s.mean[a] = p.unseen_index
        s.radius[a] = 0.0


@kernel
def rescale_bonus(p, s, a):
    """N and X were divided by the same number."""
    s.radius[a] = np.sqrt(1.0 / s.N[a])


@kernel
def bonus_index(p, s, e, c, a, q):
    return s.mean[a] + q * s.radius[a]
