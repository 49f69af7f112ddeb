"""A policy made ready to run on a problem: its numbers, the layout of its state, its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.tuples import Layout, parameter_reader, parameter_row, state_unpacker
from driftrank.policies.base import Kernels, Policy, Problem


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
        }
        return cls(policy, problem, parameter_row(parameters), layout, policy.scratch(parameters), kernels, bindings)
