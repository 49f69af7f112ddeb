"""What to sweep, in words: as options say it, and as a file keeps it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from driftrank.clickmodels.registry import parse_click_model
from driftrank.engine.devices import Device
from driftrank.environments.base import Environment
from driftrank.environments.registry import parse_environment, registry, takes_queries
from driftrank.experiments.spec import Spec, _check_text
from driftrank.experiments.sweep_grid import parse_template
from driftrank.experiments.sweep_result import Sweep
from driftrank.experiments.sweep_run import sweep
from driftrank.queries import parse_queries


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """A sweep in words. The names of the fields are those of the options and of the keys in TOML.

    >>> spec = SweepSpec(policy=["CascadeSWUCB:window={100;500}"], env=["Abrupt:period={500;1000}"], horizon=1000)
    >>> [environment.period for environment in spec.environments()]
    [500, 1000]
    """

    #: the two of the paper
    policy: tuple[str, ...] = ("CascadeSWUCB:window=geom(50,20000,25)", "CascadeDUCB:discount=1-geom(0.0001,0.1,25)")
    env: tuple[str, ...] = ("Abrupt",)
    #: ``yandex-like:N`` (10 by default) or a file, for environments that are made of queries
    queries: str = ""
    k: int | None = None  #: positions, likewise; 3 by default
    click_model: str = ""  #: how users click; by default as the file of queries says, or the cascade model
    horizon: int = 100_000
    runs: int = 10
    seed: int = 0
    checkpoints: int = 10
    halving: bool = False
    device: str = "cpu"
    threads: int | None = None  #: all cores

    def __post_init__(self) -> None:
        for key in ("policy", "env"):
            given: Any = getattr(self, key)
            texts = tuple(given) if isinstance(given, (list, tuple)) else (given,)
            _check_text(key, *texts)
            object.__setattr__(self, key, texts)
        if not self.env:
            raise ValueError("env: must name at least one")
        # of environments with and without queries, the former get them
        first = next((env for env in self.env if takes_queries(_name(env))), self.env[0])
        one = Spec(env=first, queries=self.queries, k=self.k, click_model=self.click_model)
        object.__setattr__(self, "queries", one.queries)
        object.__setattr__(self, "k", one.k)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """What a sweep is where nothing is said."""
        return {f.name: list(f.default) if isinstance(f.default, tuple) else f.default for f in dataclasses.fields(cls)}

    def settings(self) -> dict[str, Any]:
        """For ``run.toml``, without what does not apply."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {key: value for key, value in found.items() if value not in (None, "")}

    def environments(self) -> list[Environment]:
        """All that the words, with their grids, stand for."""
        templates = [parse_template(text, registry) for text in self.env]
        specs = [template.text(chosen) for template in templates for chosen in template.points()]
        queries = parse_queries(self.queries, self.seed, self.click_model) if self.queries else None
        found = []
        for spec in specs:
            given: dict[str, Any] = {}
            if takes_queries(_name(spec)):
                given = {"queries": queries, "k": self.k}
            elif self.click_model:
                given = {"click_model": parse_click_model(self.click_model)}
            found.append(parse_environment(spec, **given))
        return found

    def run(
        self,
        folder: str | os.PathLike[str],
        *,
        device: Device | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> Sweep:
        """Sweep, in a folder. ``device`` may be a cluster, in place of the word."""
        return sweep(
            self.policy, self.environments(), horizon=self.horizon, runs=self.runs, seed=self.seed,
            device=self.device if device is None else device, threads=self.threads, checkpoints=self.checkpoints,
            halving=self.halving, folder=folder, resume=resume, progress=progress, settings=self.settings(),
        )  # fmt: skip


def _name(spec: str) -> str:
    return spec.partition(":")[0].strip()
