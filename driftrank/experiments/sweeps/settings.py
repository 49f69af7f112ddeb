"""The environments of a sweep as options and ``run.toml`` describe them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from driftrank.environments.base import Environment
from driftrank.environments.registry import registry, takes_queries
from driftrank.experiments.simulation.settings import EnvironmentSettings, name_of
from driftrank.experiments.sweeps.grid import parse_template
from driftrank.validation import check_text


@dataclass(frozen=True, kw_only=True)
class SweptEnvironments:
    """Environments in text, which may have grids; the other fields are those of :class:`EnvironmentSettings`.

    >>> swept = SweptEnvironments(env=["Abrupt:period={500;1000}"])
    >>> [environment.period for environment in swept.environments()]
    [500, 1000]
    """

    env: Sequence[str]
    queries: str = ""
    k: int | None = None
    click_model: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.env:
            raise ValueError("env: must name at least one")
        check_text("env", *self.env)

    def settings(self) -> dict[str, Any]:
        """The settings for ``run.toml``, without those that do not apply."""
        return self._first().settings() | {"env": list(self.env)}

    def environments(self) -> list[Environment]:
        """One environment for every point of the grids."""
        templates = [parse_template(text, registry) for text in self.env]
        first = self._first()
        return [first.environment(template.text(chosen)) for template in templates for chosen in template.points()]

    def _first(self) -> EnvironmentSettings:
        """The first environment that takes queries, if any does."""
        env = next((env for env in self.env if takes_queries(name_of(env))), self.env[0])
        return EnvironmentSettings(
            env=env, queries=self.queries, k=self.k, click_model=self.click_model, seed=self.seed
        )
