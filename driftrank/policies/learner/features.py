"""Features: numbers that describe items, for policies that use them (``contextual``).

They are stored in the field ``"features"`` of the state, one row per slot. By default the features of items are one-hot
vectors: nothing is shared between items, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: the most items without features: such a state has a number for every pair of them
MOST_WITHOUT = 64
#: the largest absolute value of a feature, as squares are added up
LARGEST = 1e100


def one_hot(L: int) -> NDArray[np.float64]:
    """The features of items that have none of their own."""
    if L > MOST_WITHOUT:
        raise ValueError(
            f"features: must be given for more than {MOST_WITHOUT} items (there are {L}) to a contextual policy"
        )
    return np.eye(L)


def feature_rows(items: Sequence[Any], features: Any, width: int | None = None) -> NDArray[np.float64]:
    """The features of items, a row each, from a mapping or a sequence of vectors, of ``width`` numbers if given."""
    try:
        if isinstance(features, Mapping):
            missing = [item for item in items if item not in features]
            if missing:
                raise ValueError(f"missing for item {missing[0]!r}")
            features = [features[item] for item in items]
        rows = np.array(features, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features: must be a vector of numbers for every item ({error})") from None
    if rows.ndim != 2 or len(rows) != len(items) or not rows.shape[1]:
        raise ValueError(f"features: must be {len(items)} vectors of one length, not of shape {rows.shape}")
    if not (np.abs(rows) <= LARGEST).all():
        raise ValueError(f"features: must be finite numbers with absolute values up to {LARGEST:g}")
    if width is not None and rows.shape[1] != width:
        raise ValueError(f"features: must be vectors of {width} numbers, as for the other items, not {rows.shape[1]}")
    return rows
