"""Group units by the kernel that runs them.

A kernel for one number of items is the fastest, and the usual case: all queries have the same number of items, or a few
different ones. A kernel takes seconds to compile, though. So if more than :data:`FEW` numbers of items lie between one
power of two and the next, one kernel runs all of them: memory is laid out for the larger power, the *capacity*, and the
number of items is read at run time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from driftrank.clickmodels import ClickModel
from driftrank.engine.task import Task, Unit
from driftrank.policies.learner.compiled_policy import CompiledPolicy

#: numbers of items between two powers of two that have a kernel each
FEW = 4


class Group:
    """Units of one kernel. ``capacity`` is None if all have the same number of items."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.policies: list[int] = []
        self.programs: list[CompiledPolicy] = []  #: one for each policy and problem
        self.queries: list[str] = []  #: one for each problem
        self.units: list[Unit] = []
        self._setting: dict[tuple[int, str], int] = {}
        self._place: dict[int, int] = {}

    def add(self, unit: Unit, program: CompiledPolicy) -> None:
        self.units.append(unit)
        if unit.policy not in self.policies:
            self.policies.append(unit.policy)
        if id(program) not in self._place:
            self._place[id(program)] = len(self.programs)
            self.programs.append(program)
            if not any(program.problem == other.problem for other in self.programs[:-1]):
                self.queries.append(unit.query)
        self._setting[unit.policy, unit.query] = self._place[id(program)]

    def settings(self, units: Iterable[Unit]) -> list[int]:
        """The place in ``programs`` of every unit's program."""
        return [self._setting[unit.policy, unit.query] for unit in units]


def grouped(task: Task, units: Iterable[Unit]) -> list[Group]:
    """The groups of units, in the order of their first units."""
    units = list(units)
    known: dict[object, CompiledPolicy] = {}
    programs, families = [], []
    sizes: dict[object, set[int]] = {}
    for unit in units:
        policy = task.policies[unit.policy]
        problem = task.problem(unit.query, policy)
        if (unit.policy, problem) not in known:
            known[unit.policy, problem] = CompiledPolicy.of(policy, problem)
        program = known[unit.policy, problem]
        family = (_family(program, task.environment.users(unit.query)), capacity_for(problem.L))
        sizes.setdefault(family, set()).add(problem.L)
        programs.append(program)
        families.append(family)
    groups: dict[object, Group] = {}
    for unit, program, family in zip(units, programs, families, strict=True):
        varies = len(sizes[family]) > FEW
        key = family if varies else (family, program.problem.L)
        groups.setdefault(key, Group(family[1] if varies else None)).add(unit, program)
    return list(groups.values())


def capacity_for(L: int) -> int:
    """The smallest power of two that is at least L."""
    return 1 << (L - 1).bit_length()


def _family(program: CompiledPolicy, users: ClickModel) -> tuple[Any, ...]:
    """Everything but the number of items that programs of one kernel have in common."""
    kernels = (*program.kernels, *users.kernels())
    fields = tuple((name, f.integer) for name, f in program.layout.fields)
    return (*map(id, kernels), program.problem.K, program.bindings["PARAMETERS"], fields,
            program.policy.memo, program.policy.restarts)  # fmt: skip
