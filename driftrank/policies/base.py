"""What a policy is: a frozen description, and a handful of pure functions over a flat state.

A policy is a class with its parameters as fields and its kernels as static methods, all in one file::

    class Greedy(IndexPolicy):
        def fields(self, p): return {"N": field("L"), "X": field("L")}

        @staticmethod
        @kernel
        def index(p, s, e, c, a, q): return (s.X[a] + 1) / (s.N[a] + 2)

        @staticmethod
        @kernel
        def update(p, s, e, r, clicks, observed): ...

The arguments of kernels are always the same: ``p`` the parameters, ``s`` the state, ``e`` the event (step ``e.t``, time
``e.now``, randomness ``e.key``), ``c`` the candidates, ``r`` the list, ``a`` an item's slot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

from driftrank.kernels import kernel, pure
from driftrank.kernels.feedback import FEEDBACK
from driftrank.kernels.top import ORDER, TIES, arrange, insert, lot, offer
from driftrank.kernels.tuples import Field
from driftrank.policies.alarms import never_alarmed, no_alarm
from driftrank.policies.beliefs import believe_nothing
from driftrank.validation import check_choice, check_integer


@dataclass(frozen=True)
class Problem:
    """What a policy may be told before it starts."""

    L: int  #: items
    K: int  #: positions
    horizon: int | None = None  #: steps the policy may plan for; None where nobody knows
    steps: int | None = None  #: steps the state must have room for; it can grow later where this is None
    features: int = 0  #: numbers that describe an item; 0 where the policy does not look at them

    def __post_init__(self) -> None:
        check_integer("L", self.L, 1)
        if not (isinstance(self.K, int) and 1 <= self.K <= self.L):
            raise ValueError(f"k={self.K!r}: must be an integer from 1 to the number of items, {self.L}")
        if self.horizon is not None:
            check_integer("horizon", self.horizon, 1)

    @property
    def room(self) -> int:
        """For how many steps the state must have room, now."""
        return self.steps or 1024


@kernel
def _looks_anew(p, s, e, slots):
    pass


class Kernels(NamedTuple):
    """The compiled functions of a policy."""

    init: Any  #: (p, s, e, c): first state; every field is at its fill value before
    #: (p, s, e, c, r): fill the list; must not change the state. On entry ``r.items`` holds some list of candidates,
    #: which may speed up the search for the new one but must not have a say in it.
    rank: Any
    update: Any  #: (p, s, e, r, clicks, observed): learn; the first ``observed`` positions were looked at
    scores: Any  #: (p, s, e, c, out): what every candidate is worth
    forget: Any  #: (p, s, e, a): slot ``a`` now holds an item that was never seen
    #: (p, s, e, c, alpha, best, fixed): the truth, the best list and the best list that never changes, at every
    #: breakpoint; oracles only
    told: Any
    alarmed: Any  #: (p, s): how many changes it has found
    alarm: Any  #: (p, s, n): the slot of alarm n, and whether everything was started anew
    #: (p, s, e, slots): the features of the items in these slots are others now; contextual policies only
    described: Any = _looks_anew
    #: (p, s, e, a): the attraction of an item as estimated, and how many observations that rests on; NaN where unknown
    believe: Any = believe_nothing


@kernel
def _nothing(p, s, e, c):
    pass


_nothing.py_func.made = True  # a skeleton may provide another


@kernel
def _not_told(p, s, e, c, alpha, best, fixed):
    pass


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Policy:
    """A ranking policy: its parameters. ``start`` makes a learner of it, ``driftrank.simulate`` runs it.

    Subclasses become frozen dataclasses by themselves.
    """

    #: whether this class, not its subclasses, is a skeleton and no policy itself; such a class says so in its own body
    abstract: ClassVar[bool] = True
    #: bump when the meaning of a saved state changes
    version: ClassVar[int] = 1
    #: kinds of environment in which it promises to beat random lists
    claims: ClassVar[tuple[str, ...]] = ("stationary",)
    #: parameters that are one of a few words; kernels see the word's place in the list
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"ties": TIES, "feedback": FEEDBACK, "order": ORDER}
    #: the click model of the users that it is made for
    click_model: ClassVar[str] = "CM"
    #: numbers per position that ``rank`` hands to ``update``
    memo: ClassVar[int] = 0
    #: whether the first of these numbers is a propensity: the exact probability of the shown item given those above
    propensities: ClassVar[bool] = False
    #: whether it is told the truth (only by the simulator)
    oracle: ClassVar[bool] = False
    #: whether the truth includes the best list that never changes, which takes a while to find
    told_fixed: ClassVar[bool] = False
    #: whether it looks at the items' features, which lie in the field ``"features"`` of its state, L times d numbers
    contextual: ClassVar[bool] = False
    #: whether a score is an estimate of the attraction plus a bonus for what is not known well
    optimistic: ClassVar[bool] = False
    #: whether the simulator starts it anew, clock and all, at every breakpoint
    restarts: ClassVar[bool] = False
    #: which positions count as observed
    feedback: ClassVar[str] = "all"

    init: ClassVar[Any] = staticmethod(_nothing)
    told: ClassVar[Any] = staticmethod(_not_told)
    alarmed: ClassVar[Any] = staticmethod(never_alarmed)
    alarm: ClassVar[Any] = staticmethod(no_alarm)
    described: ClassVar[Any] = staticmethod(_looks_anew)
    believe: ClassVar[Any] = staticmethod(believe_nothing)
    rank: ClassVar[Any]
    update: ClassVar[Any]
    scores: ClassVar[Any]
    forget: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for name, allowed in self.choices.items():
            if hasattr(self, name):
                check_choice(name, getattr(self, name), allowed)
        for item in dataclasses.fields(self):
            if isinstance(item.default, bool):
                check_choice(item.name, getattr(self, item.name), (False, True))

    def parameters(self, problem: Problem) -> dict[str, float]:
        """The numbers that the kernels see: ``"auto"`` resolved, words encoded. Integers stay integers."""
        numbers: dict[str, float] = {"L": problem.L, "K": problem.K}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name in self.choices:
                value = self.choices[item.name].index(value)
            if isinstance(value, (int, float)):
                # epsilon=1 and epsilon=1.0 are the same kernel
                numbers[item.name] = float(value) if "float" in str(item.type) else value
        return numbers | {"feedback": self.choices["feedback"].index(self.feedback)}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        """The arrays of the state, given the resolved parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its state is")

    def scratch(self, p: Mapping[str, Any]) -> int:
        """How many numbers of room ``rank`` needs beside the list: the last ones of ``r.memo``, not kept after it."""
        return 0

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Called when a state has been copied to a larger one, field by field; for what a plain copy leaves wrong."""

    def kernels(self) -> Kernels:
        cls = type(self)
        missing = [name for name in Kernels._fields if not hasattr(cls, name)]
        if missing:
            raise TypeError(f"{cls.__name__} lacks the kernel{'s' * (len(missing) > 1)} {', '.join(missing)}")
        return Kernels(*(getattr(cls, name) for name in Kernels._fields))

    def start(
        self,
        items: Any,
        k: int,
        *,
        features: Any = None,
        seed: int = 0,
        horizon: int | None = None,
        query: str = "",
        run: int = 0,
        slots: int | None = None,
    ) -> Any:
        """A learner that ranks ``items``, ``k`` at a time.

        ``features`` describes every item by a vector of numbers, for policies that look at them. ``slots`` makes room
        for so many items from the start; then there may be fewer than ``k`` of them, or none, and a list is as long as
        there are candidates.
        """
        from driftrank.policies.learner import Learner

        return Learner(self, items, k, features=features, seed=seed, horizon=horizon, query=query, run=run, slots=slots)

    def replace(self, **changes: Any) -> Self:
        """The same policy with other parameters."""
        return dataclasses.replace(self, **changes)

    @property
    def spec(self) -> str:
        """The policy as it is written on the command line: name and parameters that differ from the defaults."""
        changed = [
            f"{f.name}={_written(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        ]
        return type(self).__name__ + (":" + ",".join(changed) if changed else "")


def _written(value: Any) -> str:
    if isinstance(value, Policy):
        name, _, arguments = value.spec.partition(":")
        return f"{name}({arguments})" if arguments else name
    if isinstance(value, tuple):
        return f"[{';'.join(map(str, value))}]"
    return str(value)


@kernel
def _no_level(p, s, e):
    return 0.0


class IndexPolicy(Policy):
    """A policy that gives every item an index and shows the K largest, best first.

    ``level(p, s, e)`` is computed once a step and handed to ``index(p, s, e, c, a, q)`` as ``q``.
    """

    abstract: ClassVar[bool] = True

    #: ties between equal indices: at random, or by the smaller slot
    ties: str = "random"
    #: which positions count as observed: up to the first click, up to the last, all
    feedback: str = "first"  # type: ignore[misc]
    #: best first; ``"increasing"`` shows the same items best last, which lowers regret in the cascade model (more of
    #: the list is observed) and is wrong for users and for every other click model
    order: str = "decreasing"

    #: whether an index takes long to compute (a random draw, say), so that none should be computed twice
    costly: ClassVar[bool] = False
    level: ClassVar[Any] = staticmethod(_no_level)
    index: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "index"):
            provide(cls, "rank", rank_by_index(cls.level, cls.index, cls.costly))
            provide(cls, "scores", _scores_by(cls.level, cls.index))
            cls.optimistic = getattr(pure(cls.scores), "made", False)


def provide(cls: type, name: str, function: Any) -> None:
    """Give a class a kernel that is made from others, unless the class or a parent wrote its own."""
    written = getattr(cls, name, None)
    if written is None or getattr(pure(written), "made", False):
        pure(function).made = True
        setattr(cls, name, staticmethod(function))


def rank_by_index(level: Any, index: Any, costly: bool = False) -> Any:
    """The kernel ``rank`` that shows the items with the largest indices."""

    def rank(p, s, e, c, r):
        q = level(p, s, e)
        filled = 0
        for j in range(c.items.shape[0]):
            a = c.items[j]
            filled = insert(r, 0, filled, r.items.shape[0], index(p, s, e, c, a, q), a, e, c, p.ties)
        arrange(r, p.order)

    def rank_by_guess(p, s, e, c, r):
        # The list that r holds is a guess at the new one. Counting, without a branch, the items that reach its last
        # place tells most often that the guess is right, and the search is over (measured: 184 -> 89 ns a step).
        q = level(p, s, e)
        K = r.items.shape[0]
        for i in range(K):
            a = r.items[i]
            insert(r, 0, i, K, index(p, s, e, c, a, q), a, e, c, p.ties)
        last = r.score[K - 1]
        reach = 0
        for j in range(c.items.shape[0]):
            reach += index(p, s, e, c, c.items[j], q) >= last
        if reach > K:
            last_lot = lot(r.items[K - 1], e.key, c, p.ties)
            for j in range(c.items.shape[0]):
                a = c.items[j]
                last_lot = offer(r, index(p, s, e, c, a, q), a, last_lot, e, c, p.ties)
        arrange(r, p.order)

    return kernel(rank) if costly else kernel(rank_by_guess, on_gpu=rank)


def _scores_by(level: Any, index: Any) -> Any:
    @kernel
    def scores(p, s, e, c, out):
        q = level(p, s, e)
        for j in range(c.items.shape[0]):
            out[j] = index(p, s, e, c, c.items[j], q)

    return scores
