"""Run one policy of a task over all queries of Traffic on a CPU core."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.alarm_scoring import watch_size
from driftrank.engine.simulator import NEVER, STRIDE, Names, Simulator
from driftrank.engine.task import Unit
from driftrank.engine.traffic.templates import Call, Pending, SharedRows, States, catch_up, group_of, learn, simulate
from driftrank.environments.traffic.traffic import Traffic
from driftrank.environments.traffic.world import CALLERS, NO_ORDER
from driftrank.kernels.compile import bind
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.features import one_hot

#: an item of a list takes as long as so many of a step in other simulations
_COST = 25
#: the most bytes of the states of one run
MOST_BYTES = 32 << 30


@cache
def _part(names: Names) -> tuple[Any, dict[str, Any]]:
    bindings = dict(names)
    return simulate, {**bindings, "CATCH_UP": bind(catch_up, bindings), "LEARN": bind(learn, bindings)}


class TrafficSimulator(Simulator):
    """One policy of a task, compiled for all queries of Traffic. Every run has a world of its own."""

    part_of = staticmethod(_part)

    @property
    def environment(self) -> Traffic:
        environment = self.task.environment
        assert isinstance(environment, Traffic)
        return environment

    @cached_property
    def kernel_key(self) -> Names:
        program, model = self.program(self.environment.names[0]), self.environment.users().kernels()
        names = {
            **program.bindings, "WORLD_PARAMETERS": self.environment.program.read, "SHARES": program.shares,
            "CLICK": model.click, "VALUE": model.value, "OPTIMUM": model.optimum,
        }  # fmt: skip
        return tuple(names.items())

    @cached_property
    def numbers_key(self) -> Hashable:
        return self.policy.spec  # parameters differ from run to run, with the lists of its busiest query

    def _run_nothing(self) -> None:
        self._lists(0, 0, lambda lists: True)

    def run(self, unit: Unit, tick: Callable[[int], bool]) -> NDArray[np.float64] | None:
        found = []
        for run in unit.runs:
            measures = self._lists(run, self.task.horizon, tick)
            if measures is None:
                return None
            found.append(measures)
        return np.array(found).reshape(len(found), len(self.task.checkpoints), len(self.task.measures))

    def _lists(self, run: int, last: int, tick: Callable[[int], bool]) -> NDArray[np.float64] | None:
        """The measures of the lists 1 .. ``last`` of one run, (checkpoints, measures)."""
        task, environment = self.task, self.environment
        traffic = environment.run(run, task.seed)
        counts = traffic.counts(last)
        # the state of a query need not have capacity for more steps than it has lists
        problem = replace(task.problem(environment.names[0], self.policy), steps=max(1, int(counts.max())))
        program = CompiledPolicy.of(self.policy, problem)
        arguments = (
            program.row, traffic.program.row, traffic.key, traffic.world_key, traffic.world,
            self._states(program, counts), _shared_rows(program), self._pending(), self._call(program),
            *self._users(),
        )  # fmt: skip
        # one more than there are, so that the kernel need not check for the end
        checkpoints = np.append(np.array(task.checkpoints, np.int64), NEVER)
        totals = np.zeros(len(task.measures))
        out = np.zeros(len(task.checkpoints) * len(task.measures))
        stride = max(1, STRIDE // (_COST * environment.candidates))
        first = 1
        while first <= max(last, 1):
            end = min(last, first + stride - 1)
            self.kernel(*arguments, first, end, checkpoints, int(np.searchsorted(checkpoints, first)), totals, out)
            if not tick(end - first + 1):
                return None
            first = end + 1 if last else 2
        return out.reshape(len(task.checkpoints), len(task.measures))

    def _states(self, program: CompiledPolicy, counts: NDArray[np.int64]) -> States:
        environment = self.environment
        n, L, K = environment.n_queries, environment.candidates, environment.k
        fresh = program.layout.empty()
        width, queries = 8 * len(fresh[0]) + 4 * len(fresh[1]), int(np.count_nonzero(counts))
        if width * queries > MOST_BYTES:
            raise ValueError(
                f"{self.policy.spec}: its states take {width * queries >> 30} GiB, {width:,} bytes for each of "
                f"{queries:,} queries; at most {MOST_BYTES >> 30} GiB are allowed"
            )
        features = -1
        if self.policy.contextual and environment.d:
            features = program.layout.begins["features"]
        elif self.policy.contextual:
            program.layout.views(*fresh)["features"][:] = one_hot(L)
        return States(
            # rows of queries that never come are never touched, and take no memory
            np.empty((n, len(fresh[0]))), np.empty((n, len(fresh[1])), np.int32), *fresh, program.layout.offsets,
            features, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
            np.array([group_of(count) for count in counts.tolist()], np.int8), np.empty((n, watch_size(L))),
            np.zeros((n, K), np.int32), np.zeros(n), np.zeros(n),
        )  # fmt: skip

    def _pending(self) -> Pending:
        environment = self.environment
        n, K, d = environment.delay + 1, environment.k, environment.d
        return Pending(
            np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.uint64),
            np.tile(np.arange(K, dtype=np.uint32), (n, 1)), np.zeros((n, K)),
            np.zeros((n, K * self.policy.memo)), np.zeros((n, K), np.int8),
            np.zeros((n, K), np.int64), np.zeros((n, K)), np.zeros((n, K * d)),
        )  # fmt: skip

    def _call(self, program: CompiledPolicy) -> Call:
        environment = self.environment
        L = environment.candidates
        ordered = environment.caller != CALLERS[NO_ORDER]
        return Call(
            np.arange(L, dtype=np.uint32), np.arange(L, dtype=np.uint32), np.arange(1.0, L + 1) * ordered,
            program.flat_prior(L), np.zeros(L * environment.d), np.zeros(program.scratch),
            np.zeros(environment.k, np.int32),
        )  # fmt: skip

    def _users(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The parameters of the click model, and its buffer."""
        users, L, K = self.environment.users(), self.environment.candidates, self.environment.k
        return users.row(L, K), np.zeros(users.work_size(L, K))


def _shared_rows(program: CompiledPolicy) -> SharedRows:
    return SharedRows(*program.shared_layout.empty(), program.shared_layout.offsets)
