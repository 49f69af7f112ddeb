"""Runs that are made once, though a leaderboard shows them twice: one policy with two names, one world in two parts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.simulators import simulator_of
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.simulate import Simulation


@dataclass(frozen=True)
class Copy:
    """A policy of a simulation whose runs are those of another policy, of the same or of an earlier simulation."""

    policy: int
    source: int  #: number of the simulation
    source_policy: int


def copies(simulations: Sequence[Simulation], worlds: Sequence[Hashable]) -> list[list[Copy]]:
    """For every simulation, the policies whose runs need not be made. Simulations with equal ``worlds`` have the same
    users, and as many runs."""
    made: dict[Hashable, tuple[int, int]] = {}
    found: list[list[Copy]] = []
    for n, (simulation, world) in enumerate(zip(simulations, worlds, strict=True)):
        found.append([])
        for policy in range(len(simulation.task.policies)):
            numbers = simulator_of(simulation.task, policy).numbers_key
            source = made.setdefault((world, numbers), (n, policy))
            if source != (n, policy):
                found[-1].append(Copy(policy, *source))
    return found


def to_make(result: Result, theirs: Sequence[Copy]) -> NDArray[np.bool_]:
    """The runs (policy, query, run) of a result that are not copies."""
    mask = np.ones_like(result.finished)
    mask[[copy.policy for copy in theirs]] = False
    return mask


def enter(result: Result, theirs: Sequence[Copy], simulations: Sequence[Simulation]) -> None:
    """Enter the runs of the copies, with the time that they took."""
    for copy in theirs:
        source = simulations[copy.source].result
        result.values[:, copy.policy] = source.values[:, copy.source_policy]
        result.busy[copy.policy] = source.busy[copy.source_policy]
        result.stepped[copy.policy] = source.stepped[copy.source_policy]
