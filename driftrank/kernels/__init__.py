"""Building blocks of policies, click models and environments.

Kernels are written in the subset of Python that numba compiles and use only ``+ - * / sqrt`` and integer arithmetic, so
that results are equal to the last bit on every machine.
"""

from driftrank.kernels.compile import kernel, pure
from driftrank.kernels.structures import Candidates, Event, Ranking

__all__ = ["Candidates", "Event", "Ranking", "kernel", "pure"]
