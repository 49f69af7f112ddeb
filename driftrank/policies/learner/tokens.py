"""Tokens of items: numbers below 2^63, the same for the same name on every machine."""

from __future__ import annotations

from functools import lru_cache

from driftrank.kernels.rng import key_of
from driftrank.policies.learner.ranked_items import Item


def token_of(item: Item | None) -> int:
    """The token of an item: the key of its randomness, and of its weight in the shared model."""
    if type(item) is str:
        return _token_of_text(item)
    if isinstance(item, int) and 0 <= item < 2**63:
        return int(item)
    return _token_of(str.__repr__(item) if isinstance(item, str) else repr(item))


@lru_cache(maxsize=2**16)
def _token_of_text(item: str) -> int:
    return _token_of(repr(item))


def _token_of(text: str) -> int:
    return key_of(text) >> 1
