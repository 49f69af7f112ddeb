from __future__ import annotations

import dataclasses
import errno
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from driftrank.engine import Unit
from driftrank.engine.devices import UNIT_STEPS
from driftrank.environments import Abrupt, Environment
from driftrank.experiments import Result, simulate, sweep
from driftrank.experiments.simulation import folder as run_folder
from driftrank.experiments.simulation import simulate as simulation
from driftrank.experiments.simulation.folder import IDENTIFYING, Interrupted, Journal

POLICIES = ["CascadeUCB1", "Random"]
SETTINGS = {"policy": POLICIES, "env": "Abrupt", "horizon": 300, "runs": 4, "threads": 1}


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Abrupt([[0.9, 0.5, 0.3, 0.2, 0.1, 0.05], [0.1, 0.2, 0.3, 0.4, 0.5]], k=2, period=100, n_boosted=2)


def go(environment: Environment, folder: Path, **changes: Any) -> Result:
    given: dict[str, Any] = {"horizon": 300, "runs": 4, "seed": 7, "checkpoints": 5, "settings": SETTINGS}
    return simulate(POLICIES, environment, folder=folder, progress=False, **given | changes)


@pytest.fixture(scope="module")
def whole(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    go(environment, folder)
    return folder


def table(folder: Path) -> Any:
    return pyarrow.parquet.read_table(folder / "results.parquet").replace_schema_metadata(None)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def interrupt_after(
    monkeypatch: pytest.MonkeyPatch, units: int, error: type[BaseException] = KeyboardInterrupt, runs: int = 1
) -> None:
    """Every unit of work has so many runs, and Ctrl-C comes when some units are finished."""
    # one thread and small units, so that there is something left to interrupt
    monkeypatch.setitem(UNIT_STEPS, "cpu", 300 * runs)
    add, count = Journal.add, 0

    def counted(self: Journal, *args: Any) -> None:
        nonlocal count
        count += 1
        if count > units:
            raise error
        add(self, *args)

    monkeypatch.setattr(Journal, "add", counted)


def test_folder_holds_the_settings_and_the_numbers(whole: Path, environment: Environment) -> None:
    assert names(whole) == {"run.toml", "results.parquet", "summary.json", "regret.png", "report.html"}
    assert (whole / "regret.png").read_bytes().startswith(b"\x89PNG")
    settings = tomllib.loads((whole / "run.toml").read_text())
    assert {key: settings[key] for key in SETTINGS} == SETTINGS
    result = Result.load(whole)
    assert result.complete
    assert result.labels == POLICIES
    assert json.loads((whole / "summary.json").read_text())["complete"] is True
    assert set(environment.breakpoints(300)) <= set(result.checkpoints.tolist())


@pytest.mark.parametrize("units", [1, 3, 15])
def test_interrupted_and_continued_is_as_if_never_interrupted(
    environment: Environment, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: int
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, units)
        with pytest.raises(Interrupted, match=rf"{units} of 16 runs are kept in .*{tmp_path.name}"):
            go(environment, tmp_path, threads=1)
    partial = Result.load(tmp_path)
    assert not partial.complete
    assert (~np.isnan(partial.values[0, ..., -1])).sum() == units
    assert json.loads((tmp_path / "summary.json").read_text())["complete"] is False
    assert names(tmp_path) == {"run.toml", "results.parquet", "summary.json"}
    result = go(environment, tmp_path, resume=True, threads=2)
    assert result.complete
    assert table(tmp_path).equals(table(whole))
    assert np.array_equal(result.values, Result.load(whole).values)
    assert result.stepped == [2 * 4 * 300] * 2  # every step was simulated once


def test_only_what_is_missing_is_simulated(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 5)
        with pytest.raises(Interrupted):
            go(environment, tmp_path, threads=1)
    added: list[tuple[int, ...]] = []
    add = Journal.add

    def noted(self: Journal, unit: Unit, *args: Any) -> None:
        added.append(unit.runs)
        add(self, unit, *args)

    monkeypatch.setattr(Journal, "add", noted)
    go(environment, tmp_path, resume=True)
    assert sum(map(len, added)) == 16 - 5


@pytest.mark.parametrize("runs", [1, 2])
def test_parts_survive_a_process_that_was_killed(
    environment: Environment, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "INTERVAL", 0.0)
        interrupt_after(patch, 6, Killed, runs)
        with pytest.raises(Killed):
            go(environment, tmp_path, threads=1)
    assert len(list((tmp_path / "parts").glob("*.parquet"))) == 6
    assert not (tmp_path / "results.parquet").exists()
    (tmp_path / "parts" / ".000006.parquet.x1.parquet").write_bytes(b"PAR1 half a file")  # what it was just writing
    assert go(environment, tmp_path, resume=True).complete
    assert table(tmp_path).equals(table(whole))
    assert not (tmp_path / "parts").exists()


def test_more_runs(environment: Environment, whole: Path, tmp_path: Path) -> None:
    go(environment, tmp_path, runs=2, settings=SETTINGS | {"runs": 2})
    go(environment, tmp_path, resume=True)
    assert table(tmp_path).equals(table(whole))


def test_a_fresh_run_takes_nothing_that_lies_about(
    environment: Environment, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "INTERVAL", 0.0)
        interrupt_after(patch, 3, RuntimeError)
        with pytest.raises(RuntimeError):
            go(environment, tmp_path, threads=1, seed=8)
    assert list((tmp_path / "parts").glob("*.parquet"))
    go(environment, tmp_path)  # the settings are the same text, but the seed was another
    assert table(tmp_path).equals(table(whole))
    assert not (tmp_path / "parts").exists()


def test_results_of_another_simulation_are_not_taken_for_ours(
    environment: Environment, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation is killed in a folder that holds the results of an older one with other settings."""
    go(environment, tmp_path, seed=1, settings=SETTINGS | {"seed": 1})
    others = (tmp_path / "results.parquet").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "INTERVAL", 0.0)
        interrupt_after(patch, 2, RuntimeError)
        with pytest.raises(RuntimeError):
            go(environment, tmp_path, threads=1)
    (tmp_path / "results.parquet").write_bytes(others)  # a process that is killed cannot remove them
    go(environment, tmp_path, resume=True)
    assert table(tmp_path).equals(table(whole))


def test_nothing_finished_leaves_the_folder_as_it_was(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(environment, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    interrupt_after(monkeypatch, 0)
    with pytest.raises(Interrupted, match="0 of 16"):
        go(environment, tmp_path, seed=1, settings=SETTINGS | {"seed": 1}, threads=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_full_disk_leaves_old_results_alone(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(environment, tmp_path)
    before = (tmp_path / "results.parquet").read_bytes()

    def full(table: Any, path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        go(environment, tmp_path, seed=1)
    assert (tmp_path / "results.parquet").read_bytes() == before
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == b"half"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": SETTINGS | {"horizon": 200}}, "begun with horizon=300, now it is 200"),
        ({"settings": SETTINGS | {"policy": ["Random"]}}, "begun with policy="),
        ({"settings": SETTINGS | {"k": 1}}, "begun with k=None, now it is 1"),
        ({"settings": SETTINGS | {"env": "Drift"}}, "begun with env='Abrupt', now it is 'Drift'"),
        ({"settings": SETTINGS | {"runs": 3}, "runs": 3}, "begun with runs=4, now it is 3"),
    ],
)
def test_other_settings_are_refused(
    environment: Environment, whole: Path, changes: dict[str, Any], message: str
) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(ValueError, match="cannot be continued") as raised:
        go(environment, whole, resume=True, **changes)
    assert message in str(raised.value)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


@pytest.mark.parametrize("resume", [False, True])
def test_the_folder_of_another_kind_of_experiment_is_refused(
    environment: Environment, whole: Path, resume: bool
) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(ValueError, match="has the results of a simulation; a sweep needs a folder of its own"):
        sweep("CascadeSWUCB:window={50;100}", environment, folder=whole, horizon=300, resume=resume, progress=False)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_settings_that_determine_no_number_may_differ(environment: Environment, whole: Path) -> None:
    """What identifies a run is a positive list: a new setting does not make old folders useless."""
    assert "more" not in IDENTIFYING
    assert go(environment, whole, resume=True, settings=SETTINGS | {"more": 1, "device": "cluster"}).complete


def test_the_description_of_an_environment_identifies_it(environment: Environment, tmp_path: Path) -> None:
    """Without settings, the folder describes the arguments themselves."""
    how: dict[str, Any] = {"horizon": 300, "seed": 7, "folder": tmp_path, "progress": False}
    simulate(POLICIES, environment, **how)
    described = tomllib.loads((tmp_path / "run.toml").read_text())
    assert described["env"] == "Abrupt:k=2,period=100,n_boosted=2"
    assert described["policy"] == POLICIES
    other = dataclasses.replace(environment, period=99)
    with pytest.raises(ValueError, match="begun with env='Abrupt:k=2,period=100"):
        simulate(POLICIES, other, **how, resume=True)
    simulate(POLICIES, environment, **how, resume=True)


def test_other_queries_of_the_same_name_are_refused(whole: Path) -> None:
    other = Abrupt([[0.8, 0.5, 0.3, 0.2, 0.1, 0.05], [0.1, 0.2, 0.3, 0.4, 0.5]], k=2, period=100, n_boosted=2)
    with pytest.raises(ValueError, match="queries_digest"):
        go(other, whole, resume=True)


def test_another_version_is_refused(environment: Environment, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftrank.experiments.simulation.folder.__version__", "999")
    with pytest.raises(ValueError, match="begun with driftrank='"):
        go(environment, whole, resume=True)


def test_threads_may_differ(environment: Environment, whole: Path) -> None:
    assert go(environment, whole, resume=True, settings=SETTINGS | {"threads": 2}, threads=2).complete


def test_nothing_to_resume_begins(environment: Environment, whole: Path, tmp_path: Path) -> None:
    go(environment, tmp_path / "new", resume=True)
    assert table(tmp_path / "new").equals(table(whole))


def test_damaged_results_are_refused(environment: Environment, tmp_path: Path) -> None:
    go(environment, tmp_path)
    file = tmp_path / "results.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"results\.parquet: cannot be read"):
        go(environment, tmp_path, resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon=0"),
        ({"runs": -1}, "runs=-1"),
        ({"threads": 0}, "threads=0"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_nothing_is_made_for_bad_values(
    environment: Environment, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        go(environment, tmp_path / "new", **changes)
    assert not (tmp_path / "new").exists()


def test_a_folder_whose_labels_lack_parameters_continues(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of version 0.1.0 did."""
    policies = ["CascadeUCB1:exploration=0.5", "Random"]
    how: dict[str, Any] = {"horizon": 300, "runs": 2, "checkpoints": 5, "progress": False, "threads": 1}
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "labels_of", lambda chosen: [type(policy).__name__ for policy in chosen])
        interrupt_after(patch, 3)
        with pytest.raises(Interrupted):
            simulate(policies, environment, folder=tmp_path, **how)
    assert Result.load(tmp_path).labels == ["CascadeUCB1", "Random"]
    result = simulate(policies, environment, folder=tmp_path, resume=True, **how)
    assert result.stepped == [2 * 2 * 300] * 2
    assert result.labels == policies
    assert np.array_equal(result.values, simulate(policies, environment, **how).values)
