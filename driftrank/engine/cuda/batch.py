"""A batch: runs that advance together on the GPU, with their memory and launches.

A launch advances all runs of a batch by some steps. Their number follows from the time of the previous launch, so that
none takes longer than a fraction of a second. Measures at the checkpoints passed are copied back after it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from driftrank.engine.alarm_scoring import watch_size
from driftrank.engine.cuda.device import Gpu, allocated, is_finished, sent
from driftrank.engine.cuda.program import BLOCK, GpuProgram, GpuWorld
from driftrank.engine.cuda.views import TILE
from driftrank.engine.fixed_list import best_fixed_list
from driftrank.engine.task import MEASURES, Task, Unit
from driftrank.kernels.rng import run_keys, world_keys

#: a step that never comes
_NEVER = 2**62
#: seconds that a launch should take: long enough for no overhead, short enough for Ctrl-C
_WANTED = 0.2
#: steps of the first launch, and the largest factor from one launch to the next
_FIRST, _GROWTH = 16, 8
#: bytes of one batch for segments of constant attraction, and for measures
_SEGMENTS, _RECORDS = 1 << 28, 1 << 28


@dataclass(frozen=True)
class GpuKernels:
    """The kernels of a batch."""

    program: GpuProgram
    world: GpuWorld
    simulate: Any
    unroll: Any


def segment_bytes(program: GpuProgram, churns: bool) -> int:
    """Bytes of one segment of one run."""
    return 24 + 8 * program.capacity + 4 * program.K + (program.capacity if churns else 0)


def space_per_run(program: GpuProgram, churns: bool, runs: int, checkpoints: int) -> tuple[int, int]:
    """The numbers of segments and of checkpoints that the memory of each run holds."""
    segments = _SEGMENTS // (runs * segment_bytes(program, churns))
    marks = _RECORDS // (runs * 8 * len(MEASURES))
    return max(4, min(1024, segments)), max(1, min(checkpoints, marks))


def batch_bytes(program: GpuProgram, churns: bool, runs: int, checkpoints: int) -> int:
    """Bytes of GPU memory for the runs of a batch, without those that all runs share."""
    segments, marks = space_per_run(program, churns, runs, checkpoints)
    each = (
        8 * program.slots[False] + 4 * program.slots[True] + segments * segment_bytes(program, churns)
        + 8 * len(MEASURES) * (marks + 1) + 8 * watch_size(program.capacity) + 4 * program.K + 64
    )  # fmt: skip
    return -(-runs // TILE) * TILE * int(each)


class Batch:
    """Runs on the GPU, with their memory; call ``poll`` until it returns None."""

    def __init__(
        self,
        gpu: Gpu,
        task: Task,
        kernels: GpuKernels,
        units: Sequence[Unit],
        settings: Sequence[int],
        lanes: int = TILE,
    ) -> None:
        """``settings``: the place of every unit's program among those of the kernels; ``lanes``: runs per warp."""
        self.gpu, self.task, self.kernels, self.lanes = gpu, task, kernels, lanes
        program, environment = kernels.program, task.environment
        self.churns = environment.churns
        self.stream = cuda.stream()
        self.event: Any = None
        lengths = [len(unit.runs) for unit in units]
        self.runs = runs = sum(lengths)
        self.runs_of: Counter[int] = Counter()  #: by policy
        for unit in units:
            self.runs_of[unit.policy] += len(unit.runs)
        self.measures = np.zeros((runs, len(task.checkpoints), len(MEASURES)))
        self.seconds = 0.0
        self.first, self.last = 1, 0
        self._wanted = _FIRST
        self._checkpoints = np.array([*task.checkpoints, _NEVER], np.int64)
        L, K = program.capacity, program.K
        tiled = -(-runs // TILE) * TILE
        self.space, self.marks = space_per_run(program, self.churns, runs, len(task.checkpoints))
        queries = list(dict.fromkeys(unit.query for unit in units))
        of_query = {query: i for i, query in enumerate(queries)}
        keys = np.concatenate([run_keys(task.seed, unit.query, unit.runs) for unit in units])
        fresh, fresh_of = self._fresh(units, settings)
        bases = [environment.given(query) for query in queries]
        fixed = np.zeros((tiled, K), np.int32)
        if program.programs[0].policy.needs_fixed_list:
            pairs = [(unit.query, run) for unit in units for run in unit.runs]
            for i, (query, run) in enumerate(pairs):
                fixed[i] = best_fixed_list(environment, task.horizon, query, run, task.seed)

        def each(of_unit: Sequence[int]) -> Any:
            return sent(np.repeat(np.array(of_unit, np.int32), lengths))

        models = [environment.users(query).row(len(base), K) for query, base in zip(queries, bases, strict=True)]
        self.reach = sent(np.zeros(1, np.int64))
        self._shared = {
            "keys": sent(keys),
            "settings": each(settings),
            "queries": each([of_query[unit.query] for unit in units]),
            "fresh": each(fresh_of),
            "rows": sent(program.rows),
            "field_sizes": sent(program.field_sizes),
            "models": sent(np.concatenate(models)),
            "model_starts": sent(_starts(models)),
            "fresh_floats": sent(np.array([floats for floats, _ in fresh])),
            "fresh_ints": sent(np.array([ints for _, ints in fresh], np.int32)),
            "floats": allocated(tiled * program.slots[False], np.float64),
            "ints": allocated(tiled * program.slots[True], np.int32),
            "checkpoints": sent(self._checkpoints),
        }
        self._world = {
            "count": allocated(tiled, np.int64),
            "starts": allocated(tiled * self.space, np.int64),
            "ends": allocated(tiled * self.space, np.int64),
            "until": sent(np.zeros(tiled, np.int64)),
            "alphas": allocated(tiled * self.space * L, np.float64),
            "optimal": allocated(tiled * self.space, np.float64),
            "best": allocated(tiled * self.space * K, np.int32),
            "live": allocated(tiled * self.space * L if self.churns else 1, np.int8),
        }
        self._of_run = {
            "fixed": sent(_tiled(fixed)),
            "watch": sent(np.zeros(tiled * watch_size(L))),
            "origins": sent(np.zeros(tiled, np.int64)),
            "totals": sent(np.zeros(tiled * len(MEASURES))),
            "out": allocated(tiled * len(MEASURES) * self.marks, np.float64),
        }
        self._unroll = {
            "keys": sent(world_keys(keys)),
            "queries": self._shared["queries"],
            "row": sent(kernels.world.row),
            "models": self._shared["models"],
            "model_starts": self._shared["model_starts"],
            "bases": sent(np.concatenate([base.ravel() for base in bases])),
            "base_starts": sent(_starts(bases)),
            "base_widths": sent(np.array([base.size // len(base) for base in bases], np.int64)),
            "lengths": sent(np.array([len(base) for base in bases], np.int64)),
        }

    def _fresh(
        self, units: Sequence[Unit], settings: Sequence[int]
    ) -> tuple[list[tuple[NDArray[Any], NDArray[Any]]], list[int]]:
        """The distinct states before the first step, and the place of every unit's among them."""
        program = self.kernels.program
        made: dict[tuple[int, str], int] = {}
        states: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for unit, setting in zip(units, settings, strict=True):
            contextual = program.programs[setting].policy.contextual
            key = (setting, unit.query if contextual else "")
            if key not in made:
                made[key] = len(states)
                features = self.task.features(unit.query) if contextual else None
                states.append(program.fresh(program.programs[setting], features))
        contextual = program.programs[0].policy.contextual
        return states, [made[s, u.query if contextual else ""] for u, s in zip(units, settings, strict=True)]

    def poll(self) -> int | None:
        """Launch the next steps if the last launch has finished. Returns the number of steps of each run done since the
        last call; None if all are done."""
        if self.event is None:
            self._launch()
            return 0
        if not is_finished(self.event):
            return 0
        took = time.perf_counter() - self._began
        self.seconds += took
        found = self.reach.copy_to_host(stream=self.stream)  # the default stream would wait for other batches
        self.stream.synchronize()
        reached = int(found[0])
        self._collect(reached)
        done = reached - self.first + 1
        if reached == self.last:
            faster = _WANTED / max(took, 1e-6)
            self._wanted = max(1, int(self._wanted * min(max(faster, 1 / _GROWTH), _GROWTH)))
        self.first = reached + 1
        if self.first > self.task.horizon:
            self.event = None
            return None
        self._launch()
        return done

    def finish(self) -> None:
        """Wait for the current launch."""
        self.stream.synchronize()

    def _launch(self) -> None:
        task, program, runs = self.task, self.kernels.program, self.runs
        mark = int(np.searchsorted(self._checkpoints, self.first))
        beyond = self._checkpoints[min(mark + self.marks, len(self._checkpoints) - 1)]  # the first that does not fit
        self.last = int(min(task.horizon, self.first + self._wanted - 1, beyond - 1))
        self.reach.copy_to_device(np.array([self.last], np.int64), stream=self.stream)
        world = list(self._world.values())
        threads = runs if self.lanes == TILE else -(-runs // self.lanes) * TILE
        self.gpu.launch(
            self.kernels.unroll, threads, BLOCK, self.stream,
            [runs, self.lanes, self.first, self.last, self.space, len(self.kernels.world.row),
             *self._unroll.values(), *world, self.reach],
        )  # fmt: skip
        self.gpu.launch(
            self.kernels.simulate, threads, BLOCK, self.stream,
            [runs, self.lanes, self.first, self.reach, mark, self.marks, self.space,
             program.slots[False], program.slots[True], program.rows.shape[1],
             *self._shared.values(), *world, *self._of_run.values()],
        )  # fmt: skip
        self.event = cuda.event()
        self.event.record(self.stream)
        self._began = time.perf_counter()

    def _collect(self, reached: int) -> None:
        """Copy back the measures up to step ``reached``."""
        begin, end = np.searchsorted(self._checkpoints, [self.first, reached + 1])
        if begin == end:
            return
        found = self._of_run["out"].copy_to_host(stream=self.stream)
        self.stream.synchronize()
        tiles = found.reshape(-1, self.marks, len(MEASURES), TILE)[:, : end - begin]
        self.measures[:, begin:end] = tiles.transpose(0, 3, 1, 2).reshape(-1, end - begin, len(MEASURES))[: self.runs]


def _starts(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The place of each array in their concatenation, and its end."""
    return np.cumsum([0, *(array.size for array in arrays)]).astype(np.int64)


def _tiled(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of runs, interleaved by tiles."""
    return rows.reshape(-1, TILE, rows.shape[1]).transpose(0, 2, 1)
