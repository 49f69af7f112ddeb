from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.environments import BLB, Abrupt, Stationary
from driftrank.experiments.spec import Spec
from driftrank.queries import yandex_like


def test_defaults() -> None:
    policies, environment = Spec().build()
    assert [p.spec for p in policies] == ["CascadeRegimeTS", "CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB"]
    assert isinstance(environment, Abrupt)
    assert (len(environment.queries), environment.k) == (10, 3)
    assert (Spec().horizon, Spec().seed, Spec().device) == (100_000, 0, "cpu")


@pytest.mark.parametrize(
    "spec",
    [
        Spec(),
        Spec(policy=("CascadeSWUCB:window=50", "OracleRestart:base=CascadeTS(a0=0.5)"), seed=3, threads=2),
        Spec(env="BLB:L=8,K=2", horizon=77),
        Spec(env="Stationary", queries='/some "where"/q.json', k=1, checkpoints=7),
    ],
)
def test_survives_toml(spec: Spec) -> None:
    assert Spec.of(tomllib.loads(spec.to_toml())) == spec
    assert Spec.of(spec.settings()) == spec


def test_queries_derive_from_the_seed() -> None:
    _, environment = Spec(queries="yandex-like:2", seed=5).build()
    assert environment.names == list(yandex_like(2, seed=5))


def test_queries_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.json").write_text('{"queries": {"x": {"CM": {"attraction": [0.5, 0.25]}}}}')
    monkeypatch.chdir(tmp_path)
    spec = Spec(env="Stationary", queries="q.json", k=2)
    monkeypatch.chdir("/")  # the file is the same from everywhere
    _, environment = spec.build()
    assert isinstance(environment, Stationary)
    assert np.array_equal(environment.queries["x"], [0.5, 0.25])


def test_environments_with_their_own_queries() -> None:
    spec = Spec(env="BLB:L=6,K=2")
    assert isinstance(spec.build()[1], BLB)
    assert not {"k", "queries"} & set(spec.settings())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": "BLB", "queries": "yandex-like:3"}, "queries='yandex-like:3': BLB has its own query"),
        ({"env": "LowerBound", "k": 3}, "k=3: LowerBound has its own number of positions"),
        ({"env": "Abrup"}, "unknown environment 'Abrup'; did you mean Abrupt?"),
        ({"env": ""}, "env=''"),
        ({"env": 3}, "env=3: must be text"),
        ({"policy": [1]}, "policy=1: must be text"),
        ({"policies": ["Random"]}, "unknown setting 'policies'; did you mean policy?"),
        ({"queries": 7}, "queries=7: must be text"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Spec.of(settings)


def test_one_policy_needs_no_list() -> None:
    assert Spec(policy="Random").policy == ("Random",)  # type: ignore[arg-type]
