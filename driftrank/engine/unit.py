"""A unit of work: some runs of one policy on one query, whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.detections import watch_size
from driftrank.engine.fixed import best_fixed_list
from driftrank.engine.steps import advance, among, as_it_is, reset, simulate
from driftrank.environments.base import Environment
from driftrank.kernels.compile import bind, specialise
from driftrank.kernels.rng import run_keys
from driftrank.policies.base import Policy, Problem
from driftrank.policies.features import one_hot
from driftrank.policies.program import Program

#: what is recorded at every checkpoint
MEASURES = ("regret", "reward", "clicks", "alarms", "detected", "delay", "false_alarms")

#: item-steps between two looks at the clock: short enough for Ctrl-C, long enough to cost nothing
STRIDE = 2_000_000

#: a step that never comes
_NEVER = np.int64(2**62)


@dataclass(frozen=True)
class Task:
    """What all units of a simulation have in common."""

    policies: tuple[Policy, ...]
    environment: Environment
    horizon: int
    seed: int
    checkpoints: tuple[int, ...]

    def problem(self, query: str, policy: Policy) -> Problem:
        width = self.features(query).shape[1] if policy.contextual else 0
        L = len(self.environment.queries[query])
        return Problem(L, self.environment.k, self.horizon, self.horizon, width)

    def features(self, query: str) -> NDArray[np.float64]:
        """What describes the items of a query."""
        given = self.environment.features(query)
        return one_hot(len(self.environment.queries[query])) if given is None else given


@dataclass(frozen=True)
class Unit:
    """Which runs of which policy on which query. Self-contained: its result depends on nothing else."""

    policy: int  #: place in the list of policies
    query: str
    runs: tuple[int, ...]


@cache
def _kernel_of(names: tuple[tuple[str, Any], ...]) -> Any:
    """The kernel that calls these. Policies that differ in numbers only share one, and a sweep has many of them."""
    bindings = {**dict(names), "RESET": reset, "AT_HAND": as_it_is, "AMONG": among}
    return specialise(simulate, {**bindings, "ADVANCE": bind(advance, bindings)})


class Simulator:
    """One policy of a task, compiled. The kernel serves every query; sizes are worked out for each."""

    def __init__(self, task: Task, policy: int) -> None:
        self.task = task
        self.policy = task.policies[policy]
        self._programs: dict[Problem, Program] = {}

    def program(self, query: str) -> Program:
        problem = self.task.problem(query, self.policy)
        if problem not in self._programs:
            self._programs[problem] = Program.of(self.policy, problem)
        return self._programs[problem]

    @cached_property
    def kernel(self) -> Any:
        program = self.program(self.task.environment.names[0])
        model = self.task.environment.users().kernels()
        names = {**program.bindings, "CLICK": model.click, "VALUE": model.value}
        return _kernel_of(tuple(names.items()))

    def compile(self) -> None:
        """Compile now (or fetch from the disk), by running the first step of nothing."""
        self.run(Unit(0, self.task.environment.names[0], ()), lambda steps: True)

    def run(self, unit: Unit, tick: Callable[[int], bool]) -> NDArray[np.float64] | None:
        """The measures of a unit, (runs, checkpoints, measures).

        None when ``tick``, which is told of the steps done, says stop.
        """
        task, program, n = self.task, self.program(unit.query), len(unit.runs)
        L, K = program.problem.L, program.problem.K
        fresh = program.layout.empty()
        if self.policy.contextual:
            program.layout.views(*fresh)["features"][:] = task.features(unit.query)
        floats, ints = (np.empty((n, len(row)), row.dtype) for row in fresh)
        origins = np.zeros(n, np.int64)
        room = (
            np.arange(L, dtype=np.uint32), np.arange(L), np.zeros(L, np.uint32), np.arange(K, dtype=np.uint32),
            np.zeros(K), np.zeros(K * self.policy.memo + program.scratch), np.zeros(K, np.int8),
        )  # fmt: skip
        keys = run_keys(task.seed, unit.query, unit.runs)
        chunk = task.environment.program.chunk(unit.query, keys)
        fixed = np.zeros((n, K), np.int32)
        if self.policy.told_fixed:
            for i, run in enumerate(unit.runs):
                fixed[i] = best_fixed_list(task.environment, task.horizon, unit.query, run, task.seed)
        # one more checkpoint than there are, so that the kernel need not look for the end
        checkpoints = np.append(np.array(task.checkpoints, np.int64), _NEVER)
        totals = np.zeros((n, len(MEASURES)))
        watch = np.zeros((n, watch_size(L)))
        out = np.zeros((n, len(task.checkpoints) * len(MEASURES)))
        stride = max(1, STRIDE // (L * max(n, 1)))
        first = 1
        while first <= task.horizon:
            last = chunk.advance(first, min(task.horizon, first + stride - 1)) if n else task.horizon
            self.kernel(
                *fresh, floats, ints, program.layout.offsets, program.row, *room, origins, keys, chunk.model,
                chunk.work, chunk.count, chunk.starts, chunk.alphas, chunk.optimal, chunk.best, chunk.live, fixed,
                watch, first, last, checkpoints, int(np.searchsorted(checkpoints, first)), totals, out,
            )  # fmt: skip
            if not tick((last - first + 1) * n):
                return None
            first = last + 1
        return out.reshape(n, len(task.checkpoints), len(MEASURES))
