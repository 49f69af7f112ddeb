from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.environments import BLB, Abrupt, Stationary
from driftrank.experiments.simulation.settings import EnvironmentSettings
from driftrank.experiments.sweeps.settings import SweptEnvironments
from driftrank.queries import yandex_like


def test_defaults() -> None:
    settings = EnvironmentSettings(env="Abrupt")
    environment = settings.environment()
    assert isinstance(environment, Abrupt)
    assert (len(environment.queries), environment.k) == (10, 3)
    assert settings.settings() == {"env": "Abrupt", "queries": "yandex-like:10", "k": 3}


@pytest.mark.parametrize(
    "settings",
    [
        EnvironmentSettings(env="Abrupt:period=50", seed=3, click_model="DBN:objective=clicks"),
        EnvironmentSettings(env="BLB:L=8,K=2"),
        EnvironmentSettings(env="Stationary", queries='/some "where"/q.json', k=1),
        SweptEnvironments(env=["BLB:L={8;16}", "Abrupt"], queries="yandex-like:2", k=2),
    ],
)
def test_settings_describe_it(settings: EnvironmentSettings | SweptEnvironments) -> None:
    again = type(settings)(**settings.settings(), seed=settings.seed)
    assert again.settings() == settings.settings()


def test_queries_derive_from_the_seed() -> None:
    environment = EnvironmentSettings(env="Abrupt", queries="yandex-like:2", seed=5).environment()
    assert environment.names == list(yandex_like(2, seed=5))


def test_queries_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.json").write_text('{"queries": {"x": {"CM": {"attraction": [0.5, 0.25]}}}}')
    monkeypatch.chdir(tmp_path)
    settings = EnvironmentSettings(env="Stationary", queries="q.json", k=2)
    monkeypatch.chdir("/")  # the file is the same from everywhere
    environment = settings.environment()
    assert isinstance(environment, Stationary)
    assert np.array_equal(environment.queries["x"], [0.5, 0.25])


def test_environments_with_their_own_queries() -> None:
    settings = EnvironmentSettings(env="BLB:L=6,K=2")
    assert isinstance(settings.environment(), BLB)
    assert not {"k", "queries"} & set(settings.settings())


def test_environments_with_and_without_queries() -> None:
    """Those that take queries get them; grids are expanded in order."""
    swept = SweptEnvironments(env=["BLB:L={8;16},K=2", "Abrupt:period={50;100}"], queries="yandex-like:2", k=2)
    found = swept.environments()
    assert [type(environment) for environment in found] == [BLB, BLB, Abrupt, Abrupt]
    assert [environment.L for environment in found[:2]] == [8, 16]
    assert [(environment.period, environment.k) for environment in found[2:]] == [(50, 2), (100, 2)]
    assert found[2].queries is found[3].queries


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": "BLB", "queries": "yandex-like:3"}, "queries='yandex-like:3': BLB has its own query"),
        ({"env": "LowerBound", "k": 3}, "k=3: LowerBound has its own number of positions"),
        ({"env": "Abrup"}, "unknown environment 'Abrup'; did you mean Abrupt?"),
        ({"env": ""}, "env=''"),
        ({"env": 3}, "env=3: must be text"),
        ({"env": "Abrupt", "queries": 7}, "queries=7: must be text"),
        ({"env": "Abrupt", "click_model": 7}, "click_model=7: must be text"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        EnvironmentSettings(**settings)


@pytest.mark.parametrize("env", [[], [""], [7]])
def test_wrong_environments_of_a_sweep(env: list[Any]) -> None:
    with pytest.raises(ValueError, match="env"):
        SweptEnvironments(env=env)
