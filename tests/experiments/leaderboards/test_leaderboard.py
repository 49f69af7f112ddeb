from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import scipy.stats

import driftrank as dr
from driftrank.engine import MEASURES
from driftrank.environments import Abrupt
from driftrank.experiments import Leaderboard, Result, leaderboard, simulate
from driftrank.experiments import leaderboard as leaderboard_function
from driftrank.experiments.leaderboards import findings as board_findings
from driftrank.experiments.leaderboards import page as board_page
from driftrank.experiments.leaderboards.arena import Arena, group_of
from driftrank.experiments.leaderboards.figure import alarm_rates, board_figure, shown_policies
from driftrank.experiments.leaderboards.findings import amount
from driftrank.experiments.leaderboards.leaderboard import DRAWN
from driftrank.experiments.leaderboards.page import write_page
from driftrank.experiments.leaderboards.policies import BY_THEORY, TUNED, chosen_policies, together, usual
from driftrank.experiments.simulation.breakpoints import breakpoints_to_detect
from driftrank.experiments.simulation.folder import Interrupted, Journal
from driftrank.policies.registry import parse_policy, policies
from driftrank.queries import yandex_like
from tests.reporting.page_checks import check_page

assert leaderboard is leaderboard_function  # the function, not the module of that name

SMALL: dict[str, Any] = {
    "queries": "yandex-like:3", "policies": ["CascadeUCB1", "Random"], "environments": ["Stationary", "Abrupt"],
    "horizon": 300, "runs": 2, "seed": 4, "progress": False,
}  # fmt: skip
DEFAULT = "PriorRegimeTS"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board")


@pytest.fixture(scope="module")
def small(folder: Path) -> Leaderboard:
    board = leaderboard(folder=folder, **SMALL)
    write_page(board, folder, ["driftrank", "leaderboard", "--runs", "2"])
    return board


def made_up(
    regrets: dict[str, dict[str, list[float]]], groups: dict[str, str], measures: dict[str, list[float]] | None = None
) -> Leaderboard:
    """A leaderboard with the final regret by environment, policy and query; 2 breakpoints in each of the runs.

    ``measures``: alarms, detected, delay and false alarms of all queries together, by policy.
    """
    arenas = []
    for name, by_policy in regrets.items():
        labels = list(by_policy)
        n = len(by_policy[labels[0]])
        values = np.zeros((len(MEASURES), len(labels), n, 1, 2))
        for i, label in enumerate(labels):
            values[0, i, :, 0, :] = np.array(by_policy[label])[:, None] * [0.5, 1.0]
            for j, total in enumerate((measures or {}).get(label, [])):
                values[MEASURES.index("alarms") + j, i, 0, 0, :] = [0.0, total]
        queries = [f"q{i}" for i in range(n)]
        result = Result(
            labels, labels, queries, 1000, 1, 0, np.array([500, 1000]), [], "cpu", name, values, [1.0] * len(labels),
            [10] * len(labels),
        )  # fmt: skip
        still = name == "Stationary"
        arenas.append(
            Arena(name, name, "", "stationary" if still else "abrupt", result, 0 if still else 2 * n, [250],
                  {label: "needs features" for label in groups if label not in labels})
        )  # fmt: skip
    return Leaderboard({label: label for label in groups}, groups, DEFAULT, arenas, "made up", part="change")


GROUPS = {DEFAULT: "active", "CascadeTS": "stationary", "CascadeDUCB": "passive", "OracleRestart": "oracle"}
MADE = {
    "Stationary": {
        DEFAULT: [20.0, 22.0, 18.0, 20.0],
        "CascadeTS": [10.0, 11.1, 9.0, 9.9],
        "CascadeDUCB": [80.0, 84.0, 76.0, 80.0],
        "OracleRestart": [5.0, 5.0, 5.0, 5.0],
    },
    "Abrupt": {
        DEFAULT: [20.0, 22.0, 18.0, 20.0],
        "CascadeTS": [160.0, 165.0, 155.0, 160.0],
        "CascadeDUCB": [40.0, 2.0, 60.0, 58.0],
    },
}


# -- what is run -------------------------------------------------------------------------------------------------------


def test_everything_by_default() -> None:
    others = {name for name, policy in policies().items() if policy.click_model != "CM"}
    assert {"DCMKLUCB", "PBMPIE"} <= others
    for part, missing in (("change", others), ("sizes", others), ("users", set()), ("traffic", others)):
        names = {spec for spec in usual(part) if ":" not in spec}
        assert names == set(policies()) - missing - {"DynamicOracle"}, part
    assert dr.default_policy().spec == DEFAULT


def test_fair_part() -> None:
    """Every rival with default parameters, by theory and tuned; all of them have the freedom of order when tuned."""
    assert all({name, tuned} <= set(usual("fair")) for name, tuned in TUNED.items())
    assert {spec.partition(":")[0] for spec in BY_THEORY} == set(TUNED) - {"CascadeTS"}
    assert f"OracleRestart:base={DEFAULT}(vigilance=0.0)" in usual("fair")
    for spec in usual("fair"):
        assert parse_policy(spec).spec == spec


def test_default_policy_is_always_there() -> None:
    for given, expected in ((["Random"], [DEFAULT, "Random"]), (["Random", DEFAULT], ["Random", DEFAULT])):
        chosen = chosen_policies(given, ["change", "users"])
        assert [p.spec for p in chosen["change"]] == [p.spec for p in chosen["users"]] == expected


def test_all_usual_policies_are_no_choice() -> None:
    """So that run.toml, which has them all, repeats a leaderboard whose parts have different ones."""
    parts = ["change", "users", "fair"]
    chosen = chosen_policies((), parts)
    assert chosen_policies([p.spec for p in together(chosen)], parts) == chosen
    assert len(chosen["fair"]) < len(chosen["change"]) < len(chosen["users"])


def test_groups() -> None:
    for name, group in (
        ("CascadeTS", "stationary"), ("CascadeDUCB", "passive"), ("RankedEXP3S", "passive"), ("Random", "stationary"),
        ("GLRTCascadeUCB", "active"), (DEFAULT, "active"), ("OracleRestart", "oracle"), ("StaticOracle", "oracle"),
        ("OracleRestart:base=GLRTCascadeUCB", "oracle"),
    ):  # fmt: skip
        assert group_of(parse_policy(name)) == group, name


@pytest.mark.slow
def test_numbers_are_those_of_simulations(small: Leaderboard) -> None:
    environment = Abrupt(yandex_like(3, seed=4), k=3, period=30)
    alone = simulate(["CascadeUCB1", DEFAULT], environment, horizon=300, runs=2, seed=4, progress=False)
    for label in alone.labels:
        assert small.regret(label, "Abrupt") == alone.between(label)
    arena = small.arena("Abrupt")
    assert arena.marks == environment.breakpoints(300)
    assert arena.changes == 3 * 2 * 9
    assert small.arena("Stationary").changes == 0


@pytest.mark.slow
def test_without_a_folder(small: Leaderboard) -> None:
    told: list[str] = []
    again = leaderboard(**SMALL, say=told.append)
    assert again.table().rows == small.table().rows
    assert re.fullmatch(r"0 million steps, about .* on \d+ cores?\.", told[0])


def test_same_name_with_other_parameters() -> None:
    settings = SMALL | {"policies": ["CascadeUCB1", "CascadeUCB1:exploration=0.5"], "environments": ["Stationary"]}
    board = leaderboard(**settings, k=2)
    assert board.policies == [DEFAULT, "CascadeUCB1", "CascadeUCB1:exploration=0.5"]


@pytest.mark.slow
def test_a_policy_that_cannot_run_is_shown(tmp_path: Path) -> None:
    many = {f"q{i}": np.linspace(0.5, 0.01, 65) for i in range(2)}
    settings = SMALL | {
        "queries": many,
        "policies": ["CascadeLinUCB"],
        "environments": ["Stationary", "LinearFeatures"],
    }
    board = leaderboard(folder=tmp_path, **settings)
    assert board.arena("Stationary").obstacles == {"CascadeLinUCB": "needs features"}
    assert board.arena("LinearFeatures").obstacles == {}
    assert not board.ran("CascadeLinUCB", "Stationary")
    assert math.isnan(board.regret("CascadeLinUCB", "Stationary")[0])
    assert board.scores["CascadeLinUCB"] == pytest.approx(board.ratio("CascadeLinUCB", "LinearFeatures"))
    assert "needs features" in str(board.table())
    write_page(board, tmp_path, ["driftrank"])
    for name in ("leaderboard.html", "leaderboard.md"):
        page = (tmp_path / name).read_text(encoding="utf-8")
        assert "CascadeLinUCB in Stationary (needs features)" in page
        assert page.count("needs features") == 2
    with pytest.raises(ValueError, match="features: must be given for more than 64 items"):
        leaderboard(**settings | {"environments": ["Stationary"]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 99}, "horizon=99"),
        ({"runs": 0}, "runs=0"),
        ({"threads": 0}, "threads=0"),
        ({"n_queries": 0}, "n_queries=0"),
        ({"seed": -1}, "seed=-1"),
        ({"policies": ["CascadeUCB"]}, "unknown policy"),
        ({"policies": ["Random", "Random"]}, "Random occurs twice"),
        ({"environments": ["Abrupd"]}, "unknown environment"),
        ({"k": 99}, "k=99"),
    ],
)
def test_wrong_settings_leave_nothing_behind(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        leaderboard(folder=tmp_path / "out", **SMALL | changes)
    assert not (tmp_path / "out").exists()


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    board = made_up(MADE, GROUPS)
    assert board.best("Stationary") == "CascadeTS"  # not the oracle
    assert board.best("Abrupt") == DEFAULT
    assert board.scores[DEFAULT] == pytest.approx(math.sqrt(2.0 * 1.0))
    assert board.scores["CascadeTS"] == pytest.approx(math.sqrt(1.0 * 8.0))
    assert board.scores["CascadeDUCB"] == pytest.approx(math.sqrt(8.0 * 2.0))
    assert board.scores["OracleRestart"] == pytest.approx(0.5)  # of the one environment it ran in
    assert board.ranked() == [DEFAULT, "CascadeTS", "CascadeDUCB", "OracleRestart"]
    assert board.table().rows[0][:2] == (DEFAULT, pytest.approx(math.sqrt(2.0)))


def test_the_best_is_chosen_on_the_other_queries() -> None:
    """Two policies that are lucky on one half each: chosen on the other half, neither is better than the steady one."""
    lucky = {DEFAULT: [10.0, 10.0, 10.0, 10.0], "CascadeTS": [1.0, 11.0, 1.0, 11.0], "CascadeDUCB": [30.0] * 4}
    board = made_up({"Abrupt": lucky}, dict(list(GROUPS.items())[:3]))
    # on the odd queries CascadeTS is the best of the even ones, 11; on the even ones the default is that of the odd, 10
    assert board.ratio("CascadeTS", "Abrupt") == pytest.approx(6.0 / 10.5)
    assert board.ratio(DEFAULT, "Abrupt") == pytest.approx(10.0 / 10.5)


def test_twins_count_once() -> None:
    alike = {name: by_policy | {"Again": by_policy["CascadeTS"]} for name, by_policy in MADE.items()}
    board, alone = made_up(alike, GROUPS | {"Again": "stationary"}), made_up(MADE, GROUPS)
    assert board.twins() == [["CascadeTS", "Again"]]
    assert alone.twins() == []
    assert board.ranked() == alone.ranked()
    assert board.comparisons == alone.comparisons  # Holm's correction is for as many
    assert board.summary()["policies"]["CascadeTS"]["also"] == ["Again"]
    oracle = {name: by_policy | {"OracleRestart": by_policy["CascadeTS"]} for name, by_policy in MADE.items()}
    assert made_up(oracle, GROUPS).twins() == []  # where nothing changes, it is CascadeTS


def test_no_regret_has_no_ratio() -> None:
    board = made_up({"Stationary": {DEFAULT: [0.0, 1e-13], "CascadeTS": [5.0, 6.0]}}, dict(list(GROUPS.items())[:2]))
    assert math.isnan(board.scores["CascadeTS"])
    assert math.isnan(board.comparisons[0].ratio)
    assert board.summary()["policies"]["CascadeTS"]["score"] is None


def test_comparisons_are_those_of_scipy_after_holm() -> None:
    board = made_up(MADE, GROUPS)
    found = {(c.policy, c.environment): c for c in board.comparisons}
    assert len(found) == 5  # the oracle ran in one environment only
    raw = {
        (policy, name): scipy.stats.ttest_rel(MADE[name][policy], MADE[name][DEFAULT]).pvalue for policy, name in found
    }
    largest = 0.0
    for rank, key in enumerate(sorted(raw, key=lambda key: raw[key])):
        largest = max(largest, min(1.0, (5 - rank) * raw[key]))
        assert found[key].p == pytest.approx(largest, rel=1e-9)
    assert found["CascadeTS", "Stationary"].verdict == "better"
    assert found["CascadeTS", "Stationary"].difference == pytest.approx(-10.0)
    assert found["CascadeTS", "Abrupt"].verdict == "worse"
    assert found["CascadeTS", "Abrupt"].ratio == pytest.approx(8.0)
    assert found["CascadeDUCB", "Stationary"].verdict == "worse"
    # twice the regret in the mean, but less on one query of four
    assert found["CascadeDUCB", "Abrupt"].ratio == pytest.approx(2.0)
    assert found["CascadeDUCB", "Abrupt"].verdict == "not significant"


def test_permutations_confirm_verdicts_or_do_not() -> None:
    """One query of twenty makes nearly all of the difference: the t test is not sure, the signs are."""
    regular = [20.0 + i for i in range(20)]
    less = [value - (1.0 + 0.01 * i) for i, value in enumerate(regular)]
    board = made_up({"Abrupt": {DEFAULT: regular, "CascadeTS": less}}, dict(list(GROUPS.items())[:2]))
    (c,) = board.comparisons
    assert c.permutation == 2 / 2**20
    assert c.confirmed
    (few, *_) = made_up(MADE, GROUPS).comparisons  # four queries have 16 choices of signs
    assert few.verdict == "better"
    assert few.permutation > 0.05
    assert not few.confirmed


def test_one_sample_tells_nothing_apart() -> None:
    board = made_up({"Abrupt": {DEFAULT: [1.0], "CascadeTS": [500.0]}}, dict(list(GROUPS.items())[:2]))
    (c,) = board.comparisons
    assert math.isnan(c.p)
    assert c.verdict == "not significant"


def test_pairs_are_runs_where_there_is_one_query() -> None:
    settings = SMALL | {"environments": ["BLB:L=6,K=2"], "policies": ["Random"]}
    board = leaderboard(**settings)
    arena = board.arenas[0]
    assert arena.result.runs == 3 * 2
    a, b = (arena.result.values[0, i, 0, :, -1] for i in (1, 0))
    (c,) = board.comparisons
    assert c.p == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue)
    assert c.verdict == "worse"


def test_detections_by_hand() -> None:
    # 4 queries of one run, each with 2 breakpoints where there are any; 9 alarms, 2 detected, after 30 steps in all
    board = made_up(MADE, GROUPS, {DEFAULT: [9.0, 2.0, 30.0, 6.0]})
    quiet, abrupt = board.found_changes
    assert (abrupt.policy, abrupt.environment, abrupt.changes) == (DEFAULT, "Abrupt", 8)
    assert abrupt.share == 2 / 8
    assert abrupt.delay == 15.0
    assert abrupt.alarms == 9 / 4
    assert abrupt.false_alarms == 6 / 4
    assert math.isnan(quiet.share)
    assert "25%" in str(board.detections())


def test_detections_of_a_simulation(small: Leaderboard) -> None:
    arena = small.arena("Abrupt")
    values = arena.result.values[:, arena.result.labels.index(DEFAULT), ..., -1]
    d = next(d for d in small.found_changes if d.environment == "Abrupt")
    environment = Abrupt(yandex_like(3, seed=4), k=3, period=30)
    wanted = sum(len(breakpoints_to_detect(environment, 300, q, r, 4)) for q in environment.names for r in range(2))
    assert d.share == values[MEASURES.index("detected")].sum() / wanted
    assert d.false_alarms == values[MEASURES.index("false_alarms")].mean()
    assert {d.policy for d in small.found_changes} == {DEFAULT}


def test_alarm_rates_add_up_to_the_alarms(small: Leaderboard) -> None:
    arena = small.arena("Abrupt")
    widths = np.diff(arena.result.checkpoints, prepend=0) / 300 * 100
    assert (alarm_rates(arena, DEFAULT) * widths).sum() == pytest.approx(arena.total(DEFAULT, "alarms") / 6)


# -- words -------------------------------------------------------------------------------------------------------------


def test_where_forgetting_hurts() -> None:
    said = board_findings.forgetting(made_up(MADE, GROUPS))
    assert said[0] == "Stationary: 1 of 1 lose more than CascadeTS (10.0 ± 0.4), 8.00 times as much (CascadeDUCB)."
    assert said[1] == "The best of them lose less than CascadeTS in: Abrupt (CascadeDUCB 0.25 times)."
    assert "Needs CascadeTS" in board_findings.forgetting(made_up(MADE, GROUPS | {"CascadeDUCB": "stationary"}))[0]
    same = {"Abrupt": {label: [1.0, 2.0, 3.0] for label in GROUPS}}
    assert [text.split()[0] for text in board_findings.forgetting(made_up(same, GROUPS))] == ["No", "None"]


def test_where_detection_fails() -> None:
    said = board_findings.detection(made_up(MADE, GROUPS, {DEFAULT: [9.0, 2.0, 30.0, 6.0]}))
    assert said == [
        f"{DEFAULT} detects fewer than half of the breakpoints in 1 of 1 environments: Abrupt (25%); "
        "raises alarms in stationary environments, per run 1.5 in Stationary."
    ]
    (fine,) = board_findings.detection(made_up(MADE, GROUPS, {DEFAULT: [5.0, 5.0, 30.0, 0.0]}))
    assert fine.startswith(f"{DEFAULT}: at least 50%")
    assert board_findings.detection(made_up(MADE, GROUPS)) == ["No policy raised an alarm."]


def test_where_the_default_is_beaten_and_the_price() -> None:
    board = made_up(MADE, GROUPS)
    assert board_findings.beaten(board) == [
        "Stationary: by CascadeTS (50% less).",
        "In the other 1 of 2 no policy is significantly better.",
    ]
    assert board_findings.price(board) == [
        "CascadeTS, better in 1 of 2: worse in 1, at most 8.00 times as much regret (Abrupt); "
        f"in the geometric mean over all 2.00 times that of {DEFAULT}."
    ]
    unbeaten = made_up({"Abrupt": MADE["Abrupt"]}, GROUPS)
    assert board_findings.beaten(unbeaten) == [f"No policy is significantly better than {DEFAULT} in any environment."]
    assert board_findings.price(unbeaten) == []


def test_losses_and_advice_of_all_parts() -> None:
    board = made_up(MADE, GROUPS)
    other = made_up({"Abrupt": MADE["Abrupt"]}, GROUPS)
    other.part = "users"
    board.parts = {"users": other}
    assert board_findings.counts(board) == [
        "Users who change: beaten in 1 of 2.",
        "Users who click several times: beaten in 0 of 1.",
    ]
    (row,) = board_findings.losses(board).rows
    assert (row[0], row[3], row[5]) == ("Stationary", "2.00", "1?")
    rows = board_findings.advice(board).rows
    assert [row[:3] for row in rows] == [
        ("Users who change", 2, DEFAULT),
        ("Users who click several times", 1, DEFAULT),
    ]
    assert len(board.numbers().rows) == len(made_up(MADE, GROUPS).numbers().rows) + len(other.numbers().rows)
    assert board.summary()["parts"]["users"] == other.summary()


def test_large_losses_are_listed_though_they_are_not_significant() -> None:
    """With four queries as different as these no test can be sure of anything."""
    uncertain = {
        "Abrupt": {DEFAULT: [1.0, 30.0, 2.0, 400.0], "CascadeTS": [1.1, 1.0, 3.0, 4.0]},
        "Silent": {DEFAULT: [1.0, 2.0, 1.2, 1.0], "CascadeTS": [1.0, 1.9, 1.2, 1.0]},
    }
    board = made_up(uncertain, GROUPS)
    assert all(c.verdict == "not significant" for c in board.comparisons)
    horizon = board.arenas[0].result.horizon
    (loss,) = board_findings.lost_in(board)
    assert (loss.environment, loss.least, loss.better) == ("Abrupt", "CascadeTS", 0)
    assert loss.clicks == pytest.approx(1000 * (433.0 - 9.1) / 4 / horizon)
    assert board_findings.losses(board).rows[0][-1] == "no"
    assert board_findings.counts(board)[0].endswith("beaten in 0 of 2, and in 1 a large loss that is not significant.")
    page = "\n".join(block.markdown() for block in board_page.content(board, ["driftrank"]))
    assert page.index("| Abrupt | 108 ±") < page.index("## Which policy")


def test_policies_below_every_oracle_are_named() -> None:
    below = {"Abrupt": {DEFAULT: [3.0, 3.0], "CascadeTS": [2.0, 2.0], "OracleRestart": [4.0, 4.0]}}
    assert board_findings.suspicious(made_up(below, GROUPS)) == [
        "Abrupt: CascadeTS (2.0) and 1 more; OracleRestart 4.0."
    ]
    assert board_findings.suspicious(made_up(MADE, GROUPS)) == []


# -- figure and page ---------------------------------------------------------------------------------------------------


def test_a_handful_is_shown() -> None:
    board = made_up(MADE, GROUPS)
    assert shown_policies(board) == [DEFAULT, "CascadeDUCB", "CascadeTS", "OracleRestart"]


def test_figure(small: Leaderboard) -> None:
    axes = board_figure(small).axes
    titles = {ax.get_title(loc="left"): ax for ax in axes}
    ax = titles["Abrupt"]
    drawn = {line.get_label(): line.get_ydata()[-1] for line in ax.get_lines()}
    for label in small.policies:
        assert drawn[label] == pytest.approx(small.regret(label, "Abrupt")[0])
    marked = [line.get_xdata()[0] for line in ax.get_lines() if len(set(line.get_xdata())) == 1]
    assert marked == list(range(30, 300, 30))
    assert len(axes) == 2 * 2 + 1  # a strip below each panel, and the scale


def test_names_beside_alarms_are_whole() -> None:
    long = "GLRTCascadeKLUCB:order=increasing,restart=local,explore=0.01"
    board = made_up({"Abrupt": {DEFAULT: [1.0], long: [2.0]}}, {DEFAULT: "active", long: "active"}, {long: [3.0]})
    figure = board_figure(board)
    figure.draw_without_rendering()
    names = [text for ax in figure.axes for text in ax.get_yticklabels() if text.get_text() == long]
    assert len(names) == 1
    assert names[0].get_window_extent().x0 > 0


class Reader(HTMLParser):
    """Checks that tags match, and collects the tables; the first one is of all parts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("meta", "img", "wbr"):
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += (" " if self.open[-1] == "small" else "") + data


@pytest.fixture(scope="module")
def read(small: Leaderboard, folder: Path) -> Reader:
    reader = Reader()
    reader.feed((folder / "leaderboard.html").read_text(encoding="utf-8"))
    reader.close()
    assert not reader.open
    return reader


def test_page_has_the_numbers(small: Leaderboard, read: Reader) -> None:
    head, *rows = read.tables[1]
    assert head == ["policy", "ratio to best", "ns a step", "Stationary", "Abrupt"]
    assert [row[0] for row in rows] == small.ranked()
    for row in rows:
        assert row[1] == f"{small.scores[row[0]]:.2f}"
        for name, cell in zip(head[3:], row[3:], strict=True):
            mean, error = small.regret(row[0], name)
            assert cell == f"{amount(mean)} ± {amount(error, mean)}"


def test_page_has_the_verdicts(small: Leaderboard, read: Reader) -> None:
    _, *rows = read.tables[2]
    signs = {"better": "▼", "worse": "▲", "not significant": "≈"}

    def doubt(c: Any) -> str:
        return "?" if c.verdict != "not significant" and not c.confirmed else ""

    shown = {(row[0], name): cell for row in rows for name, cell in zip(small.environments, row[2:], strict=True)}
    assert shown == {
        (
            c.policy,
            c.environment,
        ): f"{signs[c.verdict]}{doubt(c)} {f'{c.ratio:.2f}' if c.ratio < 10 else f'{c.ratio:,.0f}'}"
        for c in small.comparisons
    }


def test_page_has_the_detections(small: Leaderboard, read: Reader) -> None:
    head, row = read.tables[3]
    d = next(d for d in small.found_changes if d.environment == "Abrupt")
    cell = row[head.index("Abrupt")]
    delay = "" if math.isnan(d.delay) else f" {d.delay:,.0f} steps"
    assert cell == f"{d.share:.0%}{delay} {d.false_alarms:.1f} false"


@pytest.mark.usefixtures("small")
def test_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    check_page(folder / "leaderboard.html", pictures=1)
    text = (folder / "leaderboard.html").read_text(encoding="utf-8")
    assert "<pre>driftrank leaderboard --runs 2</pre>" in text


def test_markdown_says_the_same(small: Leaderboard, folder: Path) -> None:
    text = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert "![" in text
    assert "](leaderboard.png)" in text
    for label in small.policies:
        for name in small.environments:
            mean, error = small.regret(label, name)
            assert f"{amount(mean)}{'**' * (small.best(name) == label)} ± {amount(error, mean)}" in text
    for finding in (board_findings.forgetting, board_findings.detection, board_findings.beaten):
        assert all(f"- {said}" in text for said in finding(small))


def test_table_as_csv(small: Leaderboard, folder: Path) -> None:
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        assert (float(row["regret"]), float(row["se"])) == small.regret(row["policy"], row["environment"])


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {*DRAWN, "results.parquet", "summary.json", "run.toml"}
    settings = tomllib.loads((folder / "run.toml").read_text())
    assert settings["policy"] == [DEFAULT, "CascadeUCB1", "Random"]
    assert settings["env"] == ["Stationary", "Abrupt"]


def test_rows(small: Leaderboard, folder: Path) -> None:
    table = pyarrow.parquet.read_table(folder / "results.parquet")
    assert table.column_names == ["environment", "policy", "query", "run", "step", *MEASURES]
    assert len(table) == sum(3 * 3 * 2 * len(arena.result.checkpoints) for arena in small.arenas)
    frame = table.to_pandas()
    last = frame[(frame.environment == "Abrupt") & (frame.policy == "Random") & (frame.step == 300)]
    assert last.regret.mean() == pytest.approx(small.regret("Random", "Abrupt")[0])


def test_load_gives_what_was_saved(small: Leaderboard, folder: Path, tmp_path: Path) -> None:
    for board in (Leaderboard.load(folder), Leaderboard.load(small.save(tmp_path))):
        assert board.summary() == small.summary()
        for mine, theirs in zip(board.arenas, small.arenas, strict=True):
            assert (mine.result.values == theirs.result.values).all()
            assert mine.marks == theirs.marks
        assert board.detections().rows == small.detections().rows
    with pytest.raises(ValueError, match="does not hold a readable leaderboard"):
        Leaderboard.load(tmp_path / "nowhere")


def test_summary_is_json_for_everybody(small: Leaderboard, folder: Path) -> None:
    text = (folder / "summary.json").read_text()
    assert "NaN" not in text
    summary = json.loads(text)
    for c in small.comparisons:
        shown = summary["policies"][c.policy]["environments"][c.environment]["against_default"]
        assert shown == {"ratio": c.ratio, "p": c.p, "permutation_p": c.permutation, "verdict": c.verdict}


# -- stopped and continued ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", [0, 1, 5, 9])
def test_stopped_and_continued(small: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    add, count = Journal.add, [0]

    def stopping(self: Journal, *args: Any) -> None:
        if count[0] == when:
            raise KeyboardInterrupt
        count[0] += 1
        add(self, *args)

    (tmp_path / "leaderboard.html").write_text("of something else")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", stopping)
        with pytest.raises(Interrupted, match=f"{2 * when} of 36 runs are kept"):
            leaderboard(folder=tmp_path, **SMALL, threads=1)
    assert (tmp_path / "leaderboard.html").exists() == (when == 0)
    assert not (tmp_path / "results.parquet").exists()
    board = leaderboard(folder=tmp_path, **SMALL, resume=True)
    for mine, theirs in zip(board.arenas, small.arenas, strict=True):
        assert (mine.result.values == theirs.result.values).all()
    assert not (tmp_path / "parts").exists()


def test_parts_with_runs_of_their_own_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments with another horizon, other queries and more runs; stopped, continued, and with more runs."""
    settings = SMALL | {"environments": ["Short-200", "Stationary", "Tied"], "runs": 1}
    whole = leaderboard(**settings | {"runs": 2})
    add, count = Journal.add, [0]

    def stopping(self: Journal, *args: Any) -> None:
        if count[0] == 7:
            raise KeyboardInterrupt
        count[0] += 1
        add(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", stopping)
        with pytest.raises(Interrupted):
            leaderboard(folder=tmp_path, **settings, threads=1)
    leaderboard(folder=tmp_path, **settings, resume=True)
    made: list[int] = []
    monkeypatch.setattr(Journal, "add", lambda self, unit, *args: made.append(len(unit.runs)) or add(self, unit, *args))
    more = leaderboard(folder=tmp_path, **settings | {"runs": 2}, resume=True)
    assert sum(made) == 3 * (3 * 20 + 3 + 3 * 2)  # policies times queries and runs; Tied has two
    assert list(more.parts) == ["sizes"]
    for mine, theirs in zip(more.every_part, whole.every_part, strict=True):
        assert mine.environments == theirs.environments
        for here, there in zip(mine.arenas, theirs.arenas, strict=True):
            assert (here.result.values == there.result.values).all()
    loaded = Leaderboard.load(tmp_path)
    assert loaded.summary() == more.summary()
    assert [arena.result.horizon for arena in loaded.parts["sizes"].arenas] == [200, 150]  # Tied: half of it


def test_resume_when_all_is_done_runs_nothing(
    small: Leaderboard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "add", lambda *_: pytest.fail("ran again"))
    again = leaderboard(folder=folder, **SMALL, resume=True)
    assert again.summary() == small.summary()


def test_more_runs(small: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a leaderboard with fewer runs, only the others are made."""
    leaderboard(folder=tmp_path, **SMALL | {"runs": 1})
    made: list[int] = []
    add = Journal.add
    monkeypatch.setattr(Journal, "add", lambda self, unit, *args: made.append(len(unit.runs)) or add(self, unit, *args))
    board = leaderboard(folder=tmp_path, **SMALL, resume=True)
    assert sum(made) == 36 / 2
    for mine, theirs in zip(board.arenas, small.arenas, strict=True):
        assert (mine.result.values == theirs.result.values).all()


@pytest.mark.usefixtures("small")
def test_resume_with_other_settings_is_refused(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="begun with seed=4, now it is 5"):
        leaderboard(folder=folder, **SMALL | {"seed": 5}, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
