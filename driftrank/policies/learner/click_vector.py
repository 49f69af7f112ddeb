"""Feedback in any form, converted to a click vector."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ZERO_ONE = frozenset((0, 1))


def click_vector(shown: Sequence[Hashable], clicks: Any, *, is_item: bool = False) -> NDArray[np.int8]:
    """The 0/1 vector of a list's clicks.

    ``clicks`` may be that vector, the position of the click (1 is the top, ``len(shown) + 1`` means none), the
    clicked item (always with ``is_item``), several clicked items, or None for no click.

    >>> click_vector(["a", "b", "c"], 2).tolist(), click_vector(["a", "b", "c"], "c").tolist()
    ([0, 1, 0], [0, 0, 1])
    """
    vector = np.zeros(len(shown), np.int8)
    if clicks is None:
        return vector
    if type(clicks) is int and not is_item and 0 < clicks <= len(shown):  # first, because it is the most common form
        vector[clicks - 1] = 1
        return vector
    if isinstance(clicks, np.ndarray) and clicks.ndim == 0:
        clicks = clicks.item()
    if not is_item and isinstance(clicks, (bool, np.bool_)):
        raise ValueError(f"clicks={clicks!r}: must be a click vector, a position, an item, or None")
    if not is_item and isinstance(clicks, (int, np.integer)):
        if not 1 <= clicks <= len(shown) + 1:
            raise ValueError(
                f"clicks={clicks!r}: a position must be from 1 to {len(shown)}, or {len(shown) + 1} for no click"
            )
        if clicks <= len(shown):
            vector[clicks - 1] = 1
        return vector
    if not is_item and isinstance(clicks, (list, tuple, np.ndarray)):
        if len(clicks) and all(isinstance(c, str) for c in clicks):
            for clicked in clicks:
                vector[_position(shown, clicked)] = 1
            return vector
        if len(clicks) != len(shown) or not _are_zeros_and_ones(clicks):
            raise ValueError(
                f"clicks={list(clicks)!r}: a vector must have a 0 or 1 for each of the {len(shown)} items shown"
            )
        vector[:] = clicks
        return vector
    vector[_position(shown, clicks)] = 1
    return vector


def _position(shown: Sequence[Hashable], item: Any) -> int:
    if item not in shown:
        raise ValueError(f"clicks={item!r}: not among the items shown, {list(shown)!r}")
    return list(shown).index(item)


def _are_zeros_and_ones(clicks: Any) -> bool:
    try:
        return _ZERO_ONE.issuperset(clicks.tolist() if isinstance(clicks, np.ndarray) else clicks)
    except TypeError:  # nested
        return False
