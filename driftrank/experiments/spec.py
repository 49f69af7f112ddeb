"""What to simulate, in words: as options say it, and as a file keeps it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from driftrank.clickmodels.registry import parse_click_model
from driftrank.engine.devices import Device
from driftrank.environments.base import Environment
from driftrank.environments.registry import parse_environment, takes_queries
from driftrank.experiments.results import Result
from driftrank.experiments.run import ORIGIN, run_in_folder
from driftrank.experiments.toml import write_toml
from driftrank.policies.base import Policy
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.queries import parse_queries
from driftrank.validation import check_known


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A simulation in words. The names of the fields are those of the options and of the keys in TOML.

    >>> spec = Spec(policy=["CascadeSWUCB:window=500"], queries="yandex-like:2", horizon=1000)
    >>> policies, environment = spec.build()
    >>> policies[0].window, len(environment.queries)
    (500, 2)
    """

    #: the default policy, and those of the paper to compare with
    policy: tuple[str, ...] = (default_policy().spec, "CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB")
    env: str = "Abrupt"
    #: ``yandex-like:N`` (10 by default) or a file, for environments that are made of queries
    queries: str = ""
    k: int | None = None  #: positions, likewise; 3 by default
    #: how users click, such as ``DBN:objective=clicks``; by default as the file of queries says, or the cascade model
    click_model: str = ""
    horizon: int = 100_000
    runs: int = 10
    seed: int = 0
    checkpoints: int = 100
    device: str = "cpu"
    threads: int | None = None  #: all cores

    def __post_init__(self) -> None:
        policy: Any = self.policy
        policy = tuple(policy) if isinstance(policy, (list, tuple)) else (policy,)
        _check_text("policy", *policy)
        _check_text("env", self.env)
        if self.click_model != "":
            _check_text("click_model", self.click_model)
        name = self.env.partition(":")[0].strip()
        changed: dict[str, Any] = {"policy": policy}
        if takes_queries(name):
            queries = "yandex-like:10" if self.queries == "" else self.queries
            _check_text("queries", queries)
            changed["queries"] = queries if queries.startswith("yandex-like") else os.fspath(Path(queries).absolute())
            changed["k"] = 3 if self.k is None else self.k
        elif self.queries:
            raise ValueError(f"queries={self.queries!r}: {name} has its own query; leave this out")
        elif self.k is not None:
            raise ValueError(f"k={self.k!r}: {name} has its own number of positions; leave this out")
        for key, value in changed.items():
            object.__setattr__(self, key, value)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """What a simulation is where nothing is said."""
        return {f.name: list(f.default) if isinstance(f.default, tuple) else f.default for f in dataclasses.fields(cls)}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """From settings such as a ``run.toml`` holds; what is missing has its default."""
        known = [f.name for f in dataclasses.fields(cls)]
        for key in settings:
            check_known("setting", key, [*known, *ORIGIN])
        return cls(**{key: value for key, value in settings.items() if key in known})

    def settings(self) -> dict[str, Any]:
        """What :meth:`of` takes, without what does not apply."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {key: value for key, value in found.items() if value not in (None, "")}

    def to_toml(self) -> str:
        return write_toml(self.settings())

    def build(self) -> tuple[list[Policy], Environment]:
        """The policies and the environment that the words stand for."""
        policies = [parse_policy(text) for text in self.policy]
        given: dict[str, Any] = {}
        if self.queries:
            given = {"queries": parse_queries(self.queries, self.seed, self.click_model), "k": self.k}
        elif self.click_model:
            given = {"click_model": parse_click_model(self.click_model)}
        return policies, parse_environment(self.env, **given)

    def run(
        self,
        folder: str | os.PathLike[str],
        *,
        device: Device | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> Result:
        """Simulate, in a folder (see :func:`~driftrank.experiments.run.run_in_folder`).

        ``device`` may be a cluster, in place of the word.
        """
        policies, environment = self.build()
        return run_in_folder(
            policies, environment, horizon=self.horizon, runs=self.runs, seed=self.seed,
            device=self.device if device is None else device, threads=self.threads, checkpoints=self.checkpoints,
            folder=folder, settings=self.settings(), resume=resume, progress=progress,
        )  # fmt: skip


def _check_text(name: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name}={value!r}: must be text")
