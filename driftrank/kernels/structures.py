"""Arguments of kernels: the event, the candidates, and the list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Event(NamedTuple):
    """The time of a step, and its randomness."""

    t: int  #: step, counted from 1
    now: float  #: time: equal to ``t`` when simulating, seconds when serving
    key: int  #: 64 random bits (``uint64``) from which every draw of the policy at this event derives


class Candidates(NamedTuple):
    """The items that may be shown."""

    items: NDArray[np.uint32]  #: their slots in the state (unsigned: an index that cannot be negative is cheaper)
    token: NDArray[np.int64]  #: by slot: the branch of an item's randomness, so that slots can be permuted


class Ranking(NamedTuple):
    """A list of items; ``rank`` fills it, ``update`` gets it back. It always holds distinct candidates."""

    items: NDArray[np.uint32]  #: slots, top first
    score: NDArray[np.float64]  #: the score by which each was ranked
    memo: NDArray[np.float64]  #: numbers that ``rank`` passes to ``update``; -1 throughout if they are lost
    scratch: NDArray[np.float64]  #: a buffer for ``rank``; its content is undefined before and not kept after
