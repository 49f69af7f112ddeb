"""What a click model is: how users click, what a list is worth, and which list is best.

Kernels take ``alpha``, the attraction of every item now, and ``m``, the further parameters of the model in one row.

``click(m, alpha, key, items, clicks)`` is the user. ``chance(m, alpha, k, a, b)`` and ``after(m, alpha, k, a, b,
clicked)`` say the same in probabilities: the chance that item ``a`` at position ``k`` (from 0) is clicked, given all
that happened above it, which is summed up in one number, the belief ``b``; and the belief after it. Conditional
probabilities, likelihoods and perplexities follow from these two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.counts import ListCounts, PositionCounts
from driftrank.clickmodels.em import Options
from driftrank.validation import check_choice, check_integer, check_known

if TYPE_CHECKING:
    from driftrank.clickmodels.fitted import Fit

#: what a list is worth: the chance of at least one click, the expected number of clicks, the chance that the user
#: leaves satisfied
OBJECTIVES = ("any", "clicks", "sat")

#: what a parameter belongs to: the whole model, an item, a rank, a rank and the rank of the last click above it
ONE, ITEM, RANK, PREVIOUS = "one", "item", "rank", "previous"


class ModelKernels(NamedTuple):
    """The compiled functions of a click model. ``room`` is a row of numbers to work in."""

    #: (m, alpha, key, items, clicks): what a user clicks, and how often; ``key`` holds the user's randomness
    click: Any
    value: Any  #: (m, alpha, items, room): expected reward of a list
    optimum: Any  #: (m, alpha, best, room): fill in the best list of that length, return its value


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class ClickModel:
    """How users click, given how attractive items are. Subclasses become frozen dataclasses by themselves.

    A parameter of every item may be one number, which then holds for all of them.
    """

    abstract: ClassVar[bool] = True
    #: the parameters, and what each belongs to
    shape: ClassVar[Mapping[str, str]] = {}
    #: what a list can be worth; from ``values``
    objectives: ClassVar[tuple[str, ...]]
    #: by objective: (m, alpha, items, room) -> what a list is worth
    values: ClassVar[Mapping[str, Any]]
    #: by objective: (m, alpha, best, room) -> the best list, and what it is worth
    optima: ClassVar[Mapping[str, Any]]
    click: ClassVar[Any]
    chance: ClassVar[Any]
    after: ClassVar[Any]
    #: (m, alpha, items, out, room): the chance of a click at every position, whatever happens at the others
    marginals: ClassVar[Any]
    #: the belief at the top
    first: ClassVar[float] = 1.0
    #: the counts of a log that it is fitted to: "ratios", "positions" or "lists"
    statistics: ClassVar[str] = ""
    #: those that it is fitted to where the usual way is not that of maximum likelihood
    exact_statistics: ClassVar[str] = ""

    objective: str = "any"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        if "values" in vars(cls):
            cls.objectives = tuple(cls.values)

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, self.objectives)
        for name, kind in self.shape.items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), kind))

    @classmethod
    def fit(cls, log: Any, **options: Any) -> Fit:
        """Estimate attraction and all parameters from a log.

        Parameters
        ----------
        log
            A click log, or its counts: :class:`~driftrank.clickmodels.counts.PositionCounts` or
            :class:`~driftrank.clickmodels.counts.ListCounts`.
        options
            ``prior``, ``per_query``, ``exact``, ``level``, ``max_iterations``, ``tolerance``, as
            :class:`~driftrank.clickmodels.em.Options` has them.
        """
        for name in options:
            check_known("option", name, (field.name for field in dataclasses.fields(Options)))
        how = Options(**options)
        if not cls.statistics:
            raise ValueError(f"{cls.__name__}: does not say how it is fitted")
        counts = log if isinstance(log, (PositionCounts, ListCounts)) else log.counts(cls.counts_for(how.exact))
        kind = "lists" if isinstance(counts, ListCounts) else "positions" if counts.detailed else "ratios"
        fine = (cls.statistics, cls.exact_statistics, "positions" if cls.statistics == "ratios" else "")
        if kind not in fine:
            raise ValueError(f"log: holds counts of {kind}, but {cls.__name__} is fitted to those of {cls.statistics}")
        if not len(counts):
            raise ValueError("log: holds no lists, so there is nothing to fit")
        return cls.estimate(counts, how)

    @classmethod
    def counts_for(cls, exact: bool = False) -> str:
        """Which counts of a log it is fitted to.

        >>> from driftrank.clickmodels import DCM
        >>> DCM.counts_for(), DCM.counts_for(exact=True)
        ('ratios', 'lists')
        """
        return (exact and cls.exact_statistics) or cls.statistics

    @classmethod
    def estimate(cls, counts: Any, options: Options) -> Fit:
        """The estimates from counts of the right kind; :meth:`fit` looks at them first."""
        raise NotImplementedError(f"{cls.__name__} does not say how it is estimated")

    def row(self, L: int, K: int) -> NDArray[np.float64]:
        """The parameters ``m`` for lists of K of L items: single numbers, those of items, those of ranks."""
        parts: list[Any] = []
        for kind in (ONE, ITEM, RANK, PREVIOUS):
            for name in (n for n, k in self.shape.items() if k == kind):
                parts.append(_spread(name, getattr(self, name), kind, L, K))
        return np.concatenate([np.zeros(0), *parts])

    def room(self, L: int, K: int) -> int:
        """How many numbers the kernels need to work in."""
        return L * (K + 2) + 4 * K + 4

    def kernels(self) -> ModelKernels:
        return ModelKernels(type(self).click, self.values[self.objective], self.optima[self.objective])

    def reward(self, attraction: Any, ranking: Any) -> float:
        """What showing the items at these indices is worth, by the objective.

        >>> from driftrank.clickmodels import CM
        >>> round(CM().reward([0.5, 0.2, 0.9], [0, 1]), 3)
        0.6
        """
        alpha, items, m, room = self._given(attraction, ranking)
        return float(self.kernels().value(m, alpha, items, room))

    def best(self, attraction: Any, k: int) -> list[int]:
        """The best list of k items, as indices."""
        alpha = check_attraction(attraction)
        check_integer("k", k, 1, len(alpha))
        best = np.zeros(k, np.uint32)
        self.kernels().optimum(self.row(len(alpha), k), alpha, best, np.zeros(self.room(len(alpha), k)))
        return [int(a) for a in best]

    def simulate(self, attraction: Any, ranking: Any, key: int) -> list[int]:
        """The click vector of the user that the 64 random bits ``key`` stand for."""
        alpha, items, m, _ = self._given(attraction, ranking)
        check_integer("key", key, 0, 2**64 - 1)
        clicks = np.zeros(len(items), np.int8)
        type(self).click(m, alpha, np.uint64(key), items, clicks)
        return [int(c) for c in clicks]

    def conditional(self, attraction: Any, ranking: Any, clicks: Any) -> list[float]:
        """The probability of what happened at every position, given what happened above it.

        >>> from driftrank.clickmodels import CM
        >>> CM().conditional([0.5, 0.2], [0, 1], [0, 1])
        [0.5, 0.2]
        """
        alpha, items, m, _ = self._given(attraction, ranking)
        vector = [int(c) for c in clicks]
        if len(vector) != len(items) or any(c not in (0, 1) for c in vector):
            raise ValueError(f"clicks={clicks!r}: must be {len(items)} zeros and ones, one for every position")
        out = []
        b = self.first
        for k, (a, c) in enumerate(zip(items, vector, strict=True)):
            p = float(type(self).chance(m, alpha, k, a, b))
            out.append(p if c else 1.0 - p)
            b = float(type(self).after(m, alpha, k, a, b, c))
        return out

    def probability(self, attraction: Any, ranking: Any, clicks: Any) -> float:
        """The probability of a click vector.

        >>> from driftrank.clickmodels import DBN
        >>> round(DBN(satisfaction=0.5, continuation=0.9).probability([0.5, 0.4], [0, 1], [1, 1]), 3)
        0.09
        """
        return float(np.prod(self.conditional(attraction, ranking, clicks)))

    def click_probabilities(self, attraction: Any, ranking: Any) -> list[float]:
        """The probability of a click at every position, whatever happens at the others.

        >>> from driftrank.clickmodels import CM
        >>> CM().click_probabilities([0.5, 0.2], [0, 1])
        [0.5, 0.1]
        """
        alpha, items, m, room = self._given(attraction, ranking)
        out = np.zeros(len(items))
        type(self).marginals(m, alpha, items, out, room)
        return [float(p) for p in out]

    def only(self, slots: Iterable[int]) -> Self:
        """The model of the users of some of the items.

        >>> from driftrank.clickmodels import SDBN
        >>> SDBN(satisfaction=(0.1, 0.2, 0.3)).only([2, 0]).satisfaction
        (0.3, 0.1)
        """
        kept = list(slots)
        of_items = {name: getattr(self, name) for name, kind in self.shape.items() if kind == ITEM}
        fewer: dict[str, Any] = {n: tuple(v[a] for a in kept) for n, v in of_items.items() if not isinstance(v, float)}
        return dataclasses.replace(self, **fewer)

    def to_dict(self) -> dict[str, Any]:
        """The parameters, as they stand in a file of models beside the attraction."""
        return {name: _listed(getattr(self, name)) for name in self.shape}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """From such parameters; ``others`` are not of the file, such as the objective."""
        for name in values:
            if name != "attraction":
                check_known(f"parameter of {cls.__name__}", name, cls.shape)
        for name in cls.shape:
            if name not in values:
                raise ValueError(f"{cls.__name__}: the parameter {name} is missing")
        return cls(**{name: values[name] for name in cls.shape}, **others)

    def _given(self, attraction: Any, ranking: Any) -> tuple[Any, Any, Any, Any]:
        alpha = check_attraction(attraction)
        items = _slots(ranking, len(alpha))
        L, K = len(alpha), len(items)
        return alpha, items, self.row(L, K), np.zeros(self.room(L, K))


def _checked(name: str, value: Any, kind: str) -> Any:
    """A parameter as numbers that can be compared: a probability, or tuples of them."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return float(check_attraction([value], name)[0])
    if kind == ONE:
        raise ValueError(f"{name}={value!r}: must be a probability in [0, 1]")
    if kind == PREVIOUS:
        rows = list(value)
        for r, row in enumerate(rows):
            if len(row) != len(rows):
                raise ValueError(
                    f"{name}[{r}]: must hold {len(rows)} probabilities, as many as there are ranks: by the rank of "
                    "the last click above it, and at the end without one"
                )
        return tuple(tuple(map(float, check_attraction(row, f"{name}[{r}]"))) for r, row in enumerate(rows))
    return tuple(map(float, check_attraction(value, name)))


def _spread(name: str, value: Any, kind: str, L: int, K: int) -> NDArray[np.float64]:
    """A parameter as the kernels get it."""
    if kind == ONE:
        return np.array([value])
    if kind == ITEM:
        if not isinstance(value, float) and len(value) != L:
            raise ValueError(f"{name}: has {len(value)} probabilities for {L} items")
        return np.full(L, value) if isinstance(value, float) else np.array(value)
    if isinstance(value, float):
        return np.full(K if kind == RANK else K * K, value)
    if len(value) < K:
        raise ValueError(f"{name}: is known for {len(value)} ranks, too few for lists of {K}")
    if kind == RANK:
        return np.array(value[:K])
    table = np.array(value)[:K]
    return np.column_stack([table[:, -1], table[:, : K - 1]]).ravel()  # without a click first: [k, rank of the click]


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def _slots(ranking: Any, L: int) -> NDArray[np.uint32]:
    """A list of items as kernels get it; they trust it to be one."""
    items = [a.item() if isinstance(a, np.integer) else a for a in ranking]
    for position, a in enumerate(items):
        check_integer(f"ranking[{position}]", a, 0, L - 1)
        if a in items[:position]:
            raise ValueError(f"ranking[{position}]={a!r}: occurs twice")
    return np.array(items, np.uint32)


def check_attraction(values: Any, name: str = "attraction") -> NDArray[np.float64]:
    """Probabilities, one per item."""
    try:
        alpha = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: must be a list of numbers") from None
    if alpha.ndim != 1 or not len(alpha):
        raise ValueError(f"{name}: must be a list of at least one number")
    bad = np.flatnonzero(~((alpha >= 0) & (alpha <= 1)))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}]={alpha[bad[0]]:g}: must be a probability in [0, 1]")
    return alpha
