"""A ranking as a learner returns it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.structures import Described

Item = Hashable


def described_at(x: Described, numbers: NDArray[np.intp]) -> Described:
    """The description of some of the items."""
    dense = x.dense.reshape(len(x.item), -1)[numbers].ravel() if len(x.dense) else x.dense
    score = x.score[numbers] if len(x.score) else x.score
    out = x._replace(item=x.item[numbers], place=x.place[numbers], dense=dense, score=score)
    if not len(x.begin):
        return out
    rows = [*numbers.tolist(), len(x.item)]
    at = np.concatenate([np.arange(x.begin[row], x.begin[row + 1]) for row in rows])
    begin = np.append(0, np.cumsum(x.begin[1:][rows] - x.begin[rows]))
    return out._replace(begin=begin, named=x.named[at], value=x.value[at], scaled=np.empty(len(at)))


class RankedItems(list[Item]):
    """A list of items, top first, with the numbers that the policy needs to learn from it later.

    It is an ordinary list; ``update`` also takes a plain one.
    """

    def __init__(
        self,
        items: Iterable[Item],
        scores: NDArray[np.float64],
        memo: NDArray[np.float64],
        key: int,
        propensities: NDArray[np.float64] | None = None,
        described: Described | None = None,
    ) -> None:
        super().__init__(items)
        self.scores = scores  #: the score by which each item was ranked
        self.memo = memo
        self.key = key
        #: by position, the probability of the item shown there given those above; None if unknown
        self.propensities = propensities
        self._described = described
        #: by position, True if the item is there to be explored; None if the policy does not tell
        self.explored: NDArray[np.bool_] | None = None
        self._made = tuple(self)

    #: the slots of the items, and the identity of the assignment of slots
    _slots: NDArray[np.uint32] | None = None
    _table: object = None

    #: the candidates as the shared model sees them, and the places of the items among them
    _candidates: tuple[Described, NDArray[np.intp]] | None = None

    def describe(self, candidates: Described, numbers: NDArray[np.intp]) -> None:
        """Note the description of the candidates; those with these numbers are shown."""
        self._candidates = candidates, numbers

    @property
    def described(self) -> Described | None:
        """The items as the shared model sees them; None if there is no such model."""
        if self._described is None and self._candidates is not None:
            self._described = described_at(*self._candidates)
        return self._described

    @property
    def places(self) -> NDArray[np.float64] | None:
        """The places of the items in the caller's order, from 1; 0 for an item without one, None if not described."""
        if self._described is None and self._candidates is not None:
            candidates, numbers = self._candidates
            return candidates.place[numbers]
        return None if self._described is None else self._described.place

    @property
    def propensity(self) -> float | None:
        """The probability of the whole list, None if unknown."""
        return None if self.propensities is None else float(np.prod(self.propensities))

    @property
    def intact(self) -> bool:
        """True if the list was not modified; its memo only fits the original."""
        return self._made == tuple(self)
