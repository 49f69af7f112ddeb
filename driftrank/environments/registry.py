"""The registry of environments, by reflection."""

from __future__ import annotations

import dataclasses
from typing import Any

from driftrank.environments.base import Environment
from driftrank.reflection import Registry

registry: Registry[Environment] = Registry("environment", Environment, "driftrank.environments")


def environments() -> dict[str, type[Environment]]:
    """Every known environment, by name."""
    return registry.all()


def takes_queries(name: str) -> bool:
    """True if an environment takes queries (others have their own)."""
    return any(f.name == "queries" for f in dataclasses.fields(registry.get(name)))


def parse_environment(spec: str, **given: Any) -> Environment:
    """An environment written as ``NAME`` or ``NAME:key=value,...``; ``given`` holds its queries and k.

    >>> parse_environment("BLB:L=8,K=2").k
    2
    """
    return registry.parse(spec, **given)
