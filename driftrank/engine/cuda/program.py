"""Policies made ready to run on a GPU: those that one kernel serves.

A kernel is made for the numbers of items and positions, so that loops can be unrolled, and for every small integer that
its policies have in common and that does not depend on the horizon: words, flags, numbers of hypotheses. What differs
from run to run it reads from a row of parameters, so a whole grid is one launch.
"""

from __future__ import annotations

import dataclasses
import math
from collections import namedtuple
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import ClickModel
from driftrank.engine.cuda import steps
from driftrank.engine.cuda.views import BASE, NUMBER, float64_rows, float64s
from driftrank.engine.detections import watch_size
from driftrank.engine.steps import advance, among, as_it_is
from driftrank.engine.unit import MEASURES
from driftrank.environments.base import Environment
from driftrank.kernels.compile import bind, generate
from driftrank.kernels.structures import Candidates
from driftrank.kernels.tuples import parameter_reader
from driftrank.policies.program import Program

#: threads of a block
BLOCK = 64
#: bytes of a run that are kept near, in memory that the threads of a block share: little enough for many threads
NEAR = 448
#: integers up to this are compiled in
_SMALL = 64
#: what simulate and unroll are called with
SIMULATE = (NUMBER,) * 3 + (BASE,) + (NUMBER,) * 7 + (BASE,) * 24
UNROLL = (NUMBER,) * 7 + (BASE,) * 16


def alike(program: Program, users: ClickModel) -> tuple[Any, ...]:
    """What programs that share a kernel have in common."""
    kernels = (*program.kernels, *users.kernels())
    fields = tuple((name, f.integer) for name, f in program.layout.fields)
    return (*map(id, kernels), program.problem.L, program.problem.K, program.bindings["PARAMETERS"], fields,
            program.policy.memo, program.policy.restarts)  # fmt: skip


class GpuProgram:
    """Policies that are :func:`alike`, on queries with as many items."""

    def __init__(self, programs: Sequence[Program], users: ClickModel, churns: bool) -> None:
        self.programs = list(programs)
        self.users = users
        self.churns = churns
        self.L, self.K = programs[0].problem.L, programs[0].problem.K
        self.memo = self.K * programs[0].policy.memo + max(program.scratch for program in programs)
        self.rows: NDArray[np.float64] = np.array([program.row for program in programs])
        self._place_fields()

    def _place_fields(self) -> None:
        """Small fields first, so that those whose size depends on the horizon come last and move no other."""
        first = self.programs[0]
        sizes = {
            name: max(math.prod(dict(p.layout.fields)[name].shape(self.L, self.K)) for p in self.programs)
            for name in first.layout.names
        }
        self.begin: dict[str, int] = {}
        self.slots = {False: 0, True: 0}
        self.near = {False: 0, True: 0}
        self._near_fields: set[str] = set()
        self._last: dict[bool, str] = {}
        self.near_alpha = self.L if 16 * self.L <= NEAR else 0
        left, full = NEAR - 8 * self.near_alpha, {False: False, True: False}
        for name, f in sorted(first.layout.fields, key=lambda named: sizes[named[0]]):
            size = sizes[name]
            self.begin[name] = self.slots[f.integer]
            self.slots[f.integer] += size
            self._last[f.integer] = name
            bytes_of = size * (4 if f.integer else 8)
            full[f.integer] |= bytes_of > left
            if not full[f.integer]:
                left -= bytes_of
                self.near[f.integer] += size
                self._near_fields.add(name)
        self._sizes = sizes

    def fresh(self, program: Program, features: NDArray[np.float64] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """A state before its first step."""
        rows: dict[bool, NDArray[Any]] = {
            False: np.zeros(self.slots[False]),
            True: np.zeros(self.slots[True], np.int32),
        }
        for name, f in program.layout.fields:
            size = math.prod(f.shape(self.L, self.K))
            rows[f.integer][self.begin[name] : self.begin[name] + size] = f.fill
            if name == "features" and features is not None:
                rows[False][self.begin[name] : self.begin[name] + size] = features.ravel()
        return rows[False], rows[True]

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The parameters that the kernel knows."""
        policy, problem = self.programs[0].policy, self.programs[0].problem
        longer = policy.parameters(dataclasses.replace(problem, horizon=2 * problem.room, steps=2 * problem.room))
        shared = {}
        for n, (name, value) in enumerate(sorted(policy.parameters(problem).items())):
            small = isinstance(value, (int, np.integer)) and abs(value) <= _SMALL and longer[name] == value
            if name in ("L", "K") or (small and (self.rows[:, n] == value).all()):
                shared[name] = int(value)
        return shared

    @cached_property
    def bindings(self) -> dict[str, Any]:
        """What the template ``simulate`` calls and knows."""
        first, model = self.programs[0], self.users.kernels()
        parameters = dict(sorted(first.policy.parameters(first.problem).items()))
        names = {
            **first.bindings,
            "PARAMETERS": parameter_reader(parameters, self.fixed),
            "CLICK": model.click,
            "VALUE": model.value,
            "RESET": steps.reset,
            "AT_HAND": steps.fetched if self.near_alpha else as_it_is,
            "AMONG": among if self.churns else generate("among", "everyone, present, length", "everyone", {}),
        }
        near_floats, near_ints = max(1, self.near[False]), max(1, self.near[True])
        return {
            "PARAMETERS": names["PARAMETERS"],
            "STATE": self._state_of(),
            "ADVANCE": bind(advance, names),
            "EVERYONE": bind(steps.everyone, {"TOKENS": np.arange(self.L)}) if self.churns else _everyone(self.L),
            **sizes_of(self.L, self.K, self.churns, self.users),
            "MEMO": max(1, self.memo),
            "PRESENT": self.L if self.churns else 1,
            "WATCH": watch_size(self.L),
            "MEASURES": len(MEASURES),
            "NEAR_FLOATS": self.near[False],
            "NEAR_INTS": self.near[True],
            "BLOCK": BLOCK,
            "BLOCK_FLOATS": near_floats * BLOCK,
            "BLOCK_INTS": near_ints * BLOCK,
            "NEAR_ALPHA": self.near_alpha,
            "BLOCK_ALPHA": max(1, self.near_alpha) * BLOCK,
        }

    def _state_of(self) -> Any:
        """The kernel ``places -> state``: every field is a view, at a place that is compiled in."""
        parts = []
        for name, f in self.programs[0].layout.fields:
            row, begin = "ints" if f.integer else "floats", self.begin[name]
            near = "near_" if name in self._near_fields else ""
            # the size of the last field may depend on the horizon
            end = begin + self._sizes[name] if near or self._last[f.integer] != name else ""
            parts.append(f"places.{near}{row}[{begin}:{end}]")
        cls = namedtuple("State", self.programs[0].layout.names)  # type: ignore[misc]
        return generate("state_of", "places", f"State({', '.join(parts)})", {"State": cls})


def _everyone(L: int) -> Any:
    """All items as candidates, where none comes or goes: what their slots are need not be read."""
    names = {"Candidates": Candidates, "SLOTS": np.arange(L, dtype=np.uint32), "TOKENS": np.arange(L)}
    return generate("everyone", "room", "Candidates(SLOTS, TOKENS)", names)


def sizes_of(L: int, K: int, churns: bool, users: ClickModel) -> dict[str, int]:
    """Sizes that ``simulate`` and ``unroll`` both know."""
    return {"L": L, "K": K, "LIVE": L if churns else 0, "WORK": max(1, users.room(L, K))}


class GpuWorld:
    """An environment made ready for a GPU, on queries with as many items."""

    def __init__(self, environment: Environment, L: int) -> None:
        self.environment = environment
        self.L = L
        self.row = environment.program.row

    @cached_property
    def bindings(self) -> dict[str, Any]:
        """What the template ``unroll`` calls and knows."""
        environment, query = self.environment, self.environment.names[0]
        base = float64s if environment.given(query).ndim == 1 else float64_rows
        sizes = sizes_of(self.L, environment.k, environment.churns, environment.users())
        return {**environment.program.bindings, "BASE": base, **sizes}
