"""The base class of policies: a frozen description with a few pure functions over a flat state.

A policy is a class with its parameters as fields and its kernels as static methods, all in one file::

    class Greedy(IndexPolicy):
        def fields(self, p): return {"N": field("L"), "X": field("L")}

        @staticmethod
        @kernel
        def index(p, s, e, c, a, q): return (s.X[a] + 1) / (s.N[a] + 2)

        @staticmethod
        @kernel
        def update(p, s, e, r, clicks, observed): ...

Signatures and arguments of all kernels: :mod:`driftrank.policies.policy_kernels`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.layout import Field
from driftrank.kernels.observed import FEEDBACK
from driftrank.kernels.structures import Described
from driftrank.kernels.top_k import ORDER, TIES
from driftrank.policies.policy_kernels import (
    PolicyKernels,
    believe_nothing,
    never_alarmed,
    no_alarm,
    no_features,
    no_init,
    no_reveal,
    no_shared_init,
    no_shared_learn,
    no_shared_prior,
    observe_by_clicks,
)
from driftrank.validation import check_choice, check_integer, on_instance

if TYPE_CHECKING:
    from driftrank.policies.learner.learner import Learner
    from driftrank.policies.learner.ranked_items import Item
    from driftrank.policies.learner.shared_model import SharedModel


@dataclass(frozen=True)
class RankingProblem:
    """The sizes that a policy may use before it starts."""

    L: int  #: items
    K: int  #: positions
    horizon: int | None = None  #: steps the policy may plan for; None if unknown
    steps: int | None = None  #: steps the state must have capacity for; None if it can grow later
    features: int = 0  #: numbers that describe an item; 0 if the policy does not use them

    def __post_init__(self) -> None:
        check_integer("L", self.L, 1)
        if not (isinstance(self.K, int) and 1 <= self.K <= self.L):
            raise ValueError(f"k={self.K!r}: must be an integer from 1 to the number of items, {self.L}")
        if self.horizon is not None:
            check_integer("horizon", self.horizon, 1)

    @property
    def capacity(self) -> int:
        """The number of steps that the state must have capacity for now."""
        return self.steps or 1024


class EarlierState(ValueError):
    """A saved state of an earlier version, which cannot be used any more."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Policy:
    """A ranking policy: its parameters. ``start`` makes a learner of it, ``driftrank.simulate`` runs it.

    Subclasses become frozen dataclasses automatically.
    """

    #: True for a class, not its subclasses, that is only a base class; such a class states it in its own body
    abstract: ClassVar[bool] = True
    #: increment when the meaning of a saved state changes
    version: ClassVar[int] = 1
    #: kinds of environment in which it promises to beat random lists
    claims: ClassVar[tuple[str, ...]] = ("stationary",)
    #: the allowed values of string parameters; kernels get their index
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"ties": TIES, "feedback": FEEDBACK, "order": ORDER}
    #: parameters that had another name before, which still works: the new names by the old
    renamed: ClassVar[Mapping[str, str]] = {}
    #: the click model that it is made for
    click_model: ClassVar[str] = "CM"
    #: numbers per position that ``rank`` passes to ``update``
    memo: ClassVar[int] = 0
    #: True if the first of these numbers is a propensity: the exact probability of the shown item given those above
    propensities: ClassVar[bool] = False
    #: True if it learns by its own lists only: others, also its own in another order, teach it little or nothing
    own_lists: ClassVar[bool] = False
    #: True if the kernel ``reveal`` needs the truth, which only the simulator can provide
    oracle: ClassVar[bool] = False
    #: True if ``reveal`` also needs the best list that never changes, which takes time to find
    needs_fixed_list: ClassVar[bool] = False
    #: True if it uses the items' features: the field ``"features"`` of its state, L times d numbers
    contextual: ClassVar[bool] = False
    #: True if a score is an estimate of the attraction plus a bonus for uncertainty
    optimistic: ClassVar[bool] = False
    #: True if the simulator resets it, clock included, at every breakpoint
    restarts: ClassVar[bool] = False
    #: the most items with a state in a learner that gives one only to items that were observed
    most_items: ClassVar[int] = 2**31
    #: the positions that count as observed
    feedback: ClassVar[str] = "all"

    init: ClassVar[Any] = staticmethod(no_init)
    reveal: ClassVar[Any] = staticmethod(no_reveal)
    alarmed: ClassVar[Any] = staticmethod(never_alarmed)
    alarm: ClassVar[Any] = staticmethod(no_alarm)
    features_changed: ClassVar[Any] = staticmethod(no_features)
    believe: ClassVar[Any] = staticmethod(believe_nothing)
    observed: ClassVar[Any] = staticmethod(observe_by_clicks)
    shared_init: ClassVar[Any] = staticmethod(no_shared_init)
    shared_prior: ClassVar[Any] = staticmethod(no_shared_prior)
    shared_learn: ClassVar[Any] = staticmethod(no_shared_learn)
    rank: ClassVar[Any]
    update: ClassVar[Any]
    scores: ClassVar[Any]
    forget: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        if cls.renamed:
            cls.__init__ = _accepting_old_names(cls.__init__, cls.renamed)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for name, allowed in self.choices.items():
            if hasattr(self, name):
                check_choice(name, getattr(self, name), allowed)
        for item in dataclasses.fields(self):
            if isinstance(item.default, bool):
                check_choice(item.name, getattr(self, item.name), (False, True))

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        """The numbers that the kernels get: ``"auto"`` resolved, strings as indices. Integers stay integers."""
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
        raise NotImplementedError(f"{type(self).__name__} does not define its state")

    @property
    def shares(self) -> bool:
        """True if the policy has a shared model."""
        return type(self).shared_fields is not Policy.shared_fields

    def shared_fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        """The arrays of the shared model, which learns from all queries of a ranker; none: there is no such model."""
        return {}

    def shared_contributions(
        self, p: Mapping[str, Any], h: Mapping[str, NDArray[Any]], x: Described
    ) -> list[dict[str, float]]:
        """By described item, what each column of the shared model adds to the logit of its prior."""
        return [{} for _ in x.item]

    def shared_summary(self, p: Mapping[str, Any], h: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The shared model in a few numbers."""
        return {}

    def scratch(self, p: Mapping[str, Any]) -> int:
        """The size of ``r.scratch``: numbers that ``rank`` may use while it runs."""
        return 0

    def explored(self, scores: NDArray[np.float64], memo: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """By position of a list, True if the item is there to be explored; None if the policy does not tell."""
        return None

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Correct a state that was copied, field by field, to a larger one, if a plain copy is not enough."""

    def kernels(self) -> PolicyKernels:
        """The kernels: those that the class has as static methods; None for the others.

        A base class that makes kernels from others overrides this by ``super().kernels()._replace(...)``, with
        factories that are cached, so that equal kernels are one object and are compiled once.
        """
        return PolicyKernels(*(getattr(type(self), name, None) for name in PolicyKernels._fields))

    @on_instance("policy")
    def start(
        self,
        items: Iterable[Item],
        k: int,
        *,
        features: Any = None,
        seed: int = 0,
        horizon: int | None = None,
        query: str = "",
        run: int = 0,
        slots: int | None = None,
        shared: SharedModel | None = None,
    ) -> Learner:
        """A learner that ranks ``items``, ``k`` at a time.

        ``features`` describes every item by a vector of numbers, for policies that use them. ``slots`` reserves
        capacity for so many items; then there may be fewer than ``k`` of them, or none, and a list is as long as the
        number of candidates allows. ``shared`` is a :class:`~driftrank.policies.learner.shared_model.SharedModel`, for
        policies that have one: the learner takes its priors from it, and teaches it.
        """
        from driftrank.policies.learner.learner import Learner

        return Learner(
            self, items, k, features=features, seed=seed, horizon=horizon, query=query, run=run, slots=slots,
            shared=shared,
        )  # fmt: skip

    def check_version(self, version: int) -> None:
        """Refuse a state that was written by another version of the policy."""
        if version != self.version:
            kind = EarlierState if version < self.version else ValueError
            raise kind(f"a state of {self.spec} version {version}, this is version {self.version}")

    @on_instance("policy")
    def replace(self, **changes: Any) -> Self:
        """The same policy with other parameters."""
        return dataclasses.replace(self, **{self.renamed.get(name, name): value for name, value in changes.items()})

    @property
    def spec(self) -> str:
        """The policy as written on the command line: its name and the parameters that differ from the defaults."""
        changed = [
            f"{f.name}={_written(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        ]
        return type(self).__name__ + (":" + ",".join(changed) if changed else "")


def check_policy(policy: Any) -> None:
    """Raise ValueError unless it is a policy: a class or a spec will not do."""
    if not isinstance(policy, Policy):
        shown = policy.__name__ if isinstance(policy, type) else repr(policy)
        raise ValueError(f"policy={shown}: must be a policy, such as CascadeUCB1()")


def _accepting_old_names(init: Any, renamed: Mapping[str, str]) -> Any:
    """``__init__`` that takes the old names of parameters too."""

    @functools.wraps(init)
    def __init__(self: Any, **given: Any) -> None:
        for old in renamed.keys() & given.keys():
            if renamed[old] in given:
                raise ValueError(f"{old}={given[old]!r}: must not be given beside {renamed[old]}, its new name")
            given[renamed[old]] = given.pop(old)
        init(self, **given)

    return __init__


def _written(value: Any) -> str:
    if isinstance(value, Policy):
        name, _, arguments = value.spec.partition(":")
        return f"{name}({arguments})" if arguments else name
    if isinstance(value, tuple):
        return f"[{';'.join(map(str, value))}]"
    return str(value)
