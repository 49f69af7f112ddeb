from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute
import pyarrow.parquet
import pytest

import driftrank as dr
from driftrank.engine import MEASURES, devices
from driftrank.environments import Abrupt, Environment, Stationary
from driftrank.experiments import Sweep, simulate, sweep
from driftrank.experiments.simulation.folder import Interrupted, Journal
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from tests.quick import others_are_slow

GRID = "CascadeSWUCB:window=geom(10,1000,5),epsilon={0.1;0.5}"
QUERIES = [[0.9, 0.5, 0.3, 0.2, 0.1, 0.05], [0.1, 0.2, 0.3, 0.4, 0.5], [0.3, 0.6, 0.1, 0.1, 0.2, 0.4]]
HOW: dict[str, Any] = {"horizon": 600, "runs": 3, "seed": 7, "progress": False}
#: all settings of a test that changes grids: what simulate runs
WINDOWS = [10, 32, 100, 316, 1000]
SPECS = [CascadeSWUCB(window=window, epsilon=epsilon).spec for window in WINDOWS for epsilon in (0.1, 0.5)]


def abrupt(period: int = 200) -> Environment:
    return Abrupt(QUERIES, k=2, period=period, n_boosted=2)


@pytest.fixture(scope="module")
def one() -> Sweep:
    return sweep([GRID, "CascadeTS"], abrupt(), **HOW)


@pytest.fixture(scope="module")
def several() -> Sweep:
    return sweep([GRID, "CascadeTS"], [abrupt(100), abrupt(300), Stationary(QUERIES, k=2)], **HOW)


# -- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_simulate(one: Sweep) -> None:
    """To the last bit, and in all measures."""
    result = simulate([*SPECS, "CascadeSWUCB", "CascadeTS"], abrupt(), checkpoints=[*range(60, 601, 60)], **HOW)
    own = one.trials[0].result
    assert own.checkpoints.tolist() == list(range(60, 601, 60))  # and no breakpoints
    kept = np.isin(result.checkpoints, own.checkpoints)
    for spec, place in one.places.items():
        assert (own.values[:, place] == result.values[:, result.specs.index(spec)][..., kept]).all()
    assert set(one.places) == set(result.specs)
    estimates = one.regret("CascadeSWUCB")
    for i, spec in enumerate(SPECS):
        assert estimates.mean[i] == pytest.approx(result.between(spec)[0], rel=1e-12)
        assert estimates.error[i] == pytest.approx(result.between(spec)[1], rel=1e-12)
        mean, error = one.difference(spec, "CascadeSWUCB")
        assert (mean, error) == pytest.approx(result.compare(spec, "CascadeSWUCB"), rel=1e-9)


def test_one_query_has_errors_over_its_runs() -> None:
    env = Abrupt(QUERIES[:1], k=2, period=200, n_boosted=2)
    found = sweep("CascadeSWUCB:window={20;200}", env, **HOW)
    result = simulate(["CascadeSWUCB:window=20", "CascadeSWUCB:window=200"], env, **HOW)
    expected = [result.between(label) for label in result.labels]
    estimates = found.regret("CascadeSWUCB")
    assert [*zip(estimates.mean, estimates.error, strict=True)] == [pytest.approx(pair, rel=1e-12) for pair in expected]


def test_threads_change_nothing(one: Sweep) -> None:
    again = sweep([GRID, "CascadeTS"], abrupt(), threads=1, **HOW)
    assert again.to_arrow().equals(one.to_arrow())


def test_best(one: Sweep) -> None:
    means = one.regret("CascadeSWUCB").mean
    best = one.best("CascadeSWUCB")
    i = int(means.argmin())
    assert best.spec == SPECS[i]
    assert best.parameters == {"window": best.make().window, "epsilon": best.make().epsilon}
    assert (best.regret, best.settings, best.environment) == (means[i], 10, None)
    assert dataclasses.replace(best, environment="Abrupt") == one.best("CascadeSWUCB", "Abrupt")
    within = 0
    for spec in SPECS:
        mean, error = one.difference(spec, best.spec)
        within += spec != best.spec and mean <= error
    assert best.ties == within
    # the windows theory recommends, and what it costs to take them
    assert best.recommended == {"window": math.ceil(2 * math.sqrt(600 * math.log(600))), "epsilon": 0.5}
    assert (best.saved, best.saved_error) == one.difference("CascadeSWUCB", best.spec)
    assert best.reference - best.regret == pytest.approx(best.saved)


def test_best_of_all_policies(one: Sweep) -> None:
    own = [one.best(policy) for policy in one.policies]
    best = one.best()
    assert best.regret == min(b.regret for b in own)
    assert best.settings == 11
    assert one.best("CascadeTS").parameters == {}
    assert math.isnan(one.best("CascadeTS").saved)  # it has nothing else to be compared with


def test_best_in_each_environment_and_in_all(several: Sweep) -> None:
    assert several.environments == ["Abrupt:period=100", "Abrupt:period=300", "Stationary"]
    each = [several.regret("CascadeSWUCB", name) for name in several.environments]
    together = several.regret("CascadeSWUCB")
    assert together.mean == pytest.approx(np.mean([e.mean for e in each], axis=0))
    assert together.error == pytest.approx(np.mean([e.error for e in each], axis=0))
    assert together.runs.tolist() == [27] * 10
    assert several.best("CascadeSWUCB").spec == SPECS[int(together.mean.argmin())]
    for name, estimates in zip(several.environments, each, strict=True):
        assert several.best("CascadeSWUCB", name).spec == SPECS[int(estimates.mean.argmin())]


def test_numbers_of_an_environment_do_not_depend_on_the_others(several: Sweep) -> None:
    alone = sweep([GRID, "CascadeTS"], abrupt(300), **HOW)
    assert (alone.trials[0].result.values == several.trial("Abrupt:period=300").result.values).all()


def test_table(one: Sweep, several: Sweep) -> None:
    assert [row[0] for row in one.table().rows] == [
        best.policy for best in sorted((one.best(p) for p in one.policies), key=lambda b: b.regret)
    ]
    text = str(one.table())
    assert f"window={one.best('CascadeSWUCB').parameters['window']}" in text
    assert "window=124, epsilon=0.5" in text  # what theory recommends
    assert len(several.table().rows) == 6
    assert several.table().columns[0] == "environment"
    assert len(several.settings().rows) == 3 * 11
    assert several.settings().columns == (
        "environment", "environment.period", "policy", "setting", "window", "epsilon", "regret", "se", "runs",
    )  # fmt: skip


@pytest.mark.slow
def test_recommended_value_where_queries_differ_is_the_median() -> None:
    """The exploration of GLRT depends on the number of items, which is 6, 5 and 6."""
    found = sweep("GLRTCascadeKLUCB:explore={0.01;0.1}", abrupt(), **HOW | {"horizon": 50, "runs": 1})
    assert found.recommended("GLRTCascadeKLUCB")["explore"] == pytest.approx(math.sqrt(6 * math.log(50) / 50))


def test_unknown_names(one: Sweep) -> None:
    for call in (
        lambda: one.best("CascadeSWUBC"),
        lambda: one.best(environment="Abrupd"),
        lambda: one.difference("CascadeSWUCB:window=11", "CascadeSWUCB"),
        lambda: one.plot("windw"),
    ):
        with pytest.raises(ValueError, match="unknown"):
            call()


# -- rows ----------------------------------------------------------------------------------------------------------


def test_parameters_are_columns(several: Sweep) -> None:
    rows = several.to_arrow()
    names = ["environment", "environment.period", "policy", "setting", "window", "epsilon", "query", "run", "step"]
    assert rows.column_names == [*names, *MEASURES]
    assert [str(rows.schema.field(name).type) for name in ("environment.period", "window", "epsilon")] == [
        "int64", "int64", "double",
    ]  # fmt: skip
    assert len(rows) == 3 * 12 * 3 * 3 * 10  # environments, settings with theory's, queries, runs, checkpoints
    frame = rows.to_pandas()
    own = frame[(frame.policy == "CascadeSWUCB") & (frame.window == 32) & (frame.epsilon == 0.1)]
    assert set(own.setting) == {"CascadeSWUCB:window=32,epsilon=0.1"}
    assert len(own) == 3 * 3 * 3 * 10
    final = own[(own.step == 600) & (own["environment.period"] == 300)]
    i = SPECS.index("CascadeSWUCB:window=32,epsilon=0.1")
    assert final.regret.mean() == pytest.approx(several.regret("CascadeSWUCB", "Abrupt:period=300").mean[i])
    assert set(frame[frame.setting == "CascadeSWUCB"].window.isna()) == {True}  # left to the policy
    assert set(frame[frame.policy == "CascadeTS"].window.isna()) == {True}
    assert set(frame[frame.environment == "Stationary"]["environment.period"].isna()) == {True}


@pytest.mark.slow
def test_kinds_of_columns() -> None:
    specs = ["CascadeSWUCB:restart={true;false}", "CascadeSWTS:window={auto;50}", "CascadeDTS:a0={1;2.5}"]
    found = sweep(specs, abrupt(), **HOW | {"horizon": 20, "runs": 1})
    types = {field.name: str(field.type) for field in found.to_arrow().schema}
    assert (types["restart"], types["a0"]) == ("bool", "double")
    assert types["window"].startswith("dictionary<values=string")
    rows = found.to_frame()
    assert set(rows[rows.policy == "CascadeSWTS"].window) == {"auto", "50"}
    # the default is one of the settings, and is not there twice
    assert rows[rows.policy == "CascadeSWUCB"].restart.value_counts().to_dict() == {True: 30, False: 30}


def test_a_setting_of_two_grids_runs_once_and_is_in_both() -> None:
    specs = ["CascadeSWUCB:window={50;100}", "CascadeSWUCB:window={100;200},epsilon={0.1;0.5}"]
    found = sweep(specs, abrupt(), **HOW | {"horizon": 20})
    assert len(found.places) == 6 + 1 - 1  # that of window 100 and epsilon 0.5 is common, and so is the reference
    rows = found.to_frame()
    assert rows[rows.setting == "CascadeSWUCB:window=100"].policy.nunique() == 2


def test_save_and_load(several: Sweep, tmp_path: Path) -> None:
    several.save(tmp_path)
    again = Sweep.load(tmp_path)
    assert again.to_arrow().equals(several.to_arrow())
    assert again.summary() == several.summary()
    assert str(again.table()) == str(several.table())
    assert {path.name for path in tmp_path.iterdir()} == {"results.parquet", "summary.json", "settings.csv"}
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)  # no NaN
    with pytest.raises(ValueError, match="does not hold a readable sweep"):
        Sweep.load(tmp_path / "nothing")


def test_large_sweeps_are_written_in_parts(one: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = one.to_arrow()
    monkeypatch.setattr("driftrank.experiments.sweeps.long_form.ROWS", 300)
    one.save(tmp_path)
    file = pyarrow.parquet.ParquetFile(tmp_path / "results.parquet")
    assert file.num_row_groups > 3
    assert file.read().to_pylist() == whole.to_pylist()
    assert Sweep.load(tmp_path).to_arrow().num_rows == whole.num_rows


def test_plain_objects() -> None:
    found = sweep([CascadeSWUCB(window=w) for w in (20, 200)], {"mine": abrupt()}, **HOW)
    assert found.environments == ["mine"]
    assert found.family("CascadeSWUCB").parameters == ("window",)
    assert found.best().parameters in ({"window": 20}, {"window": 200})


# -- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "environments", "changes", "message"),
    [
        ("CascadeTS", abrupt(), {}, "nothing is swept"),
        ([], abrupt(), {}, "policies: must name at least one"),
        (GRID, [], {}, "environments: must name at least one"),
        (GRID, abrupt(), {"horizon": 0}, "horizon=0"),
        (GRID, abrupt(), {"runs": 0}, "runs=0"),
        (GRID, abrupt(), {"threads": 0}, "threads=0"),
        (GRID, abrupt(), {"device": "abacus"}, "device='abacus'"),
        (GRID, abrupt(), {"checkpoints": 0}, "checkpoints=0"),
        ([GRID, GRID], abrupt(), {}, "occurs twice"),
        (GRID, [abrupt(), abrupt()], {}, "Abrupt occurs twice"),
    ],
)
def test_bad_values(policies: Any, environments: Any, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        sweep(policies, environments, folder=tmp_path / "new", **HOW | changes)
    assert not (tmp_path / "new").exists()


def test_only_the_environment_may_be_swept() -> None:
    found = sweep("CascadeTS", [abrupt(100), abrupt(300)], **HOW | {"horizon": 100})
    assert found.best().parameters == {}


# -- folders -------------------------------------------------------------------------------------------------------


def go(folder: Path, **changes: Any) -> Sweep:
    given = {"policies": [GRID, "CascadeTS"], "environments": [abrupt(100), abrupt(300)]} | HOW | changes
    policies, environments = given.pop("policies"), given.pop("environments")
    return sweep(policies, environments, folder=folder, **given)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def rows(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


FILES = {"results.parquet", "summary.json", "settings.csv", "run.toml", "report.html"}
FILES |= {"sweep-CascadeSWUCB-window-epsilon.png"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    go(folder)
    return folder


def interrupt_after(monkeypatch: pytest.MonkeyPatch, units: int, error: type[BaseException]) -> None:
    """Every unit of work is one run, and it ends when some are finished."""
    monkeypatch.setitem(devices.UNIT_STEPS, "cpu", 600)
    add, count = Journal.add, 0

    def counted(self: Journal, *args: Any) -> None:
        nonlocal count
        count += 1
        if count > units:
            raise error("stop")
        add(self, *args)

    monkeypatch.setattr(Journal, "add", counted)


def test_folder(whole: Path, several: Sweep) -> None:
    assert names(whole) == FILES
    assert Sweep.load(whole).environments == several.environments[:2]


@pytest.mark.parametrize("halving", [False, True])
@pytest.mark.parametrize("units", others_are_slow([1, 40, 150], [40]))
def test_interrupted_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: int, halving: bool) -> None:
    """In the first environment or in the second."""
    how: dict[str, Any] = {"halving": halving, "runs": 8 if halving else 3}
    with monkeypatch.context() as patch:
        interrupt_after(patch, units, KeyboardInterrupt)
        with pytest.raises(Interrupted, match="runs are kept in") as stop:
            go(tmp_path, threads=1, **how)
    assert stop.value.finished >= units
    assert names(tmp_path) == {"run.toml", "parts"}
    with monkeypatch.context() as patch:
        made: list[Any] = []
        add = Journal.add
        patch.setattr(Journal, "add", lambda self, *args: made.append(args) or add(self, *args))
        found = go(tmp_path, resume=True, **how)
    again = sum(len(args[0].runs) for args in made)
    assert again == found.runs[0] - stop.value.finished  # none is made twice
    assert names(tmp_path) == FILES
    go(tmp_path / "whole", **how)
    assert rows(tmp_path).equals(rows(tmp_path / "whole"))


def test_an_error_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 30, OSError)
        with pytest.raises(OSError, match="stop"):
            go(tmp_path, threads=1)
    assert names(tmp_path) == {"run.toml", "parts"}
    go(tmp_path, resume=True)
    assert rows(tmp_path).equals(rows(whole))


def test_nothing_finished_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path, policies="CascadeSWUCB:window={20;30}")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    interrupt_after(monkeypatch, 0, KeyboardInterrupt)
    with pytest.raises(Interrupted, match="0 of "):
        go(tmp_path, threads=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_interrupted_over_another_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old numbers would not go with the new settings; nor would old figures."""
    go(tmp_path, policies="CascadeSWUCB:window={20;30}")
    assert (tmp_path / "sweep-window.png").exists()
    interrupt_after(monkeypatch, 5, KeyboardInterrupt)
    with pytest.raises(Interrupted):
        go(tmp_path, threads=1)
    assert names(tmp_path) == {"run.toml", "parts"}


def test_more_runs(whole: Path, tmp_path: Path) -> None:
    go(tmp_path, runs=2)
    earlier = rows(tmp_path)
    found = go(tmp_path, runs=3, resume=True)
    assert rows(tmp_path).equals(rows(whole))
    kept = rows(tmp_path).filter(pyarrow.compute.less(rows(tmp_path)["run"], 2))
    assert kept.to_pylist() == earlier.to_pylist()
    assert found.trials[0].result.runs == 3


def test_finished_sweep_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path) -> None:
    go(tmp_path)
    monkeypatch.setattr(Journal, "add", lambda *_: pytest.fail("ran again"))
    assert go(tmp_path, resume=True).to_arrow().equals(Sweep.load(whole).to_arrow())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, "begun with seed=7, now it is 8"),
        ({"policies": GRID}, "begun with policy="),
        ({"environments": [abrupt(100), abrupt(301)]}, "begun with env="),
        ({"environments": [Abrupt(QUERIES[:2], k=2, period=p, n_boosted=2) for p in (100, 300)]}, "queries_digest"),
        ({"runs": 2}, "begun with runs=3, now it is 2"),
        ({"checkpoints": 5}, "begun with checkpoints=10, now it is 5"),
    ],
)
def test_other_sweeps_are_not_continued(whole: Path, changes: dict[str, Any], message: str) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(ValueError, match="cannot be continued") as raised:
        go(whole, resume=True, **changes)
    assert message in str(raised.value)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_progress_reaches_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where runs are dropped, or were there before."""
    from driftrank.progress import Progress

    seen: list[Progress] = []

    class Counted(Progress):
        def __init__(self, totals: Any) -> None:
            super().__init__(totals)
            self.done = dict.fromkeys(totals, 0)
            seen.append(self)

        def advance(self, label: str, steps: int, counted: bool | int = True) -> None:
            self.done[label] += steps

    monkeypatch.setattr(sys.modules["driftrank.experiments.sweeps.sweep"], "chosen_progress", lambda _, t: Counted(t))
    sweep([GRID, "CascadeTS"], abrupt(), halving=True, **HOW | {"runs": 8})
    go(tmp_path, runs=2)
    go(tmp_path, resume=True)
    lines = [list(bars.totals) for bars in seen]
    assert lines == [["CascadeSWUCB", "CascadeTS"], *[["Abrupt:period=100", "Abrupt:period=300"]] * 2]
    assert all(bars.done == bars.totals for bars in seen)  # type: ignore[attr-defined]


def test_shorthand() -> None:
    assert dr.sweep is sweep
    assert dataclasses.is_dataclass(Sweep)


def test_a_cluster_changes_nothing(one: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = sweep([GRID, "CascadeTS"], abrupt(), device=devices.Cluster(workers=2), folder=tmp_path, **HOW)
    assert found.to_arrow().equals(one.to_arrow())
    assert Sweep.load(tmp_path).trials[0].result.device == "cluster"
