"""Advice from logs of known users: the choice, its gain, refusals, files that the service reads, the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.experiments.advice.advice import Advice
from driftrank.experiments.advice.advise import advise
from driftrank.experiments.advice.candidates import Candidate, candidates
from driftrank.experiments.advice.choosing import choose, crossed, gain_of, halves, weighted
from driftrank.experiments.advice.effort import effort
from driftrank.experiments.advice.worlds import changes_in, compared, hardly_known, read_tables
from driftrank.fitting.fit import models_of
from driftrank.logs.generations import Generations
from driftrank.queries import Queries
from driftrank.serve.settings.load import load_settings
from tests.reporting.page_checks import check_page

TEA = Queries(
    {
        "tea": np.array([0.5, 0.3, 0.1, 0.2, 0.05]),
        "hats": np.array([0.05, 0.4, 0.1, 0.1, 0.3]),
        "lamps": np.array([0.1, 0.1, 0.3, 0.2, 0.4]),
        "shoes": np.array([0.3, 0.2, 0.1, 0.4, 0.2]),
    },
    changes={"tea": ((700, (0.1, 0.3, 0.6, 0.2, 0.05)),)},
)
CHEAP = {"k": 2, "candidates": ["CascadeKLUCB"], "models": "CM,PBM", "budget": "8s"}


def write(path: Path, order: str, world: dr.environments.Environment | None = None, lists: int = 5000) -> Path:
    world = dr.environments.Replay(TEA, k=2) if world is None else world
    dr.logs.generate(path, world, lists, length=3, order=order, seed=3)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("advice") / "log.parquet", "shuffled")


@pytest.fixture(scope="module")
def advice(log: Path) -> Advice:
    return advise(log, **CHEAP)


@pytest.fixture(scope="module")
def fixed(log: Path) -> Path:
    return write(log.parent / "fixed.parquet", "sorted", lists=2000)


def test_a_policy_is_advised_for_random_lists(advice: Advice) -> None:
    """The true gain of the advised policy, in the world of the log, lies in the interval."""
    assert (advice.verdict, advice.grade, advice.model) == ("use", "C", "CM")
    assert advice.policy in ("PriorRegimeTS", "CascadeKLUCB")
    assert advice.changes == 1
    truth = dr.simulate([advice.policy], dr.environments.Replay(TEA, k=2), horizon=1250, runs=4, progress=False)
    shown = np.mean([_random_value(TEA[query]) for query in ("hats", "lamps", "shoes")])
    changed = np.array(TEA.changes["tea"][0][1])
    shown = (3 * shown + 0.56 * _random_value(TEA["tea"]) + 0.44 * _random_value(changed)) / 4
    gain = truth.between(advice.policy, measure="reward")[0] / 1250 - shown
    assert advice.gain is not None
    assert advice.gain.low < gain < advice.gain.high
    assert advice.gain.high - advice.gain.low < 0.1
    assert advice.logged == pytest.approx(shown, abs=0.02)


def _random_value(alpha: np.ndarray) -> float:
    pairs = [(1 - a) * (1 - b) for i, a in enumerate(alpha) for j, b in enumerate(alpha) if i != j]
    return 1 - float(np.mean(pairs))


def test_sentences(advice: Advice) -> None:
    lead, against, know = advice.sentences()
    assert lead.startswith(f"Use {advice.policy}. Expected +0.")
    assert lead.endswith("grade C: by the click model CM, not by experiment.")
    assert against == "Against it: It rests on 4 queries only."
    assert advice.next is not None
    assert know == (
        f"To know: serve it with explore = {advice.next.explore:g} and holdout = 0.2; about {advice.next.lists:,} lists"
        " tell ±0.02."
    )


def test_lists_of_a_policy_that_needs_its_own_are_not_varied(advice: Advice, tmp_path: Path) -> None:
    ranked = replace(advice, policy="RankedUCB1", trial="RankedUCB1")
    assert "To know: serve it with holdout = 0.2; about" in ranked.sentences()[-1]
    (tmp_path / "driftrank.toml").write_text(ranked.settings(), encoding="utf-8")
    settings = load_settings(tmp_path / "driftrank.toml").rankers["default"]
    assert (settings.policy, bool(settings.explore)) == ("RankedUCB1", False)


def test_propensities_are_a_second_way(advice: Advice) -> None:
    assert advice.cross_check is not None
    assert advice.cross_check.value.grade == "B"
    assert advice.gain is not None
    assert advice.cross_check.difference.low < advice.gain.high
    assert advice.cross_check.difference.high > advice.gain.low


def test_models(advice: Advice) -> None:
    """The position-based model is not plausible for users of the cascade model."""
    cascade, positions = advice.models
    assert (cascade.check.model, positions.check.model) == ("CM", "PBM")
    assert cascade.gain is not None
    assert cascade.check.usable
    assert positions.gain is None
    assert not positions.check.plausible


def test_keep_is_advised_if_nothing_is_better(tmp_path: Path) -> None:
    """All items are the same: what the fit makes of chance is found by the logs that are drawn from it."""
    world = dr.environments.Stationary({"a": [0.3] * 4, "b": [0.2] * 4, "c": [0.25] * 4}, k=2)
    found = advise(write(tmp_path / "log.parquet", "shuffled", world, 3000), **CHEAP | {"models": "CM"})
    assert found.policy is None
    assert found.verdict in ("keep", "unclear")
    assert found.gain is not None
    assert found.gain.low <= 0 <= found.gain.high
    assert found.sentences()[0].startswith("Keep what you have")
    (tmp_path / "driftrank.toml").write_text(found.settings(), "utf-8")
    assert load_settings(tmp_path / "driftrank.toml").rankers["default"].mode == "shadow"


def test_the_current_order_may_be_best(tmp_path: Path) -> None:
    """Neighbours of the best list were exchanged for nothing; the service then serves the caller's order."""
    world = dr.environments.Stationary({"a": [0.6, 0.5, 0.02, 0.02], "b": [0.7, 0.6, 0.02, 0.02]}, k=2)
    found = advise(write(tmp_path / "log.parquet", "swapped", world, 1200), **CHEAP | {"models": "CM"})
    assert (found.verdict, found.policy) == ("use", "current order")
    assert found.sentences()[0].startswith("Use the current order. Expected +0.")
    (tmp_path / "driftrank.toml").write_text(found.settings(), "utf-8")
    assert load_settings(tmp_path / "driftrank.toml").rankers["default"].mode == "shadow"


def test_fixed_logging_is_refused(fixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", str(fixed), "--k", "2", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["gain"], found["policy"], found["grade"]) == (None, None, None)
    assert found["refused"][0]["code"] == "fixed-logging"
    assert "lists that vary at the same time" in found["refused"][0]["text"]
    assert found["next"]["lists"] > 1000
    assert {(each["different"], each["items"]) for each in found["shown"]} == {(1, 3)}
    assert run(["advise", str(fixed), "--k", "2", "--report", str(tmp_path / "report")]) == 3
    shown = capsys.readouterr().out
    assert shown.startswith("No advice (fixed-logging). Every visitor for")
    assert "To know: serve PriorRegimeTS with explore = 0.5" in shown
    page = (tmp_path / "report" / "report.html").read_text()
    assert "No advice from this log" in page
    assert "users see the present order, and PriorRegimeTS learns" in page
    assert load_settings(tmp_path / "report" / "driftrank.toml").rankers["default"].mode == "shadow"


def test_a_wrong_model_gives_no_number(tmp_path: Path) -> None:
    """Users who look at the first position only, as cascade: no number, but a policy to try."""
    users = dr.clickmodels.PBM(examination=(1.0, 0.3, 0.1), objective="any")
    world = dr.environments.Stationary(TEA, k=2, click_model=users)
    found = advise(write(tmp_path / "log.parquet", "shuffled", world), **CHEAP | {"models": "CM"})
    assert (found.gain, found.grade, found.verdict) == (None, "D", "refused")
    assert found.refused[0].code in ("model-misfit", "uncalibrated")
    assert found.trial is not None
    assert found.candidates == ()


def test_items_that_were_hardly_seen(tmp_path: Path) -> None:
    found = advise(write(tmp_path / "log.parquet", "shuffled", lists=600), **CHEAP | {"models": "CM"})
    assert (found.gain, found.refused[0].code) == (None, "unseen-items")
    tables = read_tables(dr.logs.open_log(tmp_path / "log.parquet"), 10, 2, 10_000)
    worlds, _ = compared(models_of("CM"), Generations.of(tables, changes_in(tables, 10)), 2, lambda: None)
    assert 0.05 < hardly_known(worlds["CM"]) <= 1


def test_command_line(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], advice: Advice) -> None:
    """The settings start a service; figures have alternatives; the same log and seed give the same bytes."""
    options = ["--k", "2", "--policy", "CascadeKLUCB", "--model", "CM,PBM", "--budget", "8s"]
    folder, toml = tmp_path / "report", tmp_path / "driftrank.toml"
    files = ["--out", str(toml), "--report", str(folder)]
    assert run(["advise", str(log), *options, "--ranker", "shop", *files]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [*advice.sentences(), f"Config: {toml}   Report: {folder}/report.html"]
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = advice.save(tmp_path / "again", ["driftrank", "advise", str(log), *options])
    assert written == {path.name: path.read_bytes() for path in again}
    settings = load_settings(toml).rankers["shop"]
    assert (settings.policy, settings.k, settings.holdout) == (advice.policy, 2, 0.2)
    assert load_settings(folder / "driftrank.toml").rankers["default"].policy == advice.policy
    assert json.loads(written["advice.json"])["gain"] == advice.to_dict()["gain"]
    check_page(folder / "report.html", pictures=3)
    assert f"<h1>Use {advice.policy}</h1>" in written["report.html"].decode()
    assert {"over_time.png", "candidates.svg", "ladder.png"} <= set(written)


def test_wrong_input(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[server]\nport = 1\n", "utf-8")
    for options, message in (
        (["--out", str(mine)], "must be a new file, or one that driftrank advise has written"),
        (["--out", str(tmp_path / "nowhere" / "x.toml")], "there is no folder"),
        (["--budget", "soon"], "budget='soon': must be a number and a unit"),
        (["--ranker", "a b"], "ranker='a b'"),
        (["--policy", "StaticOracle"], "must not be an oracle"),
        (["--model", "XM"], "XM"),
        (["--k", "9"], "no query has 50 lists and 9 items"),
    ):
        assert run(["advise", str(log), *options]) == 2, options
        assert message in capsys.readouterr().err
    assert mine.read_text("utf-8") == "[server]\nport = 1\n"


def test_interrupt_leaves_nothing(advice: Advice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("driftrank.experiments.advice.report.figure_ladder", stop)
    with pytest.raises(KeyboardInterrupt):
        advice.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- the choice ----------------------------------------------------------------------------------------------------

FOUR = [Candidate("keep"), Candidate("current order"), *candidates(["CascadeTS", "CascadeSWTS:window=500"])[2:]]
LISTS = np.full(8, 100.0)


def _values(**gains: float) -> np.ndarray:
    noise = np.linspace(-0.01, 0.01, 8)
    rows = [np.full(8, 0.3), *(0.3 + gains[name] + noise * (1 + n) for n, name in enumerate(sorted(gains)))]
    return np.array(rows)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({"a": -0.1, "b": 0.05, "c": 0.052, "d": 0.052}, 2),  # nothing beats the default clearly
        ({"a": -0.1, "b": 0.05, "c": 0.10, "d": 0.02}, 3),
        ({"a": -0.1, "b": 0.05, "c": 0.10, "d": 0.1001}, 3),  # the simpler of two that are as good
        ({"a": -0.1, "b": 0.05, "c": 0.10, "d": 0.15}, 4),
        ({"a": -0.1, "b": -0.05, "c": -0.049, "d": -0.05}, 2),  # all lose: the default is what is measured
        ({"a": 0.2, "b": 0.05, "c": 0.06, "d": 0.05}, 1),
    ],
)
def test_choice(gains: dict[str, float], expected: int) -> None:
    assert choose([_values(**gains)], LISTS, FOUR) == expected


def test_every_plausible_model_must_agree() -> None:
    good, bad = _values(a=-0.1, b=0.05, c=0.10, d=0.02), _values(a=-0.1, b=0.05, c=0.03, d=0.02)
    assert choose([good, bad], LISTS, FOUR) == 2
    better = _values(a=-0.1, b=0.05, c=0.08, d=0.02)
    assert choose([good, better], LISTS, FOUR) == 3


def test_choice_and_measurement_use_different_queries() -> None:
    side = halves([f"q{n}" for n in range(8)])
    assert side.sum() == 4
    assert halves([f"q{n}" for n in reversed(range(8))])[::-1].tolist() == side.tolist()
    values = _values(a=-0.1, b=0.05, c=0.05, d=0.05)
    values[3, side] += 0.2  # one candidate is best on this half, and is then measured on the other
    picked = crossed([values], LISTS, FOUR, side)
    assert set(picked[~side].tolist()) == {3}
    assert set(picked[side].tolist()) == {2}
    assert gain_of(values, LISTS, picked) == pytest.approx(0.05, abs=0.02)
    assert weighted(np.array([1.0, 0.0]), np.array([3.0, 1.0]))[0] == 0.75


def test_work_follows_from_the_budget() -> None:
    assert effort("5m").lists > 200_000  # what is promised for five minutes
    assert effort("5m").repetitions(200_000) >= 8
    assert effort("5m").repetitions(1000) == 20
    assert effort("1s").lists == 2000


def test_the_holdout_of_a_service_is_not_what_was_shown(tmp_path: Path) -> None:
    """Its lists hold the worst items, and are left out of what the policy is compared with, as in evaluations."""
    write(tmp_path / "plain.parquet", "shuffled", lists=1500)
    table = pq.read_table(tmp_path / "plain.parquet")
    held = np.arange(len(table)) % 5 == 0
    clicks = [[] if h else each for h, each in zip(held, table["clicks"].to_pylist(), strict=True)]
    table = table.drop_columns(["clicks", "propensities"])
    columns = {
        "clicks": pa.array(clicks, pa.list_(pa.int16())), "arm": pa.array(np.where(held, "holdout", "live")),
        "propensities": pa.nulls(len(table), pa.list_(pa.float64())),
    }  # fmt: skip
    for name, column in columns.items():
        table = table.append_column(name, column)
    pq.write_table(table, tmp_path / "log.parquet")
    found = advise(tmp_path / "log.parquet", **CHEAP | {"models": "CM"})
    live = [min(each, default=3) <= 2 for h, each in zip(held, clicks, strict=True) if not h]
    assert found.lists == len(live)
    assert found.logged == pytest.approx(np.mean(live))
    assert found.checks["left-out"].numbers["lists"] == {"lists of the holdout": held.sum()}


def test_a_log_without_clicks_is_refused(log: Path, tmp_path: Path) -> None:
    """It would be certain that nothing gains: the fit draws logs without clicks."""
    table = pq.read_table(log)
    none = pa.array([[]] * len(table), pa.list_(pa.int16()))
    pq.write_table(table.drop_columns(["clicks"]).append_column("clicks", none), tmp_path / "none.parquet")
    found = advise(tmp_path / "none.parquet", **CHEAP)
    assert (found.gain, found.grade) == (None, None)
    assert [(each.code, each.needs) for each in found.refused] == [("few", None)]


def test_a_query_with_too_many_lists_is_cut(log: Path) -> None:
    [table] = read_tables(dr.logs.open_log(log), 10, 2, 500)
    assert (len(table), len(table.time)) == (500, 500)
    assert table.time[-1] > 4900
