"""A policy compiled for a problem: its parameters, the layout of its state, its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import check_kernels, specialise
from driftrank.kernels.layout import Layout, parameter_reader, parameter_row, state_unpacker
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.policy_kernels import PolicyKernels, believe_nothing

#: a state of at most this many numbers is made once and then copied, and so is the way to move it
_SMALL = 10_000


@dataclass(frozen=True)
class CompiledPolicy:
    """Everything that a learner or a simulation needs to run a policy."""

    policy: Policy
    problem: RankingProblem
    parameters: Mapping[str, float]
    row: NDArray[np.float64]  #: the same as numbers in order
    layout: Layout
    shared_layout: Layout  #: of the shared model; without fields if there is none
    scratch: int  #: the size of a list's scratch buffer
    kernels: PolicyKernels
    bindings: dict[str, Any]  #: the values of the names in capitals in templates
    compiled: dict[str, Any] = field(default_factory=dict)  #: templates, compiled when first needed
    _scratches: dict[int, int] = field(default_factory=dict)  #: by number of slots beyond the state's
    #: the places of a state's numbers in the layouts of larger problems
    _moves: dict[RankingProblem, tuple[NDArray[np.intp], NDArray[np.intp]]] = field(default_factory=dict)

    @classmethod
    def of(cls, policy: Policy, problem: RankingProblem) -> CompiledPolicy:
        parameters = dict(sorted(policy.parameters(problem).items()))  # "auto" or a number: the same kernel
        layout = Layout.of(policy.fields(parameters), problem.L, problem.K)
        shared = Layout.of(policy.shared_fields(parameters), problem.L, problem.K)
        kernels = policy.kernels()
        check_kernels(policy, kernels._asdict())
        bindings = {
            "PARAMETERS": parameter_reader(parameters),
            "STATE": _unpacker(layout),
            "SHARED": _unpacker(shared),
            "RESTARTS": policy.restarts,
            **{name.upper(): function for name, function in kernels._asdict().items()},
        }
        row, scratch = parameter_row(parameters), policy.scratch(parameters)
        return cls(policy, problem, parameters, row, layout, shared, scratch, kernels, bindings)

    @classmethod
    def cached(cls, policy: Policy, problem: RankingProblem) -> CompiledPolicy:
        """One object for equal arguments: a service starts thousands of learners of a few kinds."""
        try:
            return _cached(policy, problem)
        except TypeError:  # a parameter that cannot be hashed
            return cls.of(policy, problem)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the description: compiled code stays in its process."""
        return _unpickled, (self.policy, self.problem, self.policy.version)

    @cached_property
    def estimates(self) -> bool:
        """True if the policy estimates attractions."""
        return self.kernels.believe is not believe_nothing

    @cached_property
    def shares(self) -> bool:
        """True if the policy has a shared model."""
        return bool(self.shared_layout.fields)

    def flat_prior(self, slots: int) -> NDArray[np.float64]:
        """The prior of items about which nothing is known, Beta(1/2, 1/2); empty if the policy has no shared model."""
        return np.full(2 * slots if self.shares else 0, 0.5)

    def scratch_for(self, slots: int) -> int:
        """The size of a list's scratch buffer if there are candidates without a state, in slots beyond its own."""
        if slots == self.problem.L:
            return self.scratch
        size = self._scratches.get(slots)
        if size is None:
            size = self._scratches[slots] = self.policy.scratch({**self.parameters, "L": slots})
        return size

    def step(self, template: Any) -> Any:
        """The template compiled for this policy."""
        compiled = self.compiled.get(template.__name__)
        if compiled is None:
            compiled = self.compiled[template.__name__] = _specialised(template, tuple(self.bindings.items()))
        return compiled

    def empty(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """A state with every field at its fill value."""
        if sum(self.layout.sizes) > _SMALL:
            return self.layout.empty()
        floats, ints = self._empty
        return floats.copy(), ints.copy()

    def moved(
        self, floats: NDArray[np.float64], ints: NDArray[np.int32], new: CompiledPolicy
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """A state in the layout of a larger problem."""
        places = self._moves.get(new.problem)
        if places is None:
            if new.layout == self.layout:
                return floats, ints
            places = self.layout.places_in(new.layout)
            if sum(self.layout.sizes) <= _SMALL:
                self._moves[new.problem] = places
        larger = new.empty()
        larger[0][places[0]], larger[1][places[1]] = floats, ints
        if type(self.policy).moved is not Policy.moved:
            self.policy.moved(self.layout.views(floats, ints), new.layout.views(*larger))
        return larger

    @cached_property
    def _empty(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        return self.layout.empty()

    @cached_property
    def unknown(self) -> NDArray[np.float64]:
        """The flat prior of all slots."""
        return self.flat_prior(self.problem.L)

    @cached_property
    def everyone(self) -> NDArray[np.uint32]:
        """All slots."""
        return np.arange(self.problem.L, dtype=np.uint32)


def _unpacker(layout: Layout) -> Any:
    return state_unpacker(layout.names, tuple(f.integer for _, f in layout.fields))


@lru_cache(maxsize=256)
def _cached(policy: Policy, problem: RankingProblem) -> CompiledPolicy:
    return CompiledPolicy.of(policy, problem)


def _unpickled(policy: Policy, problem: RankingProblem, version: int) -> CompiledPolicy:
    """The policy of a pickled state, if it still has the version that the state was pickled with."""
    policy.check_version(version)
    return CompiledPolicy.cached(policy, problem)


@cache
def _specialised(template: Any, bindings: tuple[tuple[str, Any], ...]) -> Any:
    """The template compiled for a policy, once for all problems."""
    return specialise(template, dict(bindings))
