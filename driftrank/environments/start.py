"""Where a run begins."""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform

#: the query's default attraction, or levels of its own
START = ("query", "uniform")

_BRANCH = 2**62  # of the world's key; steps, items and epochs have smaller numbers


@kernel
def first_level(p, base, key, a):
    """The attraction that item a starts from: its default, or a number below 1/2 that is drawn in every run."""
    if p.start == 0:
        return base[a]
    return 0.5 * uniform(derive(derive(key, _BRANCH), a))
