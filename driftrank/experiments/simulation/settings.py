"""Environments as options and ``run.toml`` describe them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from driftrank.clickmodels.registry import parse_click_model
from driftrank.environments.base import Environment
from driftrank.environments.registry import parse_environment, takes_queries
from driftrank.queries import Queries, parse_queries
from driftrank.validation import check_text


@dataclass(frozen=True, kw_only=True)
class EnvironmentSettings:
    """An environment in text. The names of the fields are those of the options and of the keys in TOML.

    >>> settings = EnvironmentSettings(env="Abrupt:period=500", queries="yandex-like:2")
    >>> settings.k, settings.environment().period, len(settings.environment().queries)
    (3, 500, 2)
    """

    env: str
    #: ``yandex-like:N`` (10 by default) or a file, for environments that take queries
    queries: str = ""
    k: int | None = None  #: positions, likewise; 3 by default
    #: such as ``DBN:objective=clicks``; by default that of the file of queries, or the cascade model
    click_model: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        check_text("env", self.env)
        if self.click_model != "":
            check_text("click_model", self.click_model)
        name = name_of(self.env)
        if takes_queries(name):
            queries = "yandex-like:10" if self.queries == "" else self.queries
            check_text("queries", queries)
            if not queries.startswith("yandex-like"):
                queries = os.fspath(Path(queries).absolute())
            object.__setattr__(self, "queries", queries)
            object.__setattr__(self, "k", 3 if self.k is None else self.k)
        elif self.queries:
            raise ValueError(f"queries={self.queries!r}: {name} has its own query; leave this out")
        elif self.k is not None:
            raise ValueError(f"k={self.k!r}: {name} has its own number of positions; leave this out")

    def settings(self) -> dict[str, Any]:
        """The settings for ``run.toml``, without those that do not apply."""
        found = {"env": self.env, "queries": self.queries, "k": self.k, "click_model": self.click_model}
        return {key: value for key, value in found.items() if value not in (None, "")}

    def environment(self, spec: str = "") -> Environment:
        """The environment; or another one, given by its spec, with the same queries."""
        given: dict[str, Any] = {}
        if takes_queries(name_of(spec or self.env)):
            given = {"queries": self._queries, "k": self.k}
        elif self.click_model:
            given = {"click_model": parse_click_model(self.click_model)}
        return parse_environment(spec or self.env, **given)

    @cached_property
    def _queries(self) -> Queries:
        return parse_queries(self.queries, self.seed, self.click_model)


def name_of(spec: str) -> str:
    """The name in a spec such as ``Abrupt:period=500``."""
    return spec.partition(":")[0].strip()
