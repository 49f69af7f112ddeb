"""Items of requests: ids, features and scores, and what a policy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

from driftrank.policies.base import Policy
from driftrank.policies.learner.described import standardised
from driftrank.policies.learner.named import MOST_NAMED, Named, leaves, named_features
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import Item, ItemId

#: named features of all items of a request: to hash more takes longer than other requests should wait
_MOST_NAMED = 5_000


class CheckedItems(NamedTuple):
    """Checked candidates, with what they bring."""

    ids: list[ItemId]
    features: list[Any]  #: as sent, None for an item without; empty if no item has any
    scores: list[float | None]  #: empty if no item has one
    vectors: bool = False  #: the features are vectors of numbers

    def at(self, numbers: Sequence[int]) -> CheckedItems:
        """Some of the candidates, or the same in another order."""
        return CheckedItems(
            [self.ids[n] for n in numbers],
            [self.features[n] for n in numbers] if self.features else [],
            [self.scores[n] for n in numbers] if self.scores else [],
            self.vectors,
        )


class Used(NamedTuple):
    """The part of what candidates bring that a policy uses."""

    rows: list[list[float]] | None  #: vectors for a policy with features of its own
    description: dict[str, Any]  #: for the shared model, as :func:`describe` takes it
    notes: list[str]  #: on the rest


def given_items(what: str, items: Sequence[ItemId | Item], limits: ServerSettings) -> CheckedItems:
    """Checked candidates. ``what``: their name in errors."""
    ids: list[ItemId] = []
    features: dict[int, Any] = {}
    scores: dict[int, float] = {}
    plain = set(map(type, items)) == {str}
    if plain:
        ids += items  # type: ignore[arg-type]
    else:
        for n, item in enumerate(items):
            if isinstance(item, Item):
                ids.append(item.id)
                if item.features is not None:
                    features[n] = item.features
                if item.score is not None:
                    scores[n] = item.score
            else:
                ids.append(item)
    longest = limits.max_id
    distinct = set(ids)
    if not plain or "" in distinct or max(map(len, items)) > longest:  # type: ignore[arg-type]
        for id_ in ids:
            check_id(what, id_, longest)
    if len(distinct) < len(ids):
        twice = next(item for n, item in enumerate(ids) if item in ids[:n])
        raise ValueError(f"{what}: {twice!r} occurs twice")
    vectors = False
    if features:
        kinds = {_is_vector(each) for each in features.values() if each != []}  # an empty list is both
        if len(kinds) > 1:
            raise ValueError("features: must be vectors of numbers for all items, or named for all")
        vectors = kinds != {False}
    if vectors:
        _check_vectors(list(features.values()), len(ids), limits.max_features)
    if scores:
        standardised(list(scores.values()))  # raises the precise error
    return CheckedItems(
        ids,
        [features.get(n) for n in range(len(ids))] if features else [],
        [scores.get(n) for n in range(len(ids))] if scores else [],
        vectors,
    )


def used_by(policy: Policy, given: CheckedItems, context: Any, limits: ServerSettings) -> Used:
    """The part of candidates and their context that a policy uses; the notes name the rest."""
    notes: list[str] = []
    rows: list[list[float]] | None = None
    description: dict[str, Any] = {}
    if policy.shares:
        if given.vectors:
            dense = _even(given.features, getattr(policy, "dense", 0), notes)
            description |= {} if dense is None else {"dense": dense}
        elif given.features:
            named, most = [], _MOST_NAMED
            for each in given.features:
                named.append(checked_named("features", each, limits))
                most -= len(named[-1].tokens)
                if most < 0:
                    raise ValueError(f"features: more than {_MOST_NAMED} by name in one request")
            description["features"] = named
            _note_left_out(notes, "features", "an item", max(each.left_out for each in named))
        if context is not None:
            description["context"] = about = checked_named("context", context, limits)
            _note_left_out(notes, "context", "a request", about.left_out)
        if given.scores:
            description["scores"] = given.scores
        return Used(None, description, notes)
    if policy.contextual and given.features:
        rows = given.features if given.vectors else _numbers(given.features)
        if rows is None:
            notes.append(f"features: not used, {policy.spec} needs the same numbers for all items")
    elif given.features:
        notes.append(f"features: not used by {policy.spec}")
    if context is not None:
        notes.append(f"context: not used by {policy.spec}")
    if given.scores:
        notes.append(f"score: used for the baseline only, not by {policy.spec}")
    return Used(rows, description, notes)


def checked_named(what: str, features: Any, limits: ServerSettings) -> Named:
    """Named features, if they are not too many."""
    out = named_features(what, features)
    n = len(out.tokens) + out.left_out
    if n > limits.max_features:
        raise ValueError(f"{what}: {n} by name, at most {limits.max_features} are allowed")
    return out


def _is_vector(features: Any) -> bool:
    if isinstance(features, dict):
        return False
    kinds = {isinstance(each, dict) for each in features}
    if len(kinds) > 1:
        raise ValueError("features: must be a vector of numbers or a list of objects, not both")
    return True not in kinds


def _check_vectors(rows: list[list[float]], n: int, most: int) -> None:
    if len(rows) < n:
        raise ValueError("features: must be given for all items or for none")
    longest = max(map(len, rows))
    if longest > most:
        raise ValueError(f"features: {longest} of an item, at most {most} are allowed")
    if any(not isfinite(x) for row in rows for x in row):
        raise ValueError("features: must be finite numbers")


def _even(rows: list[list[float]], most: int, notes: list[str]) -> list[list[float]] | None:
    """Vectors of one length for the shared model; None if they are not."""
    shortest, longest = min(map(len, rows)), max(map(len, rows))
    if shortest < longest:
        notes.append(f"features: not used, as vectors of {shortest} and of {longest} numbers; must be equally long")
        return None
    if longest > most:
        notes.append(f"features: the first {most} of {longest} numbers of an item are used (dense={most})")
    return [row[:most] for row in rows] if min(longest, most) else None


def _numbers(features: list[Any]) -> list[list[float]] | None:
    """Rows of numbers, sorted by name; None if some are not numbers, or items differ in names.

    >>> _numbers([[{"price": 3, "size": {"cm": 10.5}}], [{"size": {"cm": 8}}, {"price": 2}]])
    [[3.0, 10.5], [2.0, 8.0]]
    """
    wrong: list[str] = []
    named = [dict(leaves("features", each or [], wrong.append)) for each in features]
    names = sorted(named[0]) if named else []
    if wrong or not names or any(sorted(row) != names for row in named):
        return None
    if any(not isinstance(value, int | float) for row in named for value in row.values()):
        return None
    return [[float(row[name]) for name in names] for row in named]


def _note_left_out(notes: list[str], what: str, of: str, n: int) -> None:
    if n:
        notes.append(f"{what}: the first {MOST_NAMED} names of {of} are used, {n} were left out")


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
