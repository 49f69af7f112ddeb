"""Arguments of kernels: the event, the candidates, their description, and the list."""

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
    #: by slot: two numbers A, B of the item's prior Beta(A, B); empty if the policy has no shared model. It may be
    #: longer than the state: slots from L on are items without a state, which were never observed.
    prior: NDArray[np.float64]
    going_on: float  #: the probability that a user goes on after a skipped item, from the shared model; 0 without one
    after_click: float  #: the same after a clicked item


class Described(NamedTuple):
    """Items of one request as the shared model of a ranker sees them; n items, d numbers each."""

    query: int  #: the key of the query (``uint64``)
    item: NDArray[np.int64]  #: tokens
    place: NDArray[np.float64]  #: in the caller's order, from 1; 0 if the caller has no order
    dense: NDArray[np.float64]  #: n times d features, those of the first item first
    crosses: NDArray[np.uint64]  #: tokens of the request, which are crossed with every item and its named features
    score: NDArray[np.float64]  #: the caller's, standardised within the request; empty if there is none
    #: named features, all of the first item first, then those of the request (its context): where those of an item, and
    #: last of the request, begin; their tokens, odd for numbers; their values, 1 for categories; a buffer. All empty if
    #: there is none.
    begin: NDArray[np.int64]
    named: NDArray[np.uint64]
    value: NDArray[np.float64]
    scaled: NDArray[np.float64]


class Ranking(NamedTuple):
    """A list of items; ``rank`` fills it, ``update`` gets it back. It always holds distinct candidates."""

    items: NDArray[np.uint32]  #: slots, top first
    score: NDArray[np.float64]  #: the score by which each was ranked
    memo: NDArray[np.float64]  #: numbers that ``rank`` passes to ``update``; -1 throughout if they are lost
    scratch: NDArray[np.float64]  #: a buffer for ``rank``; its content is undefined before and not kept after
