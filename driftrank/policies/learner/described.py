"""Descriptions of items for the shared model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.rng import key_of
from driftrank.kernels.structures import Described
from driftrank.policies.learner.features import LARGEST, feature_rows
from driftrank.policies.learner.named import Named, named_features
from driftrank.policies.learner.ranked_items import Item
from driftrank.policies.learner.tokens import token_of

_NONE, _NO_TOKENS = np.zeros(0), np.zeros(0, np.uint64)
#: the fields of a description without named features
_NOT_NAMED = np.zeros(0, np.int64), _NO_TOKENS, _NONE, _NONE
#: standardised scores are clipped to this absolute value
_MOST_SCORE = 5.0
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
    features: Any = None,
    context: Any = None,
    scores: Any = None,
) -> Described:
    """Describe the items of a request for the shared model.

    ``items`` are in the caller's order, unless ``ordered`` is False; ``places`` states other places, from 1 (0: none).
    ``dense`` has a vector of numbers for every item. ``crosses`` are tokens of the request, such as the user's country
    or the words of the query: the model learns about every token and item. ``tokens`` are those of the items, if known.

    ``features`` are named: an object for every item (None: it has none), in a list or by item, as
    :func:`~driftrank.policies.learner.named.named_features` takes them. ``context`` is such an object about the
    request, which is crossed with items and their features. ``scores`` are the caller's (None: an item has none), in a
    list or by item; they do not change the order.

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
        _NONE if scores is None else standardised(by_item("scores", items, scores)),
        *(_NOT_NAMED if features is None and context is None else _named(items, features, context)),
    )


def by_item(what: str, items: Sequence[Item], given: Any) -> list[Any]:
    """List what is given for items, in a list or by item (None: nothing for this one)."""
    if isinstance(given, Mapping):
        return [given.get(item) for item in items]
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != len(items):
        raise ValueError(f"{what}: must be {len(items)}, one for every item, or a mapping of items")
    return list(given)


def standardised(scores: Sequence[float | None]) -> NDArray[np.float64]:
    """Scores with mean 0 and variance 1 in the request; 0 for items without one. Sums are exact, on every machine.

    >>> standardised([3.0, 1.0, None]).tolist()
    [1.0, -1.0, 0.0]
    """
    for score in scores:
        if score is not None and not (isinstance(score, int | float | np.number) and abs(score) <= LARGEST):
            raise ValueError(f"scores: {score!r}: must be a finite number with an absolute value up to {LARGEST:g}")
    known = [float(score) for score in scores if score is not None]
    mean = math.fsum(known) / max(1, len(known))
    spread = math.sqrt(math.fsum((score - mean) * (score - mean) for score in known) / max(1, len(known)))
    out = np.zeros(len(scores))
    if spread > 0.0:
        for n, score in enumerate(scores):
            if score is not None:
                out[n] = min(max((score - mean) / spread, -_MOST_SCORE), _MOST_SCORE)
    return out


def _named(
    items: Sequence[Item], features: Any, context: Any
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
    """Begins, tokens, values and the buffer of named features, those of the request last."""
    each = [None] * len(items) if features is None else by_item("features", items, features)
    rows = [named_features("features", given) for given in each]
    return named_rows([*rows, named_features("context", context)])


def named_rows(
    rows: Sequence[Named],
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
    """The fields of a description for the named features of every item, and last of the request."""
    begin = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row.tokens) for row in rows], out=begin[1:])
    values = np.array([value for row in rows for value in row.values], float)
    tokens = np.array([token for row in rows for token in row.tokens], np.uint64)
    return begin, tokens, values, np.empty(len(values))


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
