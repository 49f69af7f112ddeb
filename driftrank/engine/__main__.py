"""Compile the simulator of the task on standard input: see :mod:`driftrank.engine.compiling`."""

from __future__ import annotations

import gc

from driftrank.engine.compiling import received
from driftrank.engine.simulators import simulator_of


def main() -> None:
    """Compile one kernel and exit; garbage is not worth collecting."""
    gc.disable()
    simulator_of(received(), 0).compile()


if __name__ == "__main__":
    main()
