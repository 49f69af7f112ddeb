"""The building blocks that policies, click models and environments are written with.

Everything here is in the subset of Python that numba compiles and uses only ``+ - * / sqrt`` and integer
arithmetic, so that a number computed on one machine is the same, to the last bit, on any other.
"""

from driftrank.kernels.compile import kernel, pure
from driftrank.kernels.structures import Candidates, Event, Ranking

__all__ = ["Candidates", "Event", "Ranking", "kernel", "pure"]
