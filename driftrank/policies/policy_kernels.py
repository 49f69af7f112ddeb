"""The kernels of a policy: pure functions over a flat state, compiled by numba.

:class:`KernelSignatures` has the signature and the meaning of every kernel, :class:`PolicyKernels` holds those of one
policy. The arguments are always the same:

* ``p``: the parameters (:meth:`Policy.parameters`), with ``p.L`` items and ``p.K`` positions;
* ``s``: the state, one flat array for every name in :meth:`Policy.fields`;
* ``e``: the :class:`~driftrank.kernels.structures.Event`: step ``e.t`` from 1, time ``e.now``, randomness ``e.key``;
* ``c``: the :class:`~driftrank.kernels.structures.Candidates`: slots ``c.items``, and ``c.token`` by slot;
* ``r``: the :class:`~driftrank.kernels.structures.Ranking`: slots ``r.items``, top first, scores, memo, scratch;
* ``a``: the slot of an item.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels import kernel
from driftrank.kernels.structures import Candidates, Event, Ranking

#: named tuples that are made for each policy: numbers, and arrays
Parameters: TypeAlias = Any
State: TypeAlias = Any


class KernelSignatures(Protocol):
    """The kernels that a policy has, as static methods of its class or assembled by :meth:`Policy.kernels`."""

    @staticmethod
    def init(p: Parameters, s: State, e: Event, c: Candidates) -> None:
        """Make the first state; every field holds its fill value before."""

    @staticmethod
    def rank(p: Parameters, s: State, e: Event, c: Candidates, r: Ranking) -> None:
        """Fill the list ``r`` with distinct candidates, without changing the state.

        On entry ``r.items`` holds some list of candidates, which may speed up the search but not influence the result.
        """

    @staticmethod
    def update(p: Parameters, s: State, e: Event, r: Ranking, clicks: NDArray[np.int8], observed: int) -> None:
        """Learn from the ``clicks`` on a list, 0 or 1 by position; the user observed the first ``observed`` positions.

        ``r.memo`` is what ``rank`` wrote there, or -1 throughout if that is lost.
        """

    @staticmethod
    def scores(p: Parameters, s: State, e: Event, c: Candidates, out: NDArray[np.float64]) -> None:
        """Write the worth of every candidate to ``out``, in the order of ``c.items``."""

    @staticmethod
    def forget(p: Parameters, s: State, e: Event, a: int) -> None:
        """Clear slot ``a``, which now holds an item that was never seen."""

    @staticmethod
    def reveal(
        p: Parameters,
        s: State,
        e: Event,
        c: Candidates,
        alpha: NDArray[np.float64],
        best: NDArray[np.int32],
        fixed: NDArray[np.int32],
    ) -> None:
        """Take over the truth at a breakpoint; for oracles only.

        ``alpha`` is the attraction by slot, ``best`` the best list now, ``fixed`` the best list that never changes.
        """

    @staticmethod
    def alarmed(p: Parameters, s: State) -> int:
        """The number of changes detected so far."""

    @staticmethod
    def alarm(p: Parameters, s: State, n: int) -> tuple[int, int]:
        """The slot of alarm ``n`` (from 0; -1: no particular one), and 1 if all items were reset, else 0."""

    @staticmethod
    def features_changed(p: Parameters, s: State, e: Event, slots: NDArray[np.uint32]) -> None:
        """Take over new features of the items in ``slots``; for contextual policies only."""

    @staticmethod
    def believe(p: Parameters, s: State, e: Event, a: int) -> tuple[float, float]:
        """The estimated attraction of an item and the number of observations behind it; NaN if unknown."""


class PolicyKernels(NamedTuple):
    """The kernels of one policy, as :class:`KernelSignatures` describes them; None for one that is missing."""

    init: Any
    rank: Any
    update: Any
    scores: Any
    forget: Any
    reveal: Any
    alarmed: Any
    alarm: Any
    features_changed: Any
    believe: Any


@kernel
def no_init(p, s, e, c):
    """For a state whose fill values are its first values."""


@kernel
def no_reveal(p, s, e, c, alpha, best, fixed):
    """For a policy that is not an oracle."""


@kernel
def never_alarmed(p, s):
    """For a policy that does not detect changes."""
    return 0


@kernel
def no_alarm(p, s, n):
    """For a policy that does not detect changes."""
    return -1, 0


@kernel
def no_features(p, s, e, slots):
    """For a policy that does not use features."""


@kernel
def believe_nothing(p, s, e, a):
    """For a policy that compares or weights items, but estimates nothing."""
    return np.nan, np.nan
