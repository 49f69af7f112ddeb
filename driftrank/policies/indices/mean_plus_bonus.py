"""Indices of the form mean plus bonus, U = mean + q radius, with a factor q that all items share.

Mean and radius = 1/sqrt(N) are stored, so that a step needs a division and a root only for items whose counts change.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field

#: the worth of an item without observations: more than any other, or the paper's x/0 := 1
UNSEEN = ("inf", "paper")


def bonus_fields() -> dict[str, Field]:
    """2 L floats."""
    return {"mean": field("L"), "radius": field("L")}


@kernel
def refresh_bonus(p, s, a):
    """Update mean and radius of item ``a``; without counts its mean is ``p.unseen_index``."""
    if s.N[a] > 0.0:
        per_one = 1.0 / s.N[a]
        s.mean[a] = s.X[a] * per_one
        s.radius[a] = np.sqrt(per_one)
    else:
        s.mean[a] = p.unseen_index
        s.radius[a] = 0.0


@kernel
def rescale_bonus(p, s, a):
    """Update the radius after N and X were divided by the same number."""
    s.radius[a] = np.sqrt(1.0 / s.N[a])


@kernel
def bonus_index(p, s, e, c, a, q):
    return s.mean[a] + q * s.radius[a]
