"""What a kernel is handed: the event, the candidates, and the list it makes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Event(NamedTuple):
    """When something happens, and the randomness that belongs to it."""

    t: int  #: step, counted from 1
    now: float  #: time: equal to ``t`` when simulating, seconds when serving
    key: int  #: 64 random bits (``uint64``); every draw of the policy at this event derives from them


class Candidates(NamedTuple):
    """The items that may be shown."""

    items: NDArray[np.uint32]  #: their slots in the state (unsigned: an index that cannot be negative is cheaper)
    token: NDArray[np.int64]  #: by slot: what an item's randomness is keyed on, so that slots can be permuted


class Ranking(NamedTuple):
    """A list of items; ``rank`` fills it, ``update`` gets it back. It always holds distinct candidates, before
    ``rank`` too."""

    items: NDArray[np.uint32]  #: slots, top first
    score: NDArray[np.float64]  #: what each was ranked by
    memo: NDArray[np.float64]  #: what the policy must remember of the choice; -1 where that is lost; then scratch
