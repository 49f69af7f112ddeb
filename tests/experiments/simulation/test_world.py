"""The world of a result's runs, results that are repeated, and results in notebooks and papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import driftrank as dr
from driftrank.clickmodels import DBN, UBM
from driftrank.environments import Abrupt, Churn, Drift, PiecewiseRandom, Replay, Traffic
from driftrank.experiments import Result
from driftrank.experiments.simulation.environment_text import read_environment, write_environment
from driftrank.queries import Queries

LEVELS = {"one": [0.7, 0.5, 0.3, 0.2, 0.1], "two": [0.1, 0.9, 0.2, 0.4, 0.3, 0.2]}
ENV = PiecewiseRandom(LEVELS, k=2, n_breakpoints=3, horizon=300, spacing=10)


@pytest.fixture(scope="module")
def result() -> Result:
    policies = [dr.Random, "DynamicOracle", "CascadeUCB1:exploration=0.5"]
    return dr.simulate(policies, ENV, horizon=300, runs=3, seed=5, checkpoints=3, progress=False)


def test_the_world_is_that_of_the_run(result: Result) -> None:
    """The oracle's reward is the sum of the optimal values of these worlds, and not of those of seed 0."""
    for q, query in enumerate(result.queries):
        for run in range(result.runs):
            world = result.world(query, run)
            total = sum(world.optimal_value(t) for t in range(1, 301))
            assert total == pytest.approx(result.values_of("DynamicOracle", "reward")[q, run, -1])
            assert world.breakpoints() == ENV.breakpoints(300, query, run, seed=5)
            assert world.attraction(200).tolist() == ENV.attraction(200, query, run, seed=5).tolist()
            assert world.best(200) == ENV.best(200, query, run, seed=5)
            assert world.segments()[0].tolist() == ENV.stretches(300, query, run, seed=5)[0].tolist()
            assert world.variation() > 0
            assert world.present(1) == list(range(len(LEVELS[query])))
    assert result.world("two", 1).breakpoints() != ENV.breakpoints(300, "two", 1)
    with pytest.raises(ValueError, match="run=3: must be an integer from 0 to 2"):
        result.world(run=3)
    with pytest.raises(ValueError, match="query='three': not among"):
        result.world("three")


def test_a_loaded_result_is_repeated(result: Result, tmp_path: Path) -> None:
    again = Result.load(result.save(tmp_path))
    assert again.env == ENV
    assert np.array_equal(again.repeat(progress=False).values, result.values)
    more = again.repeat(runs=4, policies="Random", progress=False)
    assert np.array_equal(more.values[:, 0, :, :3, -1], result.values[:, 0, ..., -1])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["k"] == 2
    assert summary["env"] == "PiecewiseRandom:k=2,n_breakpoints=3,horizon=300,spacing=10"
    assert summary["details"]["driftrank"] == dr.__version__


def test_a_result_without_its_environment_says_so(result: Result, tmp_path: Path) -> None:
    """As those of version 0.1.0, and those whose environment is a class that was not imported."""
    path = result.save(tmp_path) / "results.parquet"
    rows = pyarrow.parquet.read_table(path)
    unknown = {"driftrank.environment": '{"environment": "Nowhere", "parameters": {}}'}
    for metadata in (None, unknown):
        pyarrow.parquet.write_table(rows.replace_schema_metadata(metadata), path)
        loaded = Result.load(tmp_path)
        assert np.array_equal(loaded.values, result.values)
        with pytest.raises(ValueError, match=r"env=None: .* import PiecewiseRandom before"):
            loaded.world()


CHANGES = {"one": ((20, (0.5,) * 5),)}


@pytest.mark.parametrize(
    "environment",
    [
        Abrupt(Queries.of(LEVELS).clicking(DBN(continuation=0.8)), k=2, period=50),
        Drift(LEVELS, k=2, shape="walk", click_model=UBM(examination=((0.5, 0.9), (0.3, 0.7)), objective="any")),
        Replay(Queries(Queries.of(LEVELS).attraction, items={"one": (7, "x", 9, 1, 2)}, changes=CHANGES), k=2),
        Churn(LEVELS, k=2, announced=False),
        Traffic(n_queries=5, candidates=4, K=2),
    ],
    ids=lambda environment: type(environment).__name__,
)
def test_environments_as_text(environment: Any) -> None:
    text = write_environment(environment)
    assert text is not None
    again = read_environment(text)
    assert again == environment
    if not environment.traffic:
        assert again.queries == environment.queries
        assert again.users() == environment.users()


def test_an_environment_that_cannot_be_written() -> None:
    stream = dr.environments.Abrupt(LEVELS, k=2, n_boosted=1)
    object.__setattr__(stream, "queries", object())
    assert write_environment(stream) is None


def test_results_show_themselves(result: Result) -> None:
    text = repr(result)
    assert text.startswith("<Result: 3 policies in PiecewiseRandom, 2 queries, 3 runs of 300 steps, seed 5>\n")
    assert "CascadeUCB1:exploration=0.5" in text
    assert "array(" not in text
    assert result._repr_html_() == result.table()._repr_html_()
    assert "<td>CascadeUCB1:exploration=0.5</td>" in result._repr_html_()


def test_latex(result: Result) -> None:
    lines = result.to_latex().splitlines()
    assert lines[:2] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    assert lines[2] == r"policy & regret after 300 steps & $\pm$ s.e. & clicks a step \\"
    assert lines[4].startswith("DynamicOracle & 0.0 & 0.0 & ")
    table = dr.experiments.Result.table(result)
    odd = type(table)(["a_b & c"], [["50% of {x} #1 ~ $"]], [None])
    assert r"a\_b \& c" in odd.to_latex()
    assert r"50\% of \{x\} \#1 \textasciitilde{} \$" in odd.to_latex()
