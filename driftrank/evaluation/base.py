"""The contract of estimators: numbers per list that are added up, and the value that follows from the sums."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.reflection import Registry

Floats = NDArray[np.float64]

#: rewards of a list: a click or none, the number of clicks
OBJECTIVES = ("any", "clicks")

#: what an estimator assumes about users, from nothing to a model
ASSUMPTIONS = {
    "A0": "nothing about users",
    "A1": "users read from the top: a click depends on the item and those above it",
    "A2": "a click depends on the item and its position, whatever else is shown",
    "A3": "the fitted click model",
}
#: the same in tables
ASSUMED = {"A0": "nothing", "A1": "reading from the top", "A2": "item and position", "A3": "the click model"}


@dataclass(frozen=True, eq=False)
class Batch:
    r"""Lists of a log as a target sees them; K positions are evaluated, and lists that are shorter end earlier.

    A row is one list, or several of the same query with the same first click: then ``weight`` holds sums.
    """

    #: (n,) position of the first click, from 1; K + 1 for none
    first: NDArray[np.int64]
    #: (n, K + 1) prefix weights :math:`W_k = \prod_{j \le k} e_j / p_j`: target over logging; column 0: number of lists
    weight: Floats
    #: (n, K) the chance of a click at k if there was none above, by a click model that has not seen the row
    hazard: Floats
    #: (n, K + 1) the chance that the target's list gets no click below k, if there was none down to k
    rest: Floats
    #: (n,) the value of the target's list by a click model, fitted to all lists; NaN if it is unknown
    model: Floats
    #: (n, K) True where a position was clicked
    clicked: NDArray[np.bool_]
    objective: str = "any"
    #: (n,) the cell in which the row is added up
    cell: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    #: (n,) the number of the query
    query: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    #: (n, K) of marginal propensities, the weights of items where they stand: the probability of the item at k, target
    #: over logging, and 1 below the end of the list, each times the number of lists; None: they are not known
    place: Floats | None = None

    @property
    def k(self) -> int:
        return int(self.hazard.shape[1])

    @property
    def lists(self) -> Floats:
        """(n,) number of lists."""
        lists: Floats = self.weight[:, 0]
        return lists

    @functools.cached_property
    def reward(self) -> Floats:
        """(n,) of each list: 1 for a click, or the number of clicks."""
        if self.objective == "clicks":
            return np.asarray(self.clicked.sum(axis=1), np.float64)
        return np.asarray(self.first <= self.k, np.float64)

    @functools.cached_property
    def read(self) -> NDArray[np.bool_]:
        """(n, K) True for positions down to the first click."""
        reached: NDArray[np.bool_] = self.first[:, None] >= np.arange(1, self.k + 1)
        return reached

    @functools.cached_property
    def first_clicks(self) -> NDArray[np.bool_]:
        """(n, K) True at the first click."""
        found: NDArray[np.bool_] = self.first[:, None] == np.arange(1, self.k + 1)
        return found

    @functools.cached_property
    def stopped(self) -> Floats:
        """(n,) the weight down to the first click, or of the whole list without one; its mean is 1."""
        return np.take_along_axis(self.weight, np.minimum(self.first, self.k)[:, None], axis=1)[:, 0]

    @property
    def whole(self) -> Floats:
        """(n,) the weight of the whole list, or of marginal propensities the mean over its positions; its mean is 1."""
        weight: Floats = self.weight[:, -1] if self.place is None else self.place.mean(axis=1)
        return weight


@dataclass(frozen=True)
class Estimator(ABC):
    """An estimator of the value of a target. Subclasses in this package are found by reflection.

    It is a function of sums over lists: those of parts of a log add up, and intervals follow from leaving out one
    bucket of users at a time.
    """

    abstract: ClassVar[bool] = True
    #: in commands and results
    key: ClassVar[str]
    #: a key of :data:`ASSUMPTIONS`
    assumes: ClassVar[str]
    objectives: ClassVar[tuple[str, ...]] = ("any",)
    #: True if it needs the probabilities of the lists that were shown
    weighs: ClassVar[bool] = True
    #: True if these must be marginal: of items at positions, whatever is above
    places: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Of its sums: the key, and settings if they are not the default."""
        return self.key

    @property
    def clipped(self) -> bool:
        """True if large weights are left out. Its second column is then their sum; no interval holds its error."""
        return False

    @abstractmethod
    def columns(self, batch: Batch) -> Floats:
        """(n, m) the numbers of every row to add up."""

    @abstractmethod
    def value(self, totals: Floats, lists: Floats) -> Floats:
        """The value from sums (..., m) over this many lists (...)."""


class MeanEstimator(Estimator):
    """An estimator that is the mean of one number per list."""

    abstract = True

    @abstractmethod
    def rows(self, batch: Batch) -> Floats:
        """(n,) the number of every row; for a row of several lists, their sum."""

    def columns(self, batch: Batch) -> Floats:
        return self.rows(batch)[:, None]

    def value(self, totals: Floats, lists: Floats) -> Floats:
        return totals[..., 0] / lists


registry: Registry[Estimator] = Registry("estimator", Estimator, "driftrank.evaluation.estimators")  # type: ignore[type-abstract]


def known_estimators() -> dict[str, Estimator]:
    """Every known estimator, by its key: those of this package, and those that you define.

    >>> list(known_estimators())
    ['direct', 'dr', 'item-position', 'list', 'prefix', 'product-limit', 'published', 'self-normalised']
    """
    made = [cls() for cls in registry.all().values()]
    return {estimator.key: estimator for estimator in sorted(made, key=lambda estimator: estimator.key)}


def added(index: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Sums of values by an index below ``count``.

    >>> added(np.array([1, 1, 0]), np.array([1.0, 2.0, 4.0]), 3).tolist()
    [4.0, 3.0, 0.0]
    """
    sums: Floats = np.bincount(index, values, count).astype(np.float64)
    return sums


def target_rest(hazard: Floats) -> Floats:
    """``Batch.rest`` of targets that show one list, from the hazards of its items.

    >>> target_rest(np.array([[0.5, 0.25]])).tolist()
    [[0.375, 0.75, 1.0]]
    """
    rest = np.ones((len(hazard), hazard.shape[1] + 1))
    for k in range(hazard.shape[1] - 1, -1, -1):
        rest[:, k] = rest[:, k + 1] * (1 - hazard[:, k])
    return rest


def prefix_weights(matched: NDArray[np.int64], shown: NDArray[np.int64], propensities: Floats) -> Floats:
    """``Batch.weight`` of targets that show one list.

    Parameters
    ----------
    matched
        (n,) how many items from the top are those of the target.
    shown
        (n,) positions of each list; below them weights do not change.
    propensities
        (n, K) the probability of each item given those above.

    >>> half = np.full((2, 2), 0.5)
    >>> prefix_weights(np.array([2, 1]), np.array([2, 2]), half).tolist()
    [[1.0, 2.0, 4.0], [1.0, 2.0, 0.0]]
    """
    K = propensities.shape[1]
    weight = np.ones((len(matched), K + 1))
    for k in range(1, K + 1):
        step = np.where(matched >= k, 1.0, 0.0)
        np.divide(step, propensities[:, k - 1], out=step, where=shown >= k)
        weight[:, k] = weight[:, k - 1] * np.where(shown >= k, step, 1.0)
    return weight
