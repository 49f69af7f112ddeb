"""Environments as JSON, with their queries and click models: results keep it, so that a run can be made again."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.registry import click_model
from driftrank.environments.base import Environment
from driftrank.environments.registry import registry
from driftrank.queries import Queries


def write_environment(environment: Environment) -> str | None:
    """The text of an environment; None if a parameter cannot be written, such as the stream of a log.

    >>> from driftrank.environments import BLB
    >>> read_environment(write_environment(BLB(L=6))) == BLB(L=6)
    True
    """
    try:
        values = {f.name: _written(getattr(environment, f.name)) for f in dataclasses.fields(environment) if f.init}
    except TypeError:
        return None
    return json.dumps({"environment": type(environment).__name__, "parameters": values})


def read_environment(text: str) -> Environment:
    """The environment of such a text. A class of your own must have been imported."""
    content = json.loads(text)
    values = {name: _read(value) for name, value in content["parameters"].items()}
    return registry.get(content["environment"])(**values)


def description(environment: Environment) -> str:
    """The name of an environment and its parameters, except those with default values."""
    changed = [
        f"{f.name}={getattr(environment, f.name)}"
        for f in dataclasses.fields(environment)
        if f.name != "queries" and getattr(environment, f.name) != f.default
    ]
    return type(environment).__name__ + (f":{','.join(changed)}" if changed else "")


def _written(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_written(part) for part in value]
    if isinstance(value, ClickModel):
        parameters = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"click_model": type(value).__name__, "parameters": parameters}
    if isinstance(value, Queries) and not value.origin:
        return {
            "attraction": {name: alpha.tolist() for name, alpha in value.attraction.items()},
            "models": {name: _written(model) for name, model in value.models.items()},
            "items": value.items,
            "changes": value.changes,
        }
    raise TypeError(f"{type(value).__name__} cannot be written")


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_read, value))
    if not isinstance(value, dict):
        return value
    if "click_model" in value:
        return click_model(value["click_model"])(**{name: _read(part) for name, part in value["parameters"].items()})
    attraction = {name: np.array(alpha, np.float64) for name, alpha in value["attraction"].items()}
    models, items, changes = (
        {name: _read(part) for name, part in value[key].items()} for key in ("models", "items", "changes")
    )
    return Queries(attraction, models, items, changes)
