"""Compile what rankers need, in processes of their own.

``python -m driftrank.serve.processes.compiling`` compiles one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from driftrank.engine.compiling import WORTH_PROCESSES, CompilerProcesses, Note, received
from driftrank.policies.base import Policy
from driftrank.serve.state.query import warm_up


@dataclass(frozen=True)
class Needed:
    """A policy as a ranker uses it."""

    policy: Policy
    k: int
    horizon: int | None
    max_bytes: int

    def compile(self) -> None:
        warm_up(self.policy, self.k, self.horizon, self.max_bytes)


def compile_policies(needed: Sequence[Needed], cores: int, note: Note) -> Iterator[tuple[Policy, float]]:
    """Yield every policy when it is compiled, and the seconds since that began; ``note`` gets a line when it begins."""
    begun: dict[int, float] = {}

    def begin(n: int) -> None:
        if n not in begun:
            begun[n] = perf_counter()
            left = len(needed) - len(begun)
            note(f"compiling {needed[n].policy.spec}{f', {left} left' if left else ''}")

    several = cores > 1 and len(needed) >= WORTH_PROCESSES
    with CompilerProcesses(__name__, dict(enumerate(needed)) if several else {}, cores, begin) as processes:
        for n, ranker in enumerate(needed):
            processes.wait(n)
            begin(n)
            ranker.compile()  # or load what a process has compiled
            yield ranker.policy, perf_counter() - begun[n]


def main() -> None:
    """Compile one and exit; garbage is not worth collecting."""
    gc.disable()
    received().compile()


if __name__ == "__main__":
    main()
