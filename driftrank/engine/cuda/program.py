"""Policies and environments prepared for a GPU kernel.

The number of positions is compiled in, and the number of items too unless the kernel is for several
(:mod:`~driftrank.engine.cuda.groups`), so that loops can be unrolled. So is every small integer that all policies of
the kernel share and that does not depend on the horizon: string options, flags, numbers of hypotheses. Other parameters
are read from one row per policy, so a whole grid is one launch.
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
from driftrank.engine.alarm_scoring import watch_size
from driftrank.engine.cuda import templates
from driftrank.engine.cuda.views import BASE, NUMBER, float64_rows, float64s
from driftrank.engine.task import MEASURES
from driftrank.engine.templates import advance, among, unchanged
from driftrank.environments.base import Environment
from driftrank.kernels.compile import bind, generate
from driftrank.kernels.layout import parameter_reader
from driftrank.kernels.structures import Candidates
from driftrank.policies.learner.compiled_policy import CompiledPolicy

#: threads of a block
BLOCK = 64
#: bytes per run in the memory that the threads of a block share: little enough for many threads
NEAR = 448
#: integers up to this are compiled in
_SMALL = 64
#: the types of the arguments of simulate and unroll
SIMULATE = (NUMBER,) * 3 + (BASE,) + (NUMBER,) * 6 + (BASE,) * 26
UNROLL = (NUMBER,) * 6 + (BASE,) * 18


class GpuProgram:
    """The policies of one kernel: of one number of items, or of any up to ``capacity``."""

    def __init__(
        self, programs: Sequence[CompiledPolicy], users: ClickModel, churns: bool, capacity: int | None = None
    ) -> None:
        self.programs = list(programs)
        self.users = users
        self.churns = churns
        self.varies = capacity is not None
        self.capacity = programs[0].problem.L if capacity is None else capacity
        self.K = programs[0].problem.K
        self.rows: NDArray[np.float64] = np.array([program.row for program in programs])
        self._place_fields()

    @property
    def field_sizes(self) -> NDArray[np.int64]:
        """The size of every field, a row for each program."""
        sizes = [[math.prod(f.shape(p.problem.L, self.K)) for _, f in p.layout.fields] for p in self.programs]
        return np.array(sizes, np.int64)

    @cached_property
    def _sized(self) -> list[CompiledPolicy]:
        """The programs, and those for the capacity: so that sizes do not depend on which numbers of items there are."""
        if not self.varies:
            return self.programs
        policies = {id(program.policy): program for program in self.programs}.values()
        largest = [CompiledPolicy.of(p.policy, dataclasses.replace(p.problem, L=self.capacity)) for p in policies]
        return self.programs + largest

    def _place_fields(self) -> None:
        """Place small fields first, so that those whose size depends on the horizon come last and move no other."""
        first = self.programs[0]
        sizes = {
            name: max(math.prod(dict(p.layout.fields)[name].shape(p.problem.L, self.K)) for p in self._sized)
            for name in first.layout.names
        }
        self.begin: dict[str, int] = {}
        self.slots = {False: 0, True: 0}
        self.near = {False: 0, True: 0}
        self._near_fields: set[str] = set()
        self._last: dict[bool, str] = {}
        self.near_alpha = self.capacity if 16 * self.capacity <= NEAR else 0
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

    def fresh(self, program: CompiledPolicy, features: NDArray[np.float64] | None) -> tuple[NDArray[Any], NDArray[Any]]:
        """A state before its first step."""
        rows: dict[bool, NDArray[Any]] = {
            False: np.zeros(self.slots[False]),
            True: np.zeros(self.slots[True], np.int32),
        }
        for name, f in program.layout.fields:
            size = math.prod(f.shape(program.problem.L, self.K))
            rows[f.integer][self.begin[name] : self.begin[name] + size] = f.fill
            if name == "features" and features is not None:
                rows[False][self.begin[name] : self.begin[name] + size] = features.ravel()
        return rows[False], rows[True]

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The parameters that are compiled in."""
        policy, problem = self.programs[0].policy, self.programs[0].problem
        twice = 2 * problem.capacity
        longer = policy.parameters(dataclasses.replace(problem, horizon=twice, steps=twice))
        always = ("K",) if self.varies else ("K", "L")
        shared = {}
        for n, (name, value) in enumerate(sorted(policy.parameters(problem).items())):
            small = isinstance(value, (int, np.integer)) and abs(value) <= _SMALL and longer[name] == value
            if name in always or (small and (self.rows[:, n] == value).all()):
                shared[name] = int(value)
        return shared

    @cached_property
    def bindings(self) -> dict[str, Any]:
        """The functions and constants of the template ``simulate``."""
        first, model = self.programs[0], self.users.kernels()
        parameters = dict(sorted(first.policy.parameters(first.problem).items()))
        names = {
            **first.bindings,
            "PARAMETERS": parameter_reader(parameters, self.fixed),
            "CLICK": model.click,
            "VALUE": model.value,
            "RESET": templates.reset,
            "FETCHED": templates.fetched if self.near_alpha else unchanged,
            "AMONG": among if self.churns else generate("among", "everyone, present, length", "everyone", {}),
        }
        near_floats, near_ints = max(1, self.near[False]), max(1, self.near[True])
        return {
            "PARAMETERS": names["PARAMETERS"],
            "STATE": self._state_of(),
            "FIELDS": len(first.layout.fields),
            "ADVANCE": bind(advance, names),
            "EVERYONE": self._everyone(),
            **constants(self.capacity, self.K, self.churns, self.users),
            "MEMO": max(1, self.K * first.policy.memo),
            "SCRATCH": max(1, *(program.scratch for program in self._sized)),
            "PRESENT": self.capacity if self.churns else 1,
            "WATCH": watch_size(self.capacity),
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
        """The kernel ``(places, sizes) -> state``: every field is a view that begins at a place that is compiled in."""
        parts = []
        for n, (name, f) in enumerate(self.programs[0].layout.fields):
            row, begin = "ints" if f.integer else "floats", self.begin[name]
            near = "near_" if name in self._near_fields else ""
            if self.varies:
                end = f"{begin} + sizes[{n}]"
            else:  # the size of the last field may depend on the horizon
                end = f"{begin + self._sizes[name]}" if near or self._last[f.integer] != name else ""
            parts.append(f"places.{near}{row}[{begin}:{end}]")
        cls = namedtuple("State", self.programs[0].layout.names)  # type: ignore[misc]
        return generate("state_of", "places, sizes", f"State({', '.join(parts)})", {"State": cls})

    def _everyone(self) -> Any:
        """The kernel ``(buffer, L) -> candidates`` with all items. The buffer is needed only if items come and go."""
        slots, tokens = np.arange(self.capacity, dtype=np.uint32), np.arange(self.capacity)
        prior = self.programs[0].flat_prior(self.capacity)
        if self.churns:
            return bind(templates.everyone, {"TOKENS": tokens, "PRIOR": prior})
        names = {"Candidates": Candidates, "SLOTS": slots, "TOKENS": tokens, "PRIOR": prior}
        items = f"SLOTS{'[:L]' if self.varies else ''}"
        return generate("everyone", "buffer, L", f"Candidates({items}, TOKENS, PRIOR, 0.0, 0.0)", names)


def constants(capacity: int, K: int, churns: bool, users: ClickModel) -> dict[str, int]:
    """Sizes that are compiled into both ``simulate`` and ``unroll``."""
    return {
        "CAPACITY": capacity,
        "K": K,
        "LIVE": capacity if churns else 0,
        "WORK": max(1, users.work_size(capacity, K)),
    }


class GpuWorld:
    """An environment prepared for a GPU kernel: for queries of one number of items, or of any up to ``L``."""

    def __init__(self, environment: Environment, L: int, varies: bool = False) -> None:
        self.environment = environment
        self.L = L
        self.varies = varies
        self.row = environment.program.row

    @cached_property
    def bindings(self) -> dict[str, Any]:
        """The functions and constants of the template ``unroll``."""
        environment, query = self.environment, self.environment.names[0]
        base = float64s if environment.given(query).ndim == 1 else float64_rows
        length = templates.length_of if self.varies else generate("length_of", "lengths, query", str(self.L), {})
        sizes = constants(self.L, environment.k, environment.churns, environment.users())
        return {**environment.program.bindings, "BASE": base, "LENGTH": length, **sizes}
