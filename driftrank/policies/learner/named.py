"""Named features of items and requests, from JSON-like values to the tokens and numbers of the shared model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from driftrank.kernels.rng import key_of
from driftrank.policies.learner.features import LARGEST

#: the most features of an item, and of a request, that are used; a list of strings counts as many
MOST_NAMED = 32
#: the most characters of a name, with those of the objects around it, and of a category
MOST_CHARACTERS = 256
#: the most objects inside each other
MOST_DEPTH = 8


class Named(NamedTuple):
    """Named features as tokens and values, sorted by token: the order in which they are given does not matter."""

    tokens: tuple[int, ...] = ()  #: 32 bits; odd for numbers
    values: tuple[float, ...] = ()  #: 1 for categories
    left_out: int = 0  #: features beyond :data:`MOST_NAMED`


NOTHING = Named()


def named_features(what: str, given: Any) -> Named:
    """The features in an object, or a list of objects; ``what`` is their name in errors.

    Values are numbers, strings, booleans, lists of strings, objects (whose names are put before those in them), or None
    for what is missing.

    >>> len(named_features("context", {"device": "phone", "user": {"age": 31, "likes": ["jazz", "tea"]}}).tokens)
    4
    """
    if given is None:
        return NOTHING
    if isinstance(given, Named):
        return given
    found: dict[int, float] = {}
    for name, value in leaves(what, given, _refuse):
        if isinstance(value, str):
            found.setdefault(_category(name, value), 1.0)
        elif isinstance(value, bool):
            found.setdefault(_category(name, "true" if value else "false"), 1.0)
        elif isinstance(value, (list, tuple)):
            for member in value:
                found.setdefault(_category(name, member), 1.0)
        else:
            found.setdefault(_number(name), float(value))
    tokens = list(found)
    used = sorted(tokens[:MOST_NAMED])
    return Named(tuple(used), tuple(map(found.__getitem__, used)), len(tokens) - len(used))


def leaves(what: str, given: Any, problem: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    """The names and values of all usable features; the others are reported to ``problem``."""
    if isinstance(given, dict):
        given = [given]
    elif not isinstance(given, list | tuple):
        problem(f"{what}: must be an object or a list of objects")
        return
    level: list[tuple[str, Any]] = [("", part) for part in given]
    for _ in range(MOST_DEPTH):
        below: list[tuple[str, Any]] = []
        for prefix, part in level:
            if not isinstance(part, dict):
                problem(f"{what}: must be an object or a list of objects")
                continue
            for key, value in part.items():
                name = f"{prefix}{key}"
                if isinstance(value, dict):
                    below.append((f"{name}.", value))
                elif value is not None:
                    wrong = _wrong(name, value)
                    if wrong is None:
                        yield name, value
                    else:
                        problem(f"{what}: {wrong}")
        level = below
    if level:
        problem(f"{what}: at most {MOST_DEPTH} objects inside each other are allowed")


def _wrong(name: str, value: Any) -> str | None:
    """The problem with a feature; None if there is none."""
    if len(name) > MOST_CHARACTERS:
        return f"a name of {len(name)} characters, at most {MOST_CHARACTERS} are allowed"
    if isinstance(value, str):
        longest = len(value)
    elif isinstance(value, (int, float, np.number)):
        if abs(value) <= LARGEST:  # type: ignore[operator]
            return None
        return f"{name!r}: must be a finite number with an absolute value up to {LARGEST:g}"
    elif isinstance(value, (list, tuple)) and all(isinstance(member, str) for member in value):
        longest = max(map(len, value), default=0)
    else:
        return f"{name!r}: must be a number, a string, a boolean or a list of strings"
    if longest > MOST_CHARACTERS:
        return f"{name!r}: a category of {longest} characters, at most {MOST_CHARACTERS} are allowed"
    return None


def _refuse(problem: str) -> None:
    raise ValueError(problem)


@lru_cache(maxsize=2**16)
def _category(name: str, value: str) -> int:
    return key_of(f"{name}={value}") >> 32 & ~1


@lru_cache(maxsize=2**12)
def _number(name: str) -> int:
    return key_of(name) >> 32 | 1
