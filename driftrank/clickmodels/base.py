"""The base of click models: how users click, the value of a list, and the best list.

Kernels take ``alpha``, the attraction of every item now, and ``m``, the further parameters of the model in one row.

``click(m, alpha, key, items, clicks)`` simulates a user. ``chance(m, alpha, k, a, b)`` and ``after(m, alpha, k, a, b,
clicked)`` give the probabilities: ``chance`` that item ``a`` at position ``k`` (from 0) is clicked, given the clicks
above it, summarised by one number, the belief ``b``; ``after`` is the belief after this position. Conditional
probabilities, likelihoods and perplexities follow from these two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.identified import NotIdentified, ranks_apart
from driftrank.validation import check_choice, check_integer, check_known, on_instance

if TYPE_CHECKING:
    from driftrank.clickmodels.fitting.fit import Fit

#: values of a list: the probability of at least one click, the expected number of clicks, the probability that the
#: user leaves satisfied
OBJECTIVES = ("any", "clicks", "sat")

#: the kinds of parameters: one for the model, by item, by rank, by rank and rank of the last click above it
ONE, ITEM, RANK, PREVIOUS = "one", "item", "rank", "previous"


class ModelKernels(NamedTuple):
    """The compiled functions of a click model. ``work`` is a buffer of :meth:`ClickModel.work_size` floats."""

    #: (m, alpha, key, items, clicks): fill in the clicks of the user with the random key ``key``, return their number
    click: Any
    value: Any  #: (m, alpha, items, work): expected reward of a list
    optimum: Any  #: (m, alpha, best, work): fill in the best list of that length, return its value


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class ClickModel:
    """A model of how users click, given the attraction of items. Subclasses become frozen dataclasses automatically.

    A parameter by item or rank may also be a single number, for all of them.
    """

    abstract: ClassVar[bool] = True
    #: the parameters and their kinds
    shape: ClassVar[Mapping[str, str]] = {}
    #: the keys of ``values``
    objectives: ClassVar[tuple[str, ...]]
    #: by objective: (m, alpha, items, work) -> the value of a list
    values: ClassVar[Mapping[str, Any]]
    #: by objective: (m, alpha, best, work) -> the value of the best list, which is filled in
    optima: ClassVar[Mapping[str, Any]]
    click: ClassVar[Any]
    chance: ClassVar[Any]
    after: ClassVar[Any]
    #: (m, alpha, items, out, work): fill in the marginal probability of a click at every position
    marginals: ClassVar[Any]
    #: the belief at the first position
    first: ClassVar[float] = 1.0
    #: the statistics of a log that it is fitted to: "ratios", "positions" or "lists"
    statistics: ClassVar[str] = ""
    #: those for maximum likelihood, if the default fit is a closed form that is not
    exact_statistics: ClassVar[str] = ""
    #: True if a click depends on what was shown and clicked above it: rows without their lists do not suffice
    needs_lists: ClassVar[bool] = True
    #: False if positions are examined apart from what stands above: only items at several positions tell how often
    reads_down: ClassVar[bool] = True

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
            A click log, or its counts: :class:`~driftrank.clickmodels.fitting.counts.PositionCounts` or
            :class:`~driftrank.clickmodels.fitting.counts.ListCounts`.
        options
            ``prior``, ``per_query``, ``exact``, ``level``, ``max_iterations``, ``tolerance``;
            :class:`~driftrank.clickmodels.fitting.em.FitOptions` documents them.
        """
        for name in options:
            check_known("option", name, (field.name for field in dataclasses.fields(FitOptions)))
        fit_options = FitOptions(**options)
        if not cls.statistics:
            raise ValueError(f"{cls.__name__}: cannot be fitted, it has no statistics")
        if not isinstance(log, (PositionCounts, ListCounts)):
            if not hasattr(log, "has_positions"):
                raise ValueError(
                    f"log={log!r}: must be a log or its counts; driftrank.logs.open_log opens a file, and reads a table"
                )
            cls.check_log(log)
        counts = log if isinstance(log, (PositionCounts, ListCounts)) else log.counts(cls.counts_for(fit_options.exact))
        kind = "lists" if isinstance(counts, ListCounts) else "positions" if counts.detailed else "ratios"
        usable = (cls.statistics, cls.exact_statistics, "positions" if cls.statistics == "ratios" else "")
        if kind not in usable:
            raise ValueError(f"log: holds counts of {kind}, but {cls.__name__} is fitted to those of {cls.statistics}")
        if not len(counts):
            raise ValueError("log: holds no lists, so there is nothing to fit")
        if cls.shape and counts.longest == 1:
            raise NotIdentified(
                f"log: every list has one item and no position, so {', '.join(cls.shape)} of {cls.__name__} would mean "
                "nothing; must have lists, or rows with their position (for PBM). CM, without parameters of ranks, can "
                "be fitted"
            )
        if not cls.reads_down and isinstance(counts, PositionCounts):
            apart = ranks_apart(counts, fit_options.per_query)
            if apart:
                raise NotIdentified(
                    f"log: no items were shown both at position{'s' * (len(apart) > 1)} {', '.join(map(str, apart))} "
                    f"and, directly or through others, at position 1, so {', '.join(cls.shape)} of {cls.__name__} "
                    "cannot be separated from attraction; must have items at several positions"
                )
        return cls.estimate(counts, fit_options)

    @classmethod
    def check_log(cls, log: Any) -> None:
        """Check that a log has what the model needs."""
        if cls.needs_lists and log.has_positions():
            raise ValueError(
                f"model={cls.__name__}: must be PBM, since {log.source} has rows without their lists (column "
                "position), and what stood above an item is not known"
            )

    @classmethod
    def counts_for(cls, exact: bool = False) -> str:
        """The statistics of a log that it is fitted to.

        >>> from driftrank.clickmodels import DCM
        >>> DCM.counts_for(), DCM.counts_for(exact=True)
        ('ratios', 'lists')
        """
        return (exact and cls.exact_statistics) or cls.statistics

    @classmethod
    def estimate(cls, counts: Any, options: FitOptions) -> Fit:
        """Estimate from statistics of the right kind, which :meth:`fit` has checked."""
        raise NotImplementedError(f"{cls.__name__}.estimate")

    def row(self, L: int, K: int) -> NDArray[np.float64]:
        """The parameters ``m`` for lists of K of L items: single numbers, then by item, then by rank."""
        parts: list[Any] = []
        for kind in (ONE, ITEM, RANK, PREVIOUS):
            for name in (n for n, k in self.shape.items() if k == kind):
                parts.append(_spread(name, getattr(self, name), kind, L, K))
        return np.concatenate([np.zeros(0), *parts])

    def work_size(self, L: int, K: int) -> int:
        """The number of floats in the buffer ``work`` of the kernels."""
        return L * (K + 2) + 4 * K + 4

    def kernels(self) -> ModelKernels:
        return ModelKernels(type(self).click, self.values[self.objective], self.optima[self.objective])

    @on_instance("click model")
    def reward(self, attraction: Any, ranking: Any) -> float:
        """The value of showing the items at these indices, by the objective.

        >>> from driftrank.clickmodels import CM
        >>> round(CM().reward([0.5, 0.2, 0.9], [0, 1]), 3)
        0.6
        """
        alpha, items, m, work = self._given(attraction, ranking)
        return float(self.kernels().value(m, alpha, items, work))

    @on_instance("click model")
    def best(self, attraction: Any, k: int) -> list[int]:
        """The best list of k items, as indices."""
        alpha = check_attraction(attraction)
        check_integer("k", k, 1, len(alpha))
        best = np.zeros(k, np.uint32)
        self.kernels().optimum(self.row(len(alpha), k), alpha, best, np.zeros(self.work_size(len(alpha), k)))
        return [int(a) for a in best]

    @on_instance("click model")
    def simulate(self, attraction: Any, ranking: Any, key: int) -> list[int]:
        """The click vector of the user with the random key ``key`` (64 bits)."""
        alpha, items, m, _ = self._given(attraction, ranking)
        check_integer("key", key, 0, 2**64 - 1)
        clicks = np.zeros(len(items), np.int8)
        type(self).click(m, alpha, np.uint64(key), items, clicks)
        return [int(c) for c in clicks]

    @on_instance("click model")
    def conditional(self, attraction: Any, ranking: Any, clicks: Any) -> list[float]:
        """The probability of the click or no click at every position, given those above it.

        >>> from driftrank.clickmodels import CM
        >>> CM().conditional([0.5, 0.2], [0, 1], [0, 1])
        [0.5, 0.2]
        """
        alpha, items, m, _ = self._given(attraction, ranking)
        vector = [int(c) for c in clicks]
        if len(vector) != len(items) or any(c not in (0, 1) for c in vector):
            raise ValueError(f"clicks={clicks!r}: must be {len(items)} zeros and ones, one per position")
        out = []
        b = self.first
        for k, (a, c) in enumerate(zip(items, vector, strict=True)):
            p = float(type(self).chance(m, alpha, k, a, b))
            out.append(p if c else 1.0 - p)
            b = float(type(self).after(m, alpha, k, a, b, c))
        return out

    @on_instance("click model")
    def probability(self, attraction: Any, ranking: Any, clicks: Any) -> float:
        """The probability of a click vector.

        >>> from driftrank.clickmodels import DBN
        >>> round(DBN(satisfaction=0.5, continuation=0.9).probability([0.5, 0.4], [0, 1], [1, 1]), 3)
        0.09
        """
        return float(np.prod(self.conditional(attraction, ranking, clicks)))

    def click_probabilities(self, attraction: Any, ranking: Any) -> list[float]:
        """The marginal probability of a click at every position.

        >>> from driftrank.clickmodels import CM
        >>> CM().click_probabilities([0.5, 0.2], [0, 1])
        [0.5, 0.1]
        """
        alpha, items, m, work = self._given(attraction, ranking)
        out = np.zeros(len(items))
        type(self).marginals(m, alpha, items, out, work)
        return [float(p) for p in out]

    def only(self, slots: Iterable[int]) -> Self:
        """The model for some of the items.

        >>> from driftrank.clickmodels import SDBN
        >>> SDBN(satisfaction=(0.1, 0.2, 0.3)).only([2, 0]).satisfaction
        (0.3, 0.1)
        """
        kept = list(slots)
        of_items = {name: getattr(self, name) for name, kind in self.shape.items() if kind == ITEM}
        fewer: dict[str, Any] = {n: tuple(v[a] for a in kept) for n, v in of_items.items() if not isinstance(v, float)}
        return dataclasses.replace(self, **fewer)

    def to_dict(self) -> dict[str, Any]:
        """The parameters, as in a models file beside the attraction."""
        return {name: _listed(getattr(self, name)) for name in self.shape}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """From such parameters; ``others`` are fields that the file does not have, such as the objective."""
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
        return alpha, items, self.row(L, K), np.zeros(self.work_size(L, K))


def _checked(name: str, value: Any, kind: str) -> Any:
    """A parameter as a probability, or tuples of them, which can be compared."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return float(check_attraction([value], name)[0])
    if kind == ONE:
        raise ValueError(f"{name}={value!r}: must be a probability in [0, 1]")
    if kind == PREVIOUS:
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise ValueError(f"{name}={value!r}: must be a probability, or a list of them for every rank")
        rows = list(value)
        for r, row in enumerate(rows):
            if len(row) != len(rows):
                raise ValueError(
                    f"{name}[{r}]: must hold {len(rows)} probabilities, one per rank: by the rank of the last click "
                    "above it, and at the end without one"
                )
        return tuple(tuple(map(float, check_attraction(row, f"{name}[{r}]"))) for r, row in enumerate(rows))
    return tuple(map(float, check_attraction(value, name)))


def _spread(name: str, value: Any, kind: str, L: int, K: int) -> NDArray[np.float64]:
    """A parameter as an array for the kernels."""
    if kind == ONE:
        return np.array([value])
    if kind == ITEM:
        if not isinstance(value, float) and len(value) != L:
            raise ValueError(f"{name}: has {len(value)} probabilities for {L} items")
        return np.full(L, value) if isinstance(value, float) else np.array(value)
    if isinstance(value, float):
        return np.full(K if kind == RANK else K * K, value)
    if len(value) < K:
        raise ValueError(f"{name}: has {len(value)} ranks, too few for lists of {K}")
    if kind == RANK:
        return np.array(value[:K])
    table = np.array(value)[:K]
    return np.column_stack([table[:, -1], table[:, : K - 1]]).ravel()  # without a click first: [k, rank of the click]


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def _slots(ranking: Any, L: int) -> NDArray[np.uint32]:
    """A ranking as an array for the kernels, which do not check it."""
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
