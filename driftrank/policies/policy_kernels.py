"""The kernels of a policy: pure functions over a flat state, compiled by numba.

:class:`KernelSignatures` has the signature and the meaning of every kernel, :class:`PolicyKernels` holds those of one
policy. The arguments are always the same:

* ``p``: the parameters (:meth:`Policy.parameters`), with ``p.L`` items and ``p.K`` positions;
* ``s``: the state, one flat array for every name in :meth:`Policy.fields`;
* ``e``: the :class:`~driftrank.kernels.structures.Event`: step ``e.t`` from 1, time ``e.now``, randomness ``e.key``;
* ``c``: the :class:`~driftrank.kernels.structures.Candidates`: slots ``c.items``, and ``c.token`` by slot;
* ``r``: the :class:`~driftrank.kernels.structures.Ranking`: slots ``r.items``, top first, scores, memo, scratch;
* ``a``: the slot of an item.

A policy may have a *shared model*: a second state ``h``, one for all queries of a ranker, with the fields of
:meth:`Policy.shared_fields`. It gives every candidate a prior (``c.prior``), and learns from the lists of all queries.
The two states never read each other: what they need of each other is in the list's memo. So a query can be replayed
from its own lists, and the shared model from all lists, without the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels import kernel
from driftrank.kernels.observed import observed_prefix
from driftrank.kernels.structures import Candidates, Described, Event, Ranking

#: named tuples that are made for each policy: numbers, and arrays
Parameters: TypeAlias = Any
State: TypeAlias = Any
Shared: TypeAlias = Any


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
    def believe(p: Parameters, s: State, e: Event, c: Candidates, a: int) -> tuple[float, float]:
        """The estimated attraction of an item and the number of observations behind it; NaN if unknown."""

    @staticmethod
    def observed(p: Parameters, e: Event, r: Ranking, clicks: NDArray[np.int8]) -> int:
        """The number of positions, from the top, that the user observed; ``update`` and ``shared_learn`` get it."""

    @staticmethod
    def shared_init(p: Parameters, h: Shared) -> None:
        """Make the first state of the shared model; every field holds its fill value before."""

    @staticmethod
    def shared_prior(p: Parameters, h: Shared, x: Described, out: NDArray[np.float64]) -> tuple[float, float]:
        """Write A and B of the prior Beta(A, B) of every described item to ``out``, without changing the model.

        Returns the probabilities that a user goes on after an item without a click and after a click, 0 if unknown.
        """

    @staticmethod
    def shared_learn(
        p: Parameters, h: Shared, e: Event, r: Ranking, x: Described, clicks: NDArray[np.int8], observed: int
    ) -> None:
        """Learn from the ``clicks`` on a list whose items are described by ``x``, in the order of the list.

        Of ``r`` only the memo may be used, and it is not lost: a list whose memo is lost does not teach the model.
        """


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
    observed: Any
    shared_init: Any
    shared_prior: Any
    shared_learn: Any


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
def believe_nothing(p, s, e, c, a):
    """For a policy that compares or weights items, but estimates nothing."""
    return np.nan, np.nan


@kernel
def observe_by_clicks(p, e, r, clicks):
    """For users who observe every position that the parameter ``feedback`` says."""
    return observed_prefix(clicks, r.items.shape[0], p.feedback)


@kernel
def no_shared_init(p, h):
    """For a policy without a shared model."""


@kernel
def no_shared_prior(p, h, x, out):
    """For a policy without a shared model."""
    return 0.0, 0.0


@kernel
def no_shared_learn(p, h, e, r, x, clicks, observed):
    """For a policy without a shared model."""
