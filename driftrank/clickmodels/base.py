"""What a click model is: how users click, what a list is worth, and which list is best.

Kernels take ``alpha``, the attraction of every item now, and ``m``, further parameters of the model.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.validation import check_integer


class ModelKernels(NamedTuple):
    """The compiled functions of a click model."""

    #: (m, alpha, key, items, clicks): what a user clicks, and how often; ``key`` holds the user's randomness
    click: Any
    value: Any  #: (m, alpha, items): expected reward of a list
    optimum: Any  #: (m, alpha, best): fill in the best list of that length, return its value


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class ClickModel:
    """How users click. Subclasses become frozen dataclasses by themselves."""

    click: ClassVar[Any]
    value: ClassVar[Any]
    optimum: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def row(self) -> NDArray[np.float64]:
        """The parameters ``m`` as the kernels get them."""
        return np.zeros(0)

    def kernels(self) -> ModelKernels:
        cls = type(self)
        return ModelKernels(*(getattr(cls, name) for name in ModelKernels._fields))

    def reward(self, attraction: Any, ranking: Any) -> float:
        """The expected reward of showing the items at these indices.

        >>> from driftrank.clickmodels import CascadeModel
        >>> round(CascadeModel().reward([0.5, 0.2, 0.9], [0, 1]), 3)
        0.6
        """
        alpha = check_attraction(attraction)
        return float(type(self).value(self.row(), alpha, _slots(ranking, len(alpha))))

    def best(self, attraction: Any, k: int) -> list[int]:
        """The best list of k items, as indices."""
        alpha = check_attraction(attraction)
        check_integer("k", k, 1, len(alpha))
        best = np.zeros(k, np.uint32)
        type(self).optimum(self.row(), alpha, best)
        return [int(a) for a in best]

    def simulate(self, attraction: Any, ranking: Any, key: int) -> list[int]:
        """The click vector of the user that the 64 random bits ``key`` stand for."""
        alpha = check_attraction(attraction)
        items = _slots(ranking, len(alpha))
        check_integer("key", key, 0, 2**64 - 1)
        clicks = np.zeros(len(items), np.int8)
        type(self).click(self.row(), alpha, np.uint64(key), items, clicks)
        return [int(c) for c in clicks]


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
