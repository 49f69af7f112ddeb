"""CascadeSWUCB: forget by a sliding window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.tuples import Field, field, integers
from driftrank.policies.base import IndexPolicy, Problem
from driftrank.policies.cascade_ducb import UNSEEN
from driftrank.theory import recommended_window
from driftrank.validation import check_integer, check_number


class CascadeSWUCB(IndexPolicy):
    r"""Sliding-window UCB for the cascade model (Li and de Rijke, 2019, section 3.2).

    Only the last :math:`\tau` steps count. With :math:`N_t(a)` and :math:`X_t(a)` the observations and clicks of item
    a in them, the index is

    .. math:: U_t(a) = \frac{X_t(a)}{N_t(a)} + \sqrt{\frac{\epsilon \ln(t \wedge \tau)}{N_t(a)}} \quad\text{(eqs. 5, 6)}

    Parameters
    ----------
    window
        :math:`\tau` in steps; ``"auto"``: :math:`\lceil 2\sqrt{n \ln(n)/\Upsilon_n} \rceil` where the horizon n is
        known, else ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step,
        and at least ``max(2, L)``.
    epsilon
        Width of the confidence interval; the paper's experiments use 0.5, its theorems ask for more than 0.5.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``; the paper's experiments assume 1.
    unseen
        ``"inf"``: items not in the window come first; ``"paper"``: the paper's rule x/0 := 1, which makes their index
        2.
    first_horizon, restart
        Of the doubling trick: the horizon assumed at first, and whether the past is wiped at every doubling.

    Notes
    -----
    Guarantee: Theorem 2, :math:`R(n) = O(\sqrt{n \Upsilon_n \ln n})` for known n and :math:`\Upsilon_n`,
    :math:`\epsilon > 1/2` (``driftrank.theory``); it holds for this implementation with ``unseen="paper"`` and a fixed
    window. Observed items count, not displayed ones: the paper's pseudo-code counts :math:`a \in R_s`, its text and
    its update loop count what was observed.

    State: 4 L + 3 floats and :math:`\tau` K + 2 integers. A step costs O(L), whatever the window.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSWUCB(window=2).start(items=["a", "b", "c"], k=2, seed=1)
    >>> for clicked in ("b", None, None):
    ...     learner.update(["b", "c"], clicked)
    >>> round(learner.scores()["b"], 3)  # the click has left the window
    0.416
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    choices = {**IndexPolicy.choices, "unseen": UNSEEN}

    window: int | str = "auto"
    epsilon: float = 0.5
    n_breakpoints: int = 1
    unseen: str = "inf"
    first_horizon: int = 1
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window not in ("auto", "doubling"):
            check_integer('window ("auto", "doubling" or steps)', self.window, 1)
        check_number("epsilon", self.epsilon, 0, open_low=True)
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("first_horizon", self.first_horizon, 1)

    def parameters(self, problem: Problem) -> dict[str, float]:
        doubling = self.window == "doubling" or (self.window == "auto" and problem.horizon is None)
        smallest = max(2, problem.L)  # room for one look at every item
        if doubling:
            reach = max(self.first_horizon, problem.room)
            window = smallest
            room = max(smallest, math.ceil(recommended_window(reach, self.n_breakpoints)))
        else:
            window = room = (
                self.window
                if isinstance(self.window, int)
                else max(2, math.ceil(recommended_window(problem.horizon or 1, self.n_breakpoints)))
            )
        room = min(room, problem.room)  # a window longer than the run never fills
        return super().parameters(problem) | {
            "window": window,
            "room": max(room, 1),
            "smallest": smallest,
            "doubling": int(doubling),
            "unseen_index": math.inf if self.unseen == "inf" else 2.0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field("L"),
            "X": field("L"),
            "mean": field("L"),
            "radius": field("L"),
            "assumed": field(1),
            "window": field(1),
            "level": field(1),  # sqrt(epsilon ln(t ^ tau)) of the coming step
            "next": integers(1),  # where the coming step goes in the ring
            "held": integers(1),  # how many steps the ring holds
            "ring": integers(p["room"], "K", fill=-1),  # 2 * item + clicked, or -1
        }

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        held, room = int(old["held"][0]), old["ring"].shape[0]
        order = (int(old["next"][0]) - held + np.arange(held)) % room  # oldest first
        new["ring"][:] = -1
        new["ring"][:held, : old["ring"].shape[1]] = old["ring"][order]
        new["next"][0] = held % new["ring"].shape[0]

    @staticmethod
    @kernel
    def init(p, s, e, c):
        s.window[0] = p.window
        if p.doubling:
            s.assumed[0] = p.first_horizon
            s.window[0] = _window_of(p, s)
        s.level[0] = _level_of(p, s, 1.0)
        for a in range(s.mean.shape[0]):
            s.mean[a] = p.unseen_index

    @staticmethod
    @kernel
    def level(p, s, e):
        return s.level[0]

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return s.mean[a] + q * s.radius[a]

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        full = s.held[0] >= s.window[0] or s.held[0] >= p.room
        oldest = 0
        if full:  # the oldest step leaves
            oldest = s.next[0] - s.held[0]
            if oldest < 0:
                oldest += p.room
            oldest *= p.K
            for i in range(oldest, oldest + p.K):
                code = s.ring[i]
                if code < 0:
                    break
                s.N[code >> 1] -= 1.0
                s.X[code >> 1] -= code & 1
            s.held[0] -= 1
        for i in range(observed):
            s.N[r.items[i]] += 1.0
            s.X[r.items[i]] += clicks[i]
        if full:
            for i in range(oldest, oldest + p.K):
                code = s.ring[i]
                if code < 0:
                    break
                if not _among(r, observed, code >> 1):  # else it is refreshed below
                    _refresh(p, s, code >> 1)
        begin = s.next[0] * p.K
        for i in range(observed):
            a = r.items[i]
            s.ring[begin + i] = 2 * a + clicks[i]
            _refresh(p, s, a)
        if observed < p.K:
            s.ring[begin + observed] = -1  # nothing after this is read
        s.held[0] += 1
        s.next[0] += 1
        if s.next[0] == p.room:
            s.next[0] = 0
        doubled = p.doubling and e.t + 1 >= 2.0 * s.assumed[0]
        if doubled:
            s.assumed[0] *= 2.0
            s.window[0] = _window_of(p, s)
            if p.restart:
                s.held[0] = 0
                for a in range(s.N.shape[0]):
                    s.N[a] = 0.0
                    s.X[a] = 0.0
                    _refresh(p, s, a)
        if doubled or e.t < s.window[0]:
            s.level[0] = _level_of(p, s, e.t + 1.0)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        for begin in range(0, s.ring.shape[0], p.K):
            kept = begin
            for i in range(begin, begin + p.K):
                code = s.ring[i]
                if code < 0:
                    break
                if code >> 1 != a:
                    s.ring[kept] = code
                    kept += 1
            if kept < begin + p.K:
                s.ring[kept] = -1
        s.N[a] = 0.0
        s.X[a] = 0.0
        _refresh(p, s, a)


@kernel
def _window_of(p, s):
    """The window of the doubling trick at the assumed horizon."""
    n = s.assumed[0]
    return max(np.ceil(2.0 * np.sqrt(n * log(n) / p.n_breakpoints)), np.float64(p.smallest))


@kernel
def _level_of(p, s, t):
    return np.sqrt(p.epsilon * log(min(t, s.window[0])))


@kernel
def _among(r, observed, a):
    """Whether item ``a`` is among the first ``observed`` of the list."""
    for i in range(observed):
        if r.items[i] == a:
            return True
    return False


@kernel
def _refresh(p, s, a):
    if s.N[a] > 0.0:
        per_one = 1.0 / s.N[a]
        s.mean[a] = s.X[a] * per_one
        s.radius[a] = np.sqrt(per_one)
    else:
        s.mean[a] = p.unseen_index
        s.radius[a] = 0.0
