"""Items as they come in requests: ids, and the numbers that describe them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from driftrank.serve.config import ServerSettings
from driftrank.wire import Item, ItemId


def ids_and_features(
    what: str, items: Sequence[ItemId | Item], limits: ServerSettings
) -> tuple[list[ItemId], list[list[float]]]:
    """Their ids, and their features; of items without features, none. ``what`` they are is said where one is wrong."""
    ids: list[ItemId] = []
    rows: list[list[float]] = []
    for item in items:
        if isinstance(item, Item):
            ids.append(item.id)
            if item.features is not None:
                rows.append(item.features)
        else:
            ids.append(item)
    longest = limits.max_id
    if any(type(id_) is not str or not 0 < len(id_) <= longest for id_ in ids):
        for id_ in ids:
            check_id(what, id_, longest)
    if len(set(ids)) < len(ids):
        twice = next(item for n, item in enumerate(ids) if item in ids[:n])
        raise ValueError(f"{what}: {twice!r} occurs twice")
    if rows:
        if len(rows) < len(ids):
            raise ValueError("features: must be given for all items or for none")
        longest = max(map(len, rows))
        if longest > limits.max_features:
            raise ValueError(f"features: {longest} of an item, at most {limits.max_features} are allowed")
        if any(not isfinite(x) for row in rows for x in row):
            raise ValueError("features: must be finite numbers")
    return ids, rows


def check_even(rows: Sequence[Sequence[float]]) -> None:
    """Features that a policy looks at are as many for all items; others may be anything."""
    lengths = [len(row) for row in rows]
    if min(lengths) < max(lengths):
        raise ValueError(f"features: {min(lengths)} of one item and {max(lengths)} of another; must be as many for all")


def check_id(name: str, value: ItemId, longest: int) -> None:
    """Ids are texts that are not empty and not too long, or integers of 64 bits."""
    if isinstance(value, str):
        if not 1 <= len(value) <= longest:
            raise ValueError(f"{name}: an id of {len(value)} characters; from 1 to {longest} are allowed")
    elif not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}: {value} is too large; ids that are numbers have 64 bits")


def check_query(query: str, limits: ServerSettings) -> None:
    """Queries may be empty, but not too long."""
    if len(query) > limits.max_query:
        raise ValueError(f"query: {len(query)} characters, at most {limits.max_query} are allowed")
