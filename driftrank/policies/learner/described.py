"""Descriptions of items for the shared model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.rng import key_of
from driftrank.kernels.structures import Described
from driftrank.policies.learner.features import feature_rows
from driftrank.policies.learner.ranked_items import Item
from driftrank.policies.learner.tokens import token_of

_NONE, _NO_TOKENS = np.zeros(0), np.zeros(0, np.uint64)
#: the largest place: the curve is flat beyond 4096
_MOST_PLACE = 1e9


def describe(
    query: str | int,
    items: Sequence[Item],
    *,
    ordered: bool = True,
    places: Any = None,
    dense: Any = None,
    crosses: Sequence[str | int] = (),
    tokens: NDArray[np.int64] | None = None,
) -> Described:
    """Describe the items of a request for the shared model.

    ``items`` are in the caller's order, unless ``ordered`` is False; ``places`` states other places, from 1 (0: none).
    ``dense`` has a vector of numbers for every item. ``crosses`` are tokens of the request, such as the user's country
    or the words of the query: the model learns about every token and item. ``tokens`` are those of the items, if known.

    >>> describe("shoes", ["a", "b"]).place.tolist()
    [1.0, 2.0]
    """
    n = len(items)
    place = _in_order(n, ordered) if places is None else _places(places, n)
    return Described(
        np.uint64(query if isinstance(query, int) else _key_of_query(query)),  # type: ignore[arg-type]
        np.array(list(map(token_of, items)), np.int64) if tokens is None else tokens,
        place,
        _NONE if dense is None else feature_rows(items, dense).ravel(),
        np.array([c if isinstance(c, int) else key_of(c) for c in crosses], np.uint64) if crosses else _NO_TOKENS,
    )


@lru_cache(maxsize=2**10)
def _in_order(n: int, ordered: bool) -> NDArray[np.float64]:
    """The places of candidates in the caller's order; descriptions share them, and nobody writes to them."""
    return np.arange(1.0, n + 1.0) if ordered else np.zeros(n)


@lru_cache(maxsize=2**14)
def _key_of_query(query: str) -> int:
    return key_of(query)


def _places(places: Any, n: int) -> NDArray[np.float64]:
    if type(places) is np.ndarray and places.dtype == float and places.shape == (n,):  # from a description
        return places
    try:
        out = np.array(places, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"places: must be a number for every item ({error})") from None
    if out.shape != (n,):
        raise ValueError(f"places: must be {n} numbers, one for every item, not of shape {out.shape}")
    if not (((out >= 1) | (out == 0)) & (out <= _MOST_PLACE)).all():
        raise ValueError("places: must be numbers from 1, or 0 for an item without one")
    return out
