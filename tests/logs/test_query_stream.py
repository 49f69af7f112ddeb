"""The stream of queries of a log or a models file, and simulations of it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.environments import Traffic
from driftrank.experiments.simulation.settings import EnvironmentSettings, environment_of

ROWS = [
    ("shoes", 3, ["c", "a", "b"], [1]),
    ("hats", 1, ["a", "d"], []),
    ("shoes", 1, ["a", "b"], []),
    ("bags", 2, [], []),
    ("shoes", 2, ["a", "c"], [2]),
    ("socks", 4, ["e"], []),
    ("hats", 5, ["d", "a"], [1]),
]
MODELS: dict[str, Any] = {
    "shoes": {"items": ["a", "b", "c"], "CM": {"attraction": [0.3, 0.2, 0.6]}},
    "hats": {"items": ["d", "z"], "CM": {"attraction": [0.4, 0.1]}},
}


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Lists in another order than that of time, one of them empty."""
    values = ", ".join(f"('{q}', {t}, {r}::VARCHAR[], {c}::SMALLINT[])" for q, t, r, c in ROWS)
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {values}) AS t(query, time, ranking, clicks)) TO '{path}'")
    return str(path)


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"queries": MODELS}))
    return str(path)


def test_queries_order_and_candidates(log: str) -> None:
    stream = dr.logs.query_stream(log)
    assert stream.names == ("shoes", "hats", "socks")  # most frequent first
    assert [stream.names[q] for q in stream.order] == ["hats", "shoes", "shoes", "shoes", "socks", "hats"]
    candidates = [stream.items[i] for i in stream.pairs]
    # the sum of 1/position: a 1 + 1 + 1/2, c 1/2 + 1, b 1/2 + 1/3; a and d 3/2 each
    assert [candidates[b:e] for b, e in pairwise(stream.begins)] == [["a", "c", "b"], ["a", "d"], ["e"]]
    assert not stream.known
    assert dr.logs.query_stream(dr.logs.open_log(log)) == stream


def test_attraction_of_a_models_file(log: str, models: str) -> None:
    stream = dr.logs.query_stream(log, models)
    assert stream.attraction[:4].tolist() == pytest.approx([0.3, 0.6, 0.2, np.nan], nan_ok=True)
    assert stream.attraction[4:].tolist() == pytest.approx([0.4, np.nan], nan_ok=True)
    alone = dr.logs.query_stream(models)
    assert alone.names == ("shoes", "hats")
    assert alone.attraction.tolist() == [0.3, 0.2, 0.6, 0.4, 0.1]
    assert not len(alone.order)
    counts = Traffic(stream=alone, K=1, zipf=2.0).run().counts(1000)
    assert counts[0] == pytest.approx(800, abs=60)


def test_items_without_ids_belong_to_their_query(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"queries": {name: {"CM": {"attraction": [0.3, 0.2]}} for name in "ab"}}))
    assert dr.logs.query_stream(path).items == ("a#0", "a#1", "b#0", "b#1")


def test_what_a_generated_log_gives_back(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    dr.logs.generate(path, dr.environments.Stationary(dr.queries.yandex_like(3), k=4), 150)
    stream = dr.logs.query_stream(path)
    assert (len(stream), len(stream.order), stream.sizes.tolist()) == (3, 150, [10, 10, 10])
    result = dr.simulate("CascadeUCB1", Traffic(stream=stream, K=2), horizon=300, progress=False)
    assert result.complete


def test_on_the_command_line(log: str, models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "simulate", "--policy", "CascadeUCB1", "--env", "Traffic:K=2,stream=log.parquet,models=models.json",
        "--horizon", "60", "--runs", "2", "--out", "out", "--quiet",
    ]  # fmt: skip
    assert run(words) == 0
    text = Path("out/run.toml").read_text()
    assert f"stream={log}" in text
    assert f"models={models}" in text
    summary = json.loads(Path("out/summary.json").read_text())
    assert [g["lists"] for g in summary["policies"]["CascadeUCB1"]["by_age"]] == [30, 30]  # 30, 20 and 10 of a query
    assert run(["simulate", "--config", "out/run.toml", "--out", "again", "--quiet"]) == 0
    again = json.loads(Path("again/summary.json").read_text())
    assert again["policies"]["CascadeUCB1"]["regret"] == summary["policies"]["CascadeUCB1"]["regret"]
    Path("models.json").write_text(json.dumps({"queries": {"shoes": MODELS["shoes"]}}))
    assert run([*words, "--resume"]) == 2  # the file has changed


def test_a_click_model_chooses_the_attraction(log: str, tmp_path: Path) -> None:
    both = {"items": ["a"], "CM": {"attraction": [0.3]}, "PBM": {"attraction": [0.6], "examination": [1.0, 0.5]}}
    (tmp_path / "both.json").write_text(json.dumps({"queries": {"shoes": both}}))
    for click_model, expected in (("", 0.3), ("PBM:examination=0.5", 0.6), ("DBN", 0.3)):
        env = f"Traffic:stream={log},models={tmp_path / 'both.json'},K=1"
        world = EnvironmentSettings(env=env, click_model=click_model).environment()
        assert isinstance(world, Traffic)
        assert world.stream is not None
        assert world.stream.attraction[0] == expected
        assert type(world.users()).__name__ == (click_model.partition(":")[0] or "Readers")


def test_settings_name_files_absolutely(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = EnvironmentSettings(env="Traffic:stream=log.parquet,K=1")
    assert settings.env == f"Traffic:K=1,stream={log}"
    assert settings.environment() == Traffic(stream=dr.logs.query_stream(log), K=1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Traffic:stream=nowhere.parquet", "nowhere.parquet: no such file"),
        ("Traffic:stream=nowhere.json", "nowhere.json: cannot be read"),
        ("Traffic:models=models.json", "models='models.json': must be given with a stream"),
        ("Traffic:stream=models.json,models=models.json", "must be left out, the stream is a models file itself"),
        ("Traffic:stream=other.parquet", "no column query"),
        ("Traffic:stream=log.parquet,K=4", "K=4: must be an integer from 1 to 3"),
        ("Traffic:stream=log.parquet,models=foreign.json", "has no query and item of log.parquet"),
        ("Traffic:stream=empty.parquet", "empty.parquet: has no list with items"),
        ("Abrupt:stream=log.parquet", "unknown parameter of Abrupt 'stream'"),
    ],
)
def test_bad_files(
    log: str, models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    duckdb.sql("COPY (SELECT 1 AS x) TO 'other.parquet'")
    duckdb.sql("COPY (SELECT * FROM 'log.parquet' WHERE query = 'bags') TO 'empty.parquet'")
    Path("foreign.json").write_text(json.dumps({"queries": {"gloves": MODELS["shoes"]}}))
    with pytest.raises(ValueError, match=message):
        environment_of(spec, **({"queries": [[0.5, 0.4]], "k": 1} if spec.startswith("Abrupt") else {}))
