"""Runs that are taken through all steps together: what they need in the GPU's memory, and their launches.

A launch takes all runs of a batch some steps further; its length is chosen so that none takes longer than a fraction of
a second, by how long the one before took. What is recorded at the checkpoints on the way comes back after it.
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

from driftrank.engine.cuda.device import Gpu, is_finished, room_for, sent
from driftrank.engine.cuda.program import BLOCK, GpuProgram, GpuWorld
from driftrank.engine.cuda.views import TILE
from driftrank.engine.detections import watch_size
from driftrank.engine.fixed import best_fixed_list
from driftrank.engine.unit import MEASURES, Task, Unit
from driftrank.kernels.rng import run_keys, world_keys

#: a step that never comes
_NEVER = 2**62
#: seconds that a launch should take: long enough to cost nothing, short enough for Ctrl-C
_WANTED = 0.2
#: steps of the first launch, and how much longer than the one before a launch may be
_FIRST, _GROWTH = 16, 8
#: bytes for stretches of constant attraction, and for what is recorded, of one batch
_STRETCHES, _RECORDS = 1 << 28, 1 << 28


@dataclass(frozen=True)
class Kernels:
    """What a batch launches."""

    program: GpuProgram
    world: GpuWorld
    simulate: Any
    unroll: Any


def stretch_bytes(program: GpuProgram, churns: bool) -> int:
    """Bytes of one stretch of one run."""
    return 24 + 8 * program.L + 4 * program.K + (program.L if churns else 0)


def rooms(program: GpuProgram, churns: bool, runs: int, checkpoints: int) -> tuple[int, int]:
    """For how many stretches and checkpoints of each run there is room at a time."""
    stretches = _STRETCHES // (runs * stretch_bytes(program, churns))
    marks = _RECORDS // (runs * 8 * len(MEASURES))
    return max(4, min(1024, stretches)), max(1, min(checkpoints, marks))


def batch_bytes(program: GpuProgram, churns: bool, runs: int, checkpoints: int) -> int:
    """What a batch takes of the GPU's memory, without what all runs share."""
    stretches, marks = rooms(program, churns, runs, checkpoints)
    each = (
        8 * program.slots[False] + 4 * program.slots[True] + stretches * stretch_bytes(program, churns)
        + 8 * len(MEASURES) * (marks + 1) + 8 * watch_size(program.L) + 4 * program.K + 64
    )  # fmt: skip
    return -(-runs // TILE) * TILE * each


class Batch:
    """Runs on the GPU. Made when there is memory for them; ``poll`` until it says that all is done."""

    def __init__(
        self, gpu: Gpu, task: Task, kernels: Kernels, units: Sequence[Unit], settings: Sequence[int], lanes: int = TILE
    ) -> None:
        """``settings`` says of every unit which of the kernels' programs is its own; ``lanes``, how many runs a warp
        has."""
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
        L, K = program.L, program.K
        tiled = -(-runs // TILE) * TILE
        self.room, self.marks = rooms(program, self.churns, runs, len(task.checkpoints))
        queries = list(dict.fromkeys(unit.query for unit in units))
        of_query = {query: i for i, query in enumerate(queries)}
        keys = np.concatenate([run_keys(task.seed, unit.query, unit.runs) for unit in units])
        fresh, fresh_of = self._fresh(units, settings)
        bases = [environment.given(query) for query in queries]
        fixed = np.zeros((tiled, K), np.int32)
        if program.programs[0].policy.told_fixed:
            pairs = [(unit.query, run) for unit in units for run in unit.runs]
            for i, (query, run) in enumerate(pairs):
                fixed[i] = best_fixed_list(environment, task.horizon, query, run, task.seed)

        def each(of_unit: Sequence[int]) -> Any:
            return sent(np.repeat(np.array(of_unit, np.int32), lengths))

        models = np.array([environment.users(query).row(L, K) for query in queries])
        self.model_size = models.shape[1]
        self.reach = sent(np.zeros(1, np.int64))
        self._shared = {
            "keys": sent(keys),
            "settings": each(settings),
            "queries": each([of_query[unit.query] for unit in units]),
            "fresh": each(fresh_of),
            "rows": sent(program.rows),
            "models": sent(models),
            "fresh_floats": sent(np.array([floats for floats, _ in fresh])),
            "fresh_ints": sent(np.array([ints for _, ints in fresh], np.int32)),
            "floats": room_for(tiled * program.slots[False], np.float64),
            "ints": room_for(tiled * program.slots[True], np.int32),
            "checkpoints": sent(self._checkpoints),
        }
        self._world = {
            "count": room_for(tiled, np.int64),
            "starts": room_for(tiled * self.room, np.int64),
            "ends": room_for(tiled * self.room, np.int64),
            "until": sent(np.zeros(tiled, np.int64)),
            "alphas": room_for(tiled * self.room * L, np.float64),
            "optimal": room_for(tiled * self.room, np.float64),
            "best": room_for(tiled * self.room * K, np.int32),
            "live": room_for(tiled * self.room * L if self.churns else 1, np.int8),
        }
        self._of_run = {
            "fixed": sent(_tiled(fixed)),
            "watch": sent(np.zeros(tiled * watch_size(L))),
            "origins": sent(np.zeros(tiled, np.int64)),
            "totals": sent(np.zeros(tiled * len(MEASURES))),
            "out": room_for(tiled * len(MEASURES) * self.marks, np.float64),
        }
        self._unroll = {
            "keys": sent(world_keys(keys)),
            "queries": self._shared["queries"],
            "row": sent(kernels.world.row),
            "models": self._shared["models"],
            "bases": sent(np.concatenate([base.ravel() for base in bases])),
            "base_starts": sent(np.cumsum([0, *(base.size for base in bases)])[:-1].astype(np.int64)),
            "base_widths": sent(np.array([base.size // L for base in bases], np.int64)),
        }

    def _fresh(
        self, units: Sequence[Unit], settings: Sequence[int]
    ) -> tuple[list[tuple[NDArray[Any], NDArray[Any]]], list[int]]:
        """The states before the first step, and which is that of every unit."""
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
        """Go on if the GPU has finished what it was told. Returns how many steps of each run were done since the last
        call; None: all are done."""
        if self.event is None:
            self._launch()
            return 0
        if not is_finished(self.event):
            return 0
        took = time.perf_counter() - self._began
        self.seconds += took
        found = self.reach.copy_to_host(stream=self.stream)  # the default stream would wait for the other batches
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
        """Wait for what the GPU was told."""
        self.stream.synchronize()

    def _launch(self) -> None:
        task, program, runs = self.task, self.kernels.program, self.runs
        mark = int(np.searchsorted(self._checkpoints, self.first))
        beyond = self._checkpoints[min(mark + self.marks, len(self._checkpoints) - 1)]  # there is no room for this one
        self.last = int(min(task.horizon, self.first + self._wanted - 1, beyond - 1))
        self.reach.copy_to_device(np.array([self.last], np.int64), stream=self.stream)
        world = list(self._world.values())
        threads = runs if self.lanes == TILE else -(-runs // self.lanes) * TILE
        self.gpu.launch(
            self.kernels.unroll, threads, BLOCK, self.stream,
            [runs, self.lanes, self.first, self.last, self.room, len(self.kernels.world.row), self.model_size,
             *self._unroll.values(), *world, self.reach],
        )  # fmt: skip
        self.gpu.launch(
            self.kernels.simulate, threads, BLOCK, self.stream,
            [runs, self.lanes, self.first, self.reach, mark, self.marks, self.room,
             program.slots[False], program.slots[True], program.rows.shape[1], self.model_size,
             *self._shared.values(), *world, *self._of_run.values()],
        )  # fmt: skip
        self.event = cuda.event()
        self.event.record(self.stream)
        self._began = time.perf_counter()

    def _collect(self, reached: int) -> None:
        """Fetch what was recorded up to a step."""
        begin, end = np.searchsorted(self._checkpoints, [self.first, reached + 1])
        if begin == end:
            return
        found = self._of_run["out"].copy_to_host(stream=self.stream)
        self.stream.synchronize()
        tiles = found.reshape(-1, self.marks, len(MEASURES), TILE)[:, : end - begin]
        self.measures[:, begin:end] = tiles.transpose(0, 3, 1, 2).reshape(-1, end - begin, len(MEASURES))[: self.runs]


def _tiled(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of runs, laid side by side."""
    return rows.reshape(-1, TILE, rows.shape[1]).transpose(0, 2, 1)
