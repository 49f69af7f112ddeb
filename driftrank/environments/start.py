"""The attraction at the start of a run."""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.rng import FIRST_LEVELS, derive, uniform

#: the query's default attraction, or levels drawn in every run
START = ("query", "uniform")


@kernel
def first_level(p, base, key, a):
    """The first attraction of item a: its default, or a number below 1/2 drawn in every run."""
    if p.start == 0:
        return base[a]
    return 0.5 * uniform(derive(derive(key, FIRST_LEVELS), a))
