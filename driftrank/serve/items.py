"""Items of requests: ids and features."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from driftrank.serve.settings import ServerSettings
from driftrank.wire import Item, ItemId


def ids_and_features(
    what: str, items: Sequence[ItemId | Item], limits: ServerSettings
) -> tuple[list[ItemId], list[list[float]]]:
    """Checked ids and features; no features if the items have none. ``what``: the name of the items in errors."""
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
    """Raise unless all items have the same number of features, as policies that use them need."""
    lengths = [len(row) for row in rows]
    if min(lengths) < max(lengths):
        raise ValueError(f"features: {min(lengths)} of one item and {max(lengths)} of another; must be equally many")


def check_id(name: str, value: ItemId, longest: int) -> None:
    """Raise unless an id is a string of allowed length or a 64-bit integer."""
    if isinstance(value, str):
        if not 1 <= len(value) <= longest:
            raise ValueError(f"{name}: an id of {len(value)} characters; must be from 1 to {longest}")
    elif not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}={value}: must be an integer of 64 bits")


def check_query(query: str, limits: ServerSettings) -> None:
    """Raise if a query is too long; it may be empty."""
    if len(query) > limits.max_query:
        raise ValueError(f"query: {len(query)} characters, at most {limits.max_query} are allowed")
