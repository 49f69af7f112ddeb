"""Compile the kernel that standard input describes: see :mod:`driftrank.engine.cuda.compiling`."""

from __future__ import annotations

import gc

from driftrank.engine.compiling import received
from driftrank.engine.cuda.compiling import Job
from driftrank.engine.cuda.groups import grouped
from driftrank.engine.cuda.program import BLOCK
from driftrank.engine.task import Unit
from driftrank.kernels.gpu import machine_code


def main() -> None:
    """Compile one kernel and exit; garbage is not worth collecting."""
    gc.disable()
    task, queries, capability = received()
    units = [Unit(policy, query, (0,)) for policy in range(len(task.policies)) for query in queries]
    (group,) = grouped(task, units)
    machine_code(*Job.of(task, group).simulate, capability, BLOCK)


if __name__ == "__main__":
    main()
