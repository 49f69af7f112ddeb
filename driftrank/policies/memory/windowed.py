"""Forget by a sliding window: the counts of windowed policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field, integers
from driftrank.policies.base import RankingProblem
from driftrank.policies.memory.counts import PER_ITEM, CountingPolicy
from driftrank.policies.parameters import UNITS, is_duration, seconds
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.validation import check_integer

#: marks an entry of the ring without an observation, or whose item was removed
_END = -1


@kernel
def window_of_the_paper(p, n):
    """tau = 2 sqrt(n ln(n) / Upsilon_n) (section 4.1)."""
    return 2.0 * np.sqrt(n * log(n) / p.n_breakpoints)


@kernel
def _no_level(p, steps):
    return 0.0


class Windowed(CountingPolicy):
    r"""Policies whose index uses the observations N and clicks X of the last steps.

    A subclass writes ``index`` on top of the fields ``N`` and ``X``, and further kernels if it needs them:

    * ``refresh(p, s, a)``: the counts of item ``a`` have changed; update what the index needs of them;
    * ``level_of(p, steps)``: the level for a number of steps in the window, the coming one included; computed only
      when that number changes;
    * ``window_for(p, n)``: the window for a horizon n, which is rounded up.

    ``counts`` selects counts per item, or per item and position.
    """

    abstract: ClassVar[bool] = True
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt", "drift")

    #: tau, in steps or as a duration, or the rule for it
    window: int | str = "auto"
    #: the most steps kept in a window that is given as a duration
    capacity: int = 100_000
    n_breakpoints: int = 1
    first_horizon: int = 1
    restart: bool = False

    level_of: ClassVar[Any] = staticmethod(_no_level)
    window_for: ClassVar[Any] = staticmethod(window_of_the_paper)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f'window ("auto", "doubling", steps, or a duration with a unit of {", ".join(UNITS)})'
        if is_duration(self.window):
            seconds("window", self.window)
        elif self.window not in ("auto", "doubling"):
            check_integer(name, self.window, 1)
        check_integer("capacity", self.capacity, 1)
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("first_horizon", self.first_horizon, 1)

    def numbers(self, problem: RankingProblem) -> dict[str, float]:
        """The parameters that ``window_for`` uses."""
        return super().parameters(problem)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        numbers = self.numbers(problem)
        timed = is_duration(self.window)
        doubling = self.window == "doubling" or (self.window == "auto" and problem.horizon is None)
        smallest = max(2, problem.L)  # enough to observe every item once

        def window_for(n: int) -> int:
            return math.ceil(float(pure(self.window_for)(SimpleNamespace(**numbers), float(n))))

        if timed:
            window = size = self.capacity
        elif isinstance(self.window, int):
            window = size = self.window
        elif doubling:
            window = smallest
            size = max(smallest, window_for(max(self.first_horizon, problem.capacity)))
        else:
            window = size = max(2, window_for(problem.horizon or 1))
        return numbers | {
            "window": window,
            "ring_size": min(size, problem.capacity),  # a window longer than the run never fills
            "smallest": smallest,
            "doubling": int(doubling),
            "timed": int(timed),
            "span": seconds("window", self.window) if timed else 0.0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            **super().fields(p),
            "assumed": field(1),
            "window": field(1),
            "level": field(1),  # of the coming step
            **ring_fields(p),
        }

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        move_ring(old, new)

    def kernels(self) -> PolicyKernels:
        own, counts = super().kernels(), self.counts
        update = _update_by(self.refresh, self.level_of, self.window_for, counts.add, counts.clear)
        return own._replace(
            init=own.init or _init_by(self.refresh, self.level_of, self.window_for),
            update=own.update or update,
            forget=own.forget or forget_by(self.refresh, counts.clear),
        )

    @staticmethod
    @kernel
    def level(p, s, e):
        return s.level[0]


def ring_fields(p: Mapping[str, Any]) -> dict[str, Field]:
    """The steps in the window: ring_size K + 2 integers, and ring_size floats if the window is a duration."""
    return {
        "next": integers(1),  # the place of the coming step in the ring
        "held": integers(1),  # the number of steps in the ring
        "ring": integers(p["ring_size"], "K", fill=_END),  # 2 * item + clicked, by position
        "time": field(p["ring_size"] if p["timed"] else 0),
    }


def move_ring(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Copy the steps of a ring, oldest first, into a larger one."""
    held = int(old["held"][0])
    order = (int(old["next"][0]) - held + np.arange(held)) % old["ring"].shape[0]
    new["ring"][:] = _END
    new["ring"][:held, : old["ring"].shape[1]] = old["ring"][order]
    if len(old["time"]):
        new["time"][:held] = old["time"][order]
    new["next"][0] = held % new["ring"].shape[0]


@kernel
def _oldest(p, s):
    """The place of the oldest step in the ring."""
    n = s.next[0] - s.held[0]
    return n + p.ring_size if n < 0 else n


@kernel
def _among(r, observed, a):
    """True if item ``a`` is among the first ``observed`` of the list."""
    found = False
    for i in range(r.items.shape[0]):
        found |= i < observed and r.items[i] == a
    return found


@cache
def push_by(refresh: Any, add: Any = PER_ITEM.add) -> Any:
    """The kernel that removes the oldest step of a full window, and adds the step of an event."""

    @kernel
    def subtract(p, s, begin, r, observed):
        """Subtract the observations of the step at ``begin`` from the counts.

        Items among the first ``observed`` of the list are refreshed later, when they are counted again.
        """
        for i in range(p.K):
            code = np.int64(s.ring[begin + i])
            if code >= 0:
                add(p, s, code >> 1, i, code & 1, -1.0)
                if not _among(r, observed, code >> 1):
                    refresh(p, s, code >> 1)

    @kernel
    def expire(p, s, now, r):
        """Remove the steps that are too old."""
        while s.held[0] > 0:
            n = _oldest(p, s)
            if now - s.time[n] < p.span:
                break
            subtract(p, s, n * p.K, r, 0)
            s.held[0] -= 1

    @kernel
    def push(p, s, e, r, clicks, observed):
        if p.timed:
            now = e.now
            if s.held[0] > 0:  # late feedback counts at the latest time seen
                now = max(now, s.time[(s.next[0] if s.next[0] > 0 else p.ring_size) - 1])
            expire(p, s, now, r)
            s.time[s.next[0]] = now
        if s.held[0] >= s.window[0] or s.held[0] >= p.ring_size:  # remove the oldest step
            subtract(p, s, _oldest(p, s) * p.K, r, observed)
            s.held[0] -= 1
        begin = s.next[0] * p.K
        for i in range(p.K):
            code = np.int64(_END)
            if i < observed:
                a = np.int64(r.items[i])
                add(p, s, a, i, clicks[i], 1.0)
                refresh(p, s, a)
                code = 2 * a + clicks[i]
            s.ring[begin + i] = code
        s.held[0] += 1
        s.next[0] += 1
        if s.next[0] == p.ring_size:
            s.next[0] = 0

    return push


@cache
def wipe_by(refresh: Any, clear: Any = PER_ITEM.clear) -> Any:
    """The kernel that empties the window."""

    @kernel
    def wipe(p, s):
        s.held[0] = 0
        for a in range(p.L):
            clear(p, s, a)
            refresh(p, s, a)

    return wipe


@cache
def forget_by(refresh: Any, clear: Any = PER_ITEM.clear) -> Any:
    """The kernel ``forget`` that removes an item from the window."""

    @kernel
    def forget(p, s, e, a):
        for i in range(s.ring.shape[0]):
            if s.ring[i] >= 0 and s.ring[i] >> 1 == a:
                s.ring[i] = _END
        clear(p, s, a)
        refresh(p, s, a)

    return forget


@cache
def _init_by(refresh: Any, level_of: Any, window_for: Any) -> Any:
    @kernel
    def init(p, s, e, c):
        s.window[0] = p.window
        if p.doubling:
            s.assumed[0] = p.first_horizon
            s.window[0] = max(np.ceil(window_for(p, s.assumed[0])), np.float64(p.smallest))
        s.level[0] = level_of(p, 1.0)
        for a in range(p.L):
            refresh(p, s, a)

    return init


@cache
def _update_by(refresh: Any, level_of: Any, window_for: Any, add: Any, clear: Any) -> Any:
    push, wipe = push_by(refresh, add), wipe_by(refresh, clear)

    @kernel
    def update(p, s, e, r, clicks, observed):
        push(p, s, e, r, clicks, observed)
        doubled = p.doubling and e.t + 1 >= 2.0 * s.assumed[0]
        if doubled:
            s.assumed[0] *= 2.0
            s.window[0] = max(np.ceil(window_for(p, s.assumed[0])), np.float64(p.smallest))
            if p.restart:
                wipe(p, s)
        if p.timed:
            s.level[0] = level_of(p, s.held[0] + 1.0)
        elif doubled or e.t < s.window[0]:
            s.level[0] = level_of(p, min(e.t + 1.0, s.window[0]))

    return update
