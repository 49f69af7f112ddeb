"""Compile what standard input says: see :mod:`driftrank.engine.cuda.compiling`."""

from __future__ import annotations

import gc
import pickle
import sys

from driftrank.engine.cuda.compiling import Job
from driftrank.engine.cuda.program import BLOCK
from driftrank.engine.cuda.run import grouped
from driftrank.engine.unit import Unit
from driftrank.kernels.gpu import compiled


def main() -> None:
    """One kernel, which this process then is done with: nothing it makes on the way is worth collecting."""
    gc.disable()
    task, query, capability = pickle.load(sys.stdin.buffer)
    (group,) = grouped(task, [Unit(policy, query, (0,)) for policy in range(len(task.policies))])
    compiled(*Job.of(task, group.policies, group.programs, query).simulate, capability, BLOCK)


if __name__ == "__main__":
    main()
