"""The models file (``models.json``): fitted click models of many queries. Only this module writes and reads it. ::

    {"queries": {QUERY: {"items": [ID, ...],
                         MODEL: {"attraction": [P, ...], PARAMETER: VALUE, ..., "changes": [CHANGE, ...]}, ...,
                         "low": {MODEL: {...}, ...}, "high": {MODEL: {...}, ...}}, ...}}

``"items"``
    Ids of the items, text or integers. Optional; without it the items are numbered from 0.
MODEL
    The name of a click model, such as ``"DBN"``. A query may have several.
``"attraction"``
    One probability per item.
PARAMETER
    A further parameter of the click model (:attr:`~driftrank.clickmodels.ClickModel.shape`): a probability, one per
    item, one per rank, or one list per rank, by the rank of the last click above and at the end without one.
``"changes"``
    Optional: ``{"after": N, "attraction": [P, ...]}``, the attraction that follows the first N lists of the query.
``"low"``, ``"high"``
    Optional: the ends of the confidence intervals of all parameters, in the same form. Not read.

Other keys of a query are ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel, check_attraction
from driftrank.clickmodels.registry import click_model, click_models, parse_click_model
from driftrank.files import written_text
from driftrank.validation import check_integer

#: (number of lists, attraction of every item after them), in the order of the lists
Changes = tuple[tuple[int, tuple[float, ...]], ...]
#: the JSON object of one query
Entry = dict[str, Any]


@dataclass(frozen=True, eq=False)
class QueryModel:
    """A query of the file under one of its click models."""

    attraction: NDArray[np.float64]
    model: ClickModel
    items: tuple[str | int, ...] | None  #: None: numbered from 0
    changes: Changes


def write(path: str | os.PathLike[str], queries: Mapping[str, Entry]) -> None:
    """Write a models file."""
    written_text(Path(path), json.dumps({"queries": queries}))


def block(parameters: Mapping[str, Any], changes: Changes = ()) -> dict[str, Any]:
    """The object of one click model; ``parameters`` includes the attraction."""
    values = {name: np.asarray(value).tolist() for name, value in parameters.items()}
    if changes:
        values["changes"] = [{"after": after, "attraction": list(alpha)} for after, alpha in changes]
    return values


def read(path: str | os.PathLike[str], model: str = "") -> dict[str, QueryModel]:
    """The queries of a file.

    Parameters
    ----------
    model
        The click model to read, such as ``"DBN"``; with parameters that replace the file's,
        ``"DBN:objective=clicks"``. By default ``"CM"``, or the only one in the file.
    """
    return parse(_content(path), model, f"{os.fspath(path)}: ")


def models_in(path: str | os.PathLike[str]) -> list[str]:
    """The names of the click models that queries of a file have."""
    entries = [entry for entry in _content(path).values() if isinstance(entry, dict)]
    return [name for name in click_models() if any(name in entry for entry in entries)]


def has_changes(path: str | os.PathLike[str]) -> bool:
    """True if a query of a file has changes of attraction."""
    blocks = [values for entry in _content(path).values() if isinstance(entry, dict) for values in entry.values()]
    return any(isinstance(values, dict) and values.get("changes") for values in blocks)


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The object ``"queries"`` of a file."""
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not a text file") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{name}: is not valid JSON ({error.msg}, line {error.lineno}, column {error.colno})"
        ) from None
    queries = content.get("queries") if isinstance(content, dict) else None
    if not isinstance(queries, dict) or not queries:
        form = '{"queries": {"tea": {"CM": {"attraction": [0.5, 0.2]}}}}'
        raise ValueError(f'{name}: must hold an object "queries" with at least one query, as in {form}')
    return queries


def parse(queries: Mapping[str, Any], model: str = "", prefix: str = "") -> dict[str, QueryModel]:
    """The queries of the object ``"queries"``; error messages begin with ``prefix``."""
    spec = model or _only_model(queries, prefix)
    return {query: _parse_entry(entry, spec, f"{prefix}query {query!r}") for query, entry in queries.items()}


def _parse_entry(entry: Any, spec: str, where: str) -> QueryModel:
    chosen, colon, replaced = spec.partition(":")
    cls = click_model(chosen.strip())
    values = entry.get(cls.__name__) if isinstance(entry, dict) else None
    if not isinstance(values, dict) or "attraction" not in values:
        known = [m for m in click_models() if isinstance(entry, dict) and entry.get(m)]
        others = f"; it has {', '.join(known)}" if known else ""
        raise ValueError(f'{where} has no "{cls.__name__}" with "attraction"{others}')
    attraction = check_attraction(values["attraction"], f"{where}: attraction")
    items = entry.get("items")
    if isinstance(items, list):
        if len(set(map(str, items))) < len(items):
            raise ValueError(f"{where} has duplicate items")
        if len(items) != len(attraction):
            raise ValueError(f"{where} has {len(items)} items and {len(attraction)} probabilities")
    try:
        given = cls.from_dict({name: value for name, value in values.items() if name != "changes"})
        kept = {name: getattr(given, name) for name in cls.shape if f"{name}=" not in replaced}
        users = parse_click_model(cls.__name__ + colon + replaced, **kept)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    changes = _parse_changes(values.get("changes") or [], len(attraction), where)
    return QueryModel(attraction, users, tuple(items) if isinstance(items, list) else None, changes)


def _parse_changes(values: Any, L: int, where: str) -> Changes:
    found: list[tuple[int, tuple[float, ...]]] = []
    for n, change in enumerate(values if isinstance(values, list) else [values]):
        if not isinstance(change, dict) or not {"after", "attraction"} <= set(change):
            raise ValueError(f'{where}: changes[{n}]: must be an object with "after" and "attraction"')
        check_integer(f"{where}: changes[{n}]: after", change["after"], found[-1][0] + 1 if found else 1)
        alpha = check_attraction(change["attraction"], f"{where}: changes[{n}]: attraction")
        if len(alpha) != L:
            raise ValueError(f"{where}: changes[{n}]: has {len(alpha)} probabilities for {L} items")
        found.append((change["after"], tuple(map(float, alpha))))
    return tuple(found)


def _only_model(queries: Mapping[str, Any], prefix: str) -> str:
    """The click model to read if none is chosen."""
    first = next(iter(queries.values()))
    known = [m for m in click_models() if isinstance(first, dict) and m in first]
    if "CM" in known or not known:
        return "CM"
    if len(known) > 1:
        raise ValueError(f"{prefix}holds {', '.join(known)}: choose one of these click models")
    return known[0]
