"""Reflection at the edges of [0, 1]."""

from __future__ import annotations

import math

from driftrank.kernels import kernel


@kernel
def reflected(x):
    """Any number folded into [0, 1]: -0.1 becomes 0.1, and 1.1 becomes 0.9."""
    x -= 2.0 * math.floor(0.5 * x)
    return 2.0 - x if x > 1.0 else x
