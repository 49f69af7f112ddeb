"""simulate() and what it returns."""

from __future__ import annotations

import json

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import MEASURES
from driftrank.experiments import Result
from driftrank.experiments.simulation.labels import labels_of
from driftrank.experiments.simulation.simulate import checkpoint_steps

ENV = dr.environments.Abrupt(
    {"one": [0.7, 0.5, 0.3, 0.2, 0.1], "two": [0.1, 0.9, 0.2, 0.4, 0.3, 0.2]}, k=2, period=250, n_boosted=2
)


@pytest.fixture(scope="module")
def result() -> Result:
    policies = ["CascadeSWUCB:window=100", "CascadeSWUCB:window=300", "DynamicOracle", "StaticOracle", "Random"]
    return dr.simulate(policies, ENV, horizon=1000, runs=3, seed=2, checkpoints=7, progress=False)


def test_queries_of_different_sizes_run_together(result: Result) -> None:
    assert result.complete
    assert result.values.shape == (len(MEASURES), 5, 2, 3, len(result.checkpoints))


def test_checkpoints_hold_every_breakpoint_and_the_horizon(result: Result) -> None:
    assert {250, 500, 750, 1000} <= set(result.checkpoints.tolist())
    assert result.breakpoints == [250, 500, 750]
    assert checkpoint_steps(1000, [10, 20], result.breakpoints) == (10, 20, 250, 500, 750, 1000)


def test_labels_tell_policies_apart(result: Result) -> None:
    assert result.labels[:3] == ["CascadeSWUCB:window=100", "CascadeSWUCB:window=300", "DynamicOracle"]
    assert labels_of([dr.CascadeSWUCB(window=100), dr.Random()]) == ["CascadeSWUCB:window=100", "Random"]
    with pytest.raises(ValueError, match="occurs twice"):
        labels_of([dr.Random(), dr.Random()])


def test_the_dynamic_oracle_has_no_regret_and_the_static_one_some(result: Result) -> None:
    assert result.regret("DynamicOracle") == 0.0
    assert result.regret("DynamicOracle") < result.regret("StaticOracle") < result.regret("Random")


def test_regret_and_reward_add_up_to_the_optimum(result: Result) -> None:
    optimum = result.values[0] + result.values[1]
    assert np.allclose(optimum, optimum[result.labels.index("DynamicOracle")][None], rtol=1e-12)


def test_realised_regret_uses_the_clicks_that_came(result: Result) -> None:
    expected, came = result.curve("Random")[0], result.curve("Random", "realised")[0]
    assert not np.array_equal(expected, came)
    assert came[-1] == pytest.approx(expected[-1], rel=0.1)


def test_standard_errors_are_over_queries(result: Result) -> None:
    totals = result.values[0, result.labels.index("Random"), :, :, -1].mean(axis=1)
    mean, error = result.between("Random")
    assert mean == pytest.approx(totals.mean())
    assert error == pytest.approx(totals.std(ddof=1) / np.sqrt(2))


def test_between_two_checkpoints(result: Result) -> None:
    whole = result.regret("Random")
    assert result.regret("Random", 0, 250) + result.regret("Random", 250) == pytest.approx(whole)
    with pytest.raises(ValueError, match="not one of the checkpoints"):
        result.regret("Random", 0, 251)
    with pytest.raises(ValueError, match="start=500: must not be after end=250"):
        result.regret("Random", 500, 250)


def test_paired_comparison(result: Result) -> None:
    mean, error = result.compare("Random", "StaticOracle")
    assert mean == pytest.approx(result.regret("Random") - result.regret("StaticOracle"))
    assert error > 0
    assert result.compare("Random", "Random") == (0.0, 0.0)


def test_save_and_load(result: Result, tmp_path) -> None:
    again = Result.load(result.save(tmp_path / "out"))
    assert np.array_equal(again.values, result.values)
    assert again.summary() == result.summary()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["complete"] is True
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("damage", ["missing", "truncated", "foreign"])
def test_load_says_what_is_wrong(result: Result, tmp_path, damage: str) -> None:
    folder = result.save(tmp_path / "out")
    target = folder / "results.parquet"
    if damage == "missing":
        target.unlink()
    elif damage == "truncated":
        target.write_bytes(target.read_bytes()[:100])
    else:
        (folder / "summary.json").write_text('{"policies": {}}')
    with pytest.raises(ValueError, match="does not hold a readable result"):
        Result.load(folder)


def test_long_form(result: Result) -> None:
    table = result.to_arrow()
    assert table.column_names == ["policy", "query", "run", "step", *MEASURES]
    assert table.num_rows == 5 * 2 * 3 * len(result.checkpoints)
    frame = result.to_frame()
    last = frame[(frame.policy == "Random") & (frame.step == 1000)]
    assert last.groupby("query", observed=True).regret.mean().mean() == pytest.approx(result.regret("Random"))


def test_alarms_are_told_where_any_were_raised(result: Result) -> None:
    assert "alarms" not in result.table().columns
    assert "detection" not in result.summary()["policies"]["Random"]
    env = dr.environments.Abrupt([[0.1] * 3 + [0.0] * 7], k=3, period=1000)
    found = dr.simulate(["CascadeRegimeTS", "Random"], env, horizon=4000, runs=2, progress=False)
    of = {name: found.between("CascadeRegimeTS", measure=name)[0] for name in MEASURES}
    assert of["detected"] == 3
    rows = {row[0]: row[-3:] for row in found.table().rows}
    assert rows["CascadeRegimeTS"] == (of["alarms"], of["false_alarms"], of["delay"] / 3)
    assert np.isnan(rows["Random"]).all()
    assert found.summary()["policies"]["CascadeRegimeTS"]["detection"]["delay"] == of["delay"] / 3


def test_table_sorts_from_best_to_worst(result: Result) -> None:
    table = result.table()
    assert table.rows[0][0] == "DynamicOracle"
    assert [row[1] for row in table.rows] == sorted(row[1] for row in table.rows)
    assert "Random" in str(table)
    assert table.to_markdown().count("\n") == 2 + 5
    assert table.to_csv().splitlines()[0].startswith("policy,")
    assert r"\toprule" in table.to_latex()
    assert "<td" in table.to_html()


def test_plot_returns_axes_with_every_policy_and_breakpoint(result: Result) -> None:
    from driftrank.reporting.plot_style import new_figure

    ax = result.plot(new_figure().add_subplot())
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(result.labels) <= set(names)
    assert sum(line.get_xdata()[0] in (250, 500, 750) and len(set(line.get_xdata())) == 1 for line in ax.lines) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon=0"),
        ({"runs": 0}, "runs=0"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": 0}, "threads=0"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"checkpoints": [2000]}, "checkpoints=2000"),
        ({"policies": []}, "policies"),
        ({"policies": ["CascadeSWUBC"]}, "did you mean CascadeSWUCB"),
    ],
)
def test_bad_values(changes: dict, message: str) -> None:
    arguments = {"policies": ["Random"], "horizon": 100, "runs": 1, "progress": False} | changes
    with pytest.raises(ValueError, match=message):
        dr.simulate(arguments.pop("policies"), ENV, **arguments)


def test_progress_is_shown_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    dr.simulate(["Random"], ENV, horizon=500, runs=2, progress=True)
    assert "Random" in capsys.readouterr().err
    dr.simulate(["Random"], ENV, horizon=500, runs=2, progress=False)
    assert capsys.readouterr().err == ""


def test_table_for_the_terminal(result: Result) -> None:
    from rich.console import Console

    with (console := Console(width=120)).capture() as shown:
        console.print(result.table())
    assert "DynamicOracle" in shown.get()
