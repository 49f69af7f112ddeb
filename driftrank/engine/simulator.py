"""Run the units of one policy of a task on a CPU core."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.alarm_scoring import watch_size
from driftrank.engine.fixed_list import best_fixed_list
from driftrank.engine.task import MEASURES, Task, Unit
from driftrank.engine.templates import advance, among, reset, simulate, unchanged
from driftrank.kernels.compile import bind, is_compiled, specialise
from driftrank.kernels.rng import run_keys
from driftrank.policies.base import RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy

#: item-steps of one call of the kernel: few enough for Ctrl-C, enough for no overhead
STRIDE = 2_000_000


#: a step that is never reached
NEVER = np.int64(2**62)


#: names in a template and their values; policies that differ only in numbers have the same
Names = tuple[tuple[str, Any], ...]


@cache
def _part(names: Names) -> tuple[Any, dict[str, Any]]:
    """The template of the kernel and all its bindings."""
    bindings = {**dict(names), "RESET": reset, "FETCHED": unchanged, "AMONG": among}
    return simulate, {**bindings, "ADVANCE": bind(advance, bindings)}


@cache
def _kernel_of(part_of: Callable[[Names], tuple[Any, dict[str, Any]]], names: Names) -> Any:
    """The kernel with these bindings, once for all settings of a sweep."""
    return specialise(*part_of(names))


#: templates and bindings whose kernels are in this process: a fingerprint takes milliseconds, and a leaderboard asks
#: for that of every policy in every environment
_loaded: set[tuple[Callable[[Names], tuple[Any, dict[str, Any]]], Names]] = set()


class Simulator:
    """One policy of a task, compiled. All queries share the kernel; sizes are determined for each."""

    part_of = staticmethod(_part)

    def __init__(self, task: Task, policy: int) -> None:
        self.task = task
        self.policy = task.policies[policy]
        self._programs: dict[RankingProblem, CompiledPolicy] = {}

    def program(self, query: str) -> CompiledPolicy:
        problem = self.task.problem(query, self.policy)
        if problem not in self._programs:
            self._programs[problem] = CompiledPolicy.of(self.policy, problem)
        return self._programs[problem]

    @cached_property
    def kernel_key(self) -> Names:
        """The bindings of the kernel: simulators with the same share it."""
        program = self.program(self.task.environment.names[0])
        model = self.task.environment.users().kernels()
        return tuple({**program.bindings, "CLICK": model.click, "VALUE": model.value}.items())

    @cached_property
    def kernel(self) -> Any:
        return _kernel_of(self.part_of, self.kernel_key)

    @property
    def compiled(self) -> bool:
        """True if the kernel need not be compiled: it is in this process or in the cache."""
        return (self.part_of, self.kernel_key) in _loaded or is_compiled(*self.part_of(self.kernel_key))

    def compile(self) -> None:
        """Compile now, or load from the cache."""
        self._run_nothing()
        _loaded.add((self.part_of, self.kernel_key))

    def _run_nothing(self) -> None:
        """Call the kernel without any run."""
        self.run(Unit(0, self.task.environment.names[0], ()), lambda steps: True)

    @cached_property
    def numbers_key(self) -> Hashable:
        """Simulators of one environment that have the same key make the same runs, whatever their policies' names."""
        rows = tuple(self.program(query).row.tobytes() for query in self.task.unlike)
        return self.kernel_key, self.policy.needs_fixed_list, rows

    def run(self, unit: Unit, tick: Callable[[int], bool]) -> NDArray[np.float64] | None:
        """The measures of a unit, an array (runs, checkpoints, measures).

        None if ``tick``, which is called with the number of steps done, returns False.
        """
        task, program, n = self.task, self.program(unit.query), len(unit.runs)
        L, K = program.problem.L, program.problem.K
        fresh = program.layout.empty()
        if self.policy.contextual:
            program.layout.views(*fresh)["features"][:] = task.features(unit.query)
        floats, ints = (np.empty((n, len(row)), row.dtype) for row in fresh)
        origins = np.zeros(n, np.int64)
        buffers = (
            np.arange(L, dtype=np.uint32), np.arange(L), program.flat_prior(L), np.zeros(L, np.uint32),
            np.arange(K, dtype=np.uint32), np.zeros(K), np.zeros(K * self.policy.memo), np.zeros(program.scratch),
            np.zeros(K, np.int8),
        )  # fmt: skip
        keys = run_keys(task.seed, unit.query, unit.runs)
        chunk = task.environment.program.chunk(unit.query, keys)
        fixed = np.zeros((n, K), np.int32)
        if self.policy.needs_fixed_list:
            for i, run in enumerate(unit.runs):
                fixed[i] = best_fixed_list(task.environment, task.horizon, unit.query, run, task.seed)
        # one more than there are, so that the kernel need not check for the end
        checkpoints = np.append(np.array(task.checkpoints, np.int64), NEVER)
        totals = np.zeros((n, len(MEASURES)))
        watch = np.zeros((n, watch_size(L)))
        out = np.zeros((n, len(task.checkpoints) * len(MEASURES)))
        stride = max(1, STRIDE // (L * max(n, 1)))
        first = 1
        while first <= task.horizon:
            last = chunk.advance(first, min(task.horizon, first + stride - 1)) if n else task.horizon
            self.kernel(
                *fresh, floats, ints, program.layout.offsets, program.row, *buffers, origins, keys, chunk.model,
                chunk.work, chunk.count, chunk.starts, chunk.alphas, chunk.optimal, chunk.best, chunk.live, fixed,
                watch, first, last, checkpoints, int(np.searchsorted(checkpoints, first)), totals, out,
            )  # fmt: skip
            if not tick((last - first + 1) * n):
                return None
            first = last + 1
        return out.reshape(n, len(task.checkpoints), len(MEASURES))
