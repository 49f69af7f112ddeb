"""A policy made ready to run on a problem: its numbers, the layout of its state, its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import specialise
from driftrank.kernels.tuples import Layout, parameter_reader, parameter_row, state_unpacker
from driftrank.policies.base import Kernels, Policy, Problem
from driftrank.policies.beliefs import believe_nothing, believer

#: a state of up to so many numbers is made once, and then copied
_SMALL = 10_000


@dataclass(frozen=True)
class Program:
    """Everything that a learner or a simulation needs to run a policy."""

    policy: Policy
    problem: Problem
    row: NDArray[np.float64]  #: parameters
    layout: Layout
    scratch: int  #: numbers at the end of a list's memo that are not kept
    kernels: Kernels
    bindings: dict[str, Any]  #: what the templates call
    compiled: dict[str, Any] = field(default_factory=dict)  #: templates, once they were needed

    @classmethod
    def of(cls, policy: Policy, problem: Problem) -> Program:
        parameters = dict(sorted(policy.parameters(problem).items()))  # "auto" or a number: the same kernel
        layout = Layout.of(policy.fields(parameters), problem.L, problem.K)
        kernels = policy.kernels()
        bindings = {
            "PARAMETERS": parameter_reader(parameters),
            "STATE": state_unpacker(layout.names, tuple(f.integer for _, f in layout.fields)),
            "RESTARTS": policy.restarts,
            **{name.upper(): function for name, function in kernels._asdict().items()},
            "BELIEVE": believer(kernels.believe, layout),
        }
        return cls(policy, problem, parameter_row(parameters), layout, policy.scratch(parameters), kernels, bindings)

    @classmethod
    def shared(cls, policy: Policy, problem: Problem) -> Program:
        """The same for all who ask for the same: a service starts thousands of learners of a few kinds."""
        try:
            return _shared(policy, problem)
        except TypeError:  # a parameter that cannot be hashed
            return cls.of(policy, problem)

    @cached_property
    def estimates(self) -> bool:
        """Whether the policy estimates attractions."""
        return self.bindings["BELIEVE"] is not believe_nothing

    def step(self, template: Any) -> Any:
        """A template, compiled for this policy."""
        made = self.compiled.get(template.__name__)
        if made is None:
            made = self.compiled[template.__name__] = _specialised(template, tuple(self.bindings.items()))
        return made

    def empty(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """A state with every field at its fill value."""
        if sum(self.layout.sizes) > _SMALL:
            return self.layout.empty()
        floats, ints = self._empty
        return floats.copy(), ints.copy()

    @cached_property
    def _empty(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        return self.layout.empty()

    @cached_property
    def everyone(self) -> NDArray[np.uint32]:
        """All slots."""
        return np.arange(self.problem.L, dtype=np.uint32)


@lru_cache(maxsize=256)
def _shared(policy: Policy, problem: Problem) -> Program:
    return Program.of(policy, problem)


@cache
def _specialised(template: Any, bindings: tuple[tuple[str, Any], ...]) -> Any:
    """A step compiled for a policy, once for all problems."""
    return specialise(template, dict(bindings))
