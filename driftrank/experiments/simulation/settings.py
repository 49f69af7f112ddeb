"""Environments as options and ``run.toml`` describe them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from driftrank.clickmodels.registry import parse_click_model
from driftrank.environments.base import Environment
from driftrank.environments.registry import parse_environment, registry, takes_queries
from driftrank.queries import Queries, parse_queries
from driftrank.reflection import read_pairs
from driftrank.validation import check_text

#: parameters of environments that are files: of Traffic, a click log or a models file, and a models file for a log; of
#: LearningToRank, its data
FILES = ("stream", "models", "data")


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
        spec, files = split_files(self.env)
        if files:
            object.__setattr__(
                self, "env", _joined(spec, {key: str(Path(path).absolute()) for key, path in files.items()})
            )
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
            instead = {"Traffic": "; use --env Traffic:stream=FILE", "LearningToRank": "; use data=FILE"}.get(name, "")
            raise ValueError(f"queries={self.queries!r}: {name} has its own query; leave this out{instead}")
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
        return environment_of(spec or self.env, self.click_model, **given)

    @cached_property
    def _queries(self) -> Queries:
        return parse_queries(self.queries, self.seed, self.click_model)


def environment_of(spec: str, model: str = "", /, **given: Any) -> Environment:
    """An environment by its spec, with the files that it names: ``Traffic:stream=log.parquet,models=models.json``.

    ``model`` is the click model whose attraction is read, if the file has it; ``given`` holds queries and k.
    """
    spec, files = split_files(spec)
    if "stream" in files:
        from driftrank.logs import query_stream

        given["stream"] = query_stream(files["stream"], files.get("models", ""), model.partition(":")[0].strip())
    elif "data" in files:
        given["data"] = files["data"]
    elif files:
        raise ValueError(f"models={files['models']!r}: must be given with a stream, whose attraction it has")
    return parse_environment(spec, **given)


#: an environment, its class or its spec
EnvironmentLike = Environment | type[Environment] | str


def as_environment(given: EnvironmentLike, seed: int = 0) -> Environment:
    """The environment that an object, a class or a spec stands for.

    A class and a spec have the queries and positions of ``driftrank simulate``, if they take any: 10 queries of this
    seed, and 3 positions.

    >>> as_environment("Abrupt:period=500").period, as_environment("Abrupt").k
    (500, 3)
    """
    if isinstance(given, type) and issubclass(given, Environment) and given.__name__ in registry.all():
        given = given.__name__
    if isinstance(given, str):
        return EnvironmentSettings(env=given, seed=seed).environment()
    return registry.read("environment", given, "Abrupt:period=5000")


def split_files(spec: str) -> tuple[str, dict[str, str]]:
    """A spec without the files that it names, and these by parameter.

    >>> split_files("Traffic:K=3,stream=log.parquet")
    ('Traffic:K=3', {'stream': 'log.parquet'})
    """
    name, _, text = spec.partition(":")
    if name_of(spec) not in registry.all() or not _takes_files(name_of(spec)):
        return spec, {}
    pairs = dict(read_pairs(text, f"environment {spec!r}"))
    files = {key: pairs.pop(key) for key in FILES if key in pairs}
    return (_joined(name, pairs), files) if files else (spec, {})


def _takes_files(name: str) -> bool:
    return any(f.name in FILES for f in dataclasses.fields(registry.get(name)))


def _joined(spec: str, pairs: Mapping[str, str]) -> str:
    text = ",".join(f"{key}={value}" for key, value in pairs.items())
    return f"{spec}{',' if ':' in spec else ':'}{text}" if text else spec


def name_of(spec: str) -> str:
    """The name in a spec such as ``Abrupt:period=500``."""
    return spec.partition(":")[0].strip()
