"""A unit of work: some runs of one policy on one query, whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.steps import simulate
from driftrank.environments.base import Environment
from driftrank.kernels.compile import specialise
from driftrank.kernels.rng import run_key
from driftrank.policies.base import Policy, Problem
from driftrank.policies.program import Program

#: what is recorded at every checkpoint
MEASURES = ("regret", "reward", "clicks")

#: steps between two looks at the clock: short enough for Ctrl-C, long enough to cost nothing
STRIDE = 200_000


@dataclass(frozen=True)
class Unit:
    """Which runs of which policy on which query. Self-contained: its result depends on nothing else."""

    policy: int  #: place in the list of policies
    query: str
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """What all units of a simulation have in common."""

    policies: tuple[Policy, ...]
    environment: Environment
    horizon: int
    seed: int
    checkpoints: NDArray[np.int64]

    def problem(self, query: str) -> Problem:
        return Problem(len(self.environment.queries[query]), self.environment.k, self.horizon, self.horizon)


def compiled(policy: Policy, task: Task, query: str) -> tuple[Program, Any]:
    """The program of a policy on a query, and its simulation kernel."""
    program = Program.of(policy, task.problem(query))
    model = task.environment.click_model.kernels()
    return program, specialise(simulate, {**program.bindings, "CLICK": model.click, "VALUE": model.value})


def run_unit(
    task: Task, unit: Unit, program: Program, kernel: Any, tick: Callable[[int], bool]
) -> NDArray[np.float64] | None:
    """Simulate a unit. Returns the measures, (runs, checkpoints, measures), or None when ``tick``, which is told of the
    steps done, says stop."""
    n = len(unit.runs)
    floats, ints = (np.tile(row, (n, 1)) for row in program.layout.empty())
    keys = [run_key(task.seed, unit.query, run) for run in unit.runs]
    chunk = task.environment.program.chunk(unit.query, keys)
    fixed = _fixed_lists(task, unit) if program.policy.oracle else np.zeros((n, task.environment.k), np.int32)
    # one more checkpoint than there are, so that the kernel need not look for the end
    checkpoints = np.append(task.checkpoints, np.int64(2**62))
    totals = np.zeros((n, len(MEASURES)))
    out = np.zeros((n, len(task.checkpoints), len(MEASURES)))
    stride = max(1, STRIDE // n)
    t = 1
    while t <= task.horizon:
        if not tick(0):
            return None
        last = chunk.advance(t, min(task.horizon, t + stride - 1))
        kernel(
            floats, ints, program.layout.offsets, program.row, program.policy.memo * task.environment.k,
            np.array(keys, np.uint64), chunk.world.model, chunk.count, chunk.starts, chunk.alphas, chunk.optimal,
            fixed, t, last, checkpoints, totals, out,
        )  # fmt: skip
        if not tick((last - t + 1) * n):
            return None
        t = last + 1
    return out


def _fixed_lists(task: Task, unit: Unit) -> NDArray[np.int32]:
    raise NotImplementedError
