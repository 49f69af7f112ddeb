"""Targets: the lists or policies whose value is wanted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftrank.logs.log import Log, duckdb_connection
from driftrank.logs.schema import literal
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.validation import check_choice

#: values of a learner: of its list after the log, of what it would have shown beside it, of what it would have shown
#: and learnt by itself
VALUES = ("shadow", "frozen", "online")

#: the most attractive items of each query since its last change
BEST_NOW = "best-now"

Rankings = Mapping[Any, Sequence[Any]]


@dataclass(frozen=True)
class Target:
    """A target with the name that results have for it."""

    name: str
    value_of: str  #: "lists", or one of :data:`VALUES`
    policy: Policy | None = None
    rankings: Rankings | None = None


def read_target(given: str | os.PathLike[str] | Policy | Rankings, log: Log, value_of: str = "shadow") -> Target:
    """A target from a policy or its spec, a mapping from queries to rankings, a file with columns query and ranking
    (Parquet, CSV with JSON lists, or JSON), or ``"best-now"``.
    """
    check_choice("value_of", value_of, VALUES)
    if isinstance(given, Policy):
        return Target(given.spec, value_of, policy=given)
    if isinstance(given, Mapping):
        return Target("rankings", "lists", rankings=_typed(given, log))
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"targets={given!r}: must be policies, their specs, rankings, files of these, or {BEST_NOW!r}")
    text = os.fspath(given)
    if text == BEST_NOW:
        return Target(text, "frozen")
    if Path(text).suffix in (".parquet", ".csv", ".json"):
        return Target(text, "lists", rankings=_typed(_read(text), log))
    policy = parse_policy(text)
    return Target(policy.spec, value_of, policy=policy)


def _read(path: str) -> Rankings:
    if not os.path.exists(path):
        raise ValueError(f"{path}: no such file")
    if path.endswith(".json"):
        try:
            found = json.loads(Path(path).read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not JSON ({error})") from None
        if not isinstance(found, dict) or not all(isinstance(ranking, list) for ranking in found.values()):
            raise ValueError(f"{path}: must be an object with a list of items for every query")
        return found
    import duckdb

    with duckdb_connection() as connection:
        try:
            rows = connection.execute(f"SELECT query, ranking FROM {literal(path)}").fetchall()
        except duckdb.Error as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{path}: must have columns query and ranking ({reason})") from None
    try:
        return {query: json.loads(ranking) if isinstance(ranking, str) else ranking for query, ranking in rows}
    except ValueError:
        raise ValueError(f'{path}: rankings must be lists, in CSV such as "[3, 1, 2]"') from None


def _typed(rankings: Rankings, log: Log) -> Rankings:
    """Queries and items with the types of the log, text or integers."""
    whole = log.types["query"] == "BIGINT", log.types["ranking"] == "BIGINT[]"
    out = {}
    for query, ranking in rankings.items():
        if isinstance(ranking, str) or not len(ranking):
            raise ValueError(f"ranking of {query!r}: must be a list of at least one item")
        items = [_name(item, whole[1]) for item in ranking]
        if len(set(items)) < len(items):
            raise ValueError(f"ranking of {query!r}: an item occurs twice")
        out[_name(query, whole[0])] = items
    return out


def _name(value: Any, whole: bool) -> Any:
    if not whole:
        return str(value)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"rankings: {value!r} must be an integer, as in the log") from None
