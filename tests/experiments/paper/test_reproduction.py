from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.engine import MEASURES
from driftrank.experiments import simulate
from driftrank.experiments.paper import findings, reproduction
from driftrank.experiments.paper.report import write_report
from driftrank.experiments.paper.reproduction import (
    Reproduction,
    paper_environment,
    paper_policies,
    reproduce,
    single_queries,
)
from driftrank.experiments.simulation.folder import Interrupted, Journal
from driftrank.experiments.simulation.result import Result
from driftrank.queries import Queries, yandex_like
from tests.reporting.page_checks import check_page

SMALL = {"queries": "yandex-like:6", "runs": 2, "horizon": 1000, "seed": 3, "progress": False}
FILES = ("figure1.png", "figure1.svg", "figure2.png", "figure2.svg", "table.csv", "report.html")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def small(folder: Path) -> Reproduction:
    reproduction = reproduce(folder, **SMALL)
    write_report(reproduction, folder, ["driftrank", "reproduce", "--runs", "2"])
    return reproduction


def made_up(totals: dict[str, list[float]], horizon: int = 100_000) -> Reproduction:
    """A reproduction in which every query has given totals, spread evenly over ten epochs."""
    labels = list(totals)
    steps = np.arange(1, 11) * horizon // 10
    values = np.zeros((len(MEASURES), len(labels), len(totals[labels[0]]), 2, 10))
    for i, label in enumerate(labels):
        values[0, i] = np.array(totals[label])[:, None, None] * np.arange(1, 11) / 10
    queries = [f"q{i}" for i in range(values.shape[2])]
    result = Result(
        labels, labels, queries, horizon, 2, 0, steps, [int(step) for step in steps[:-1]], "cpu", "Abrupt", values,
        [1.0] * len(labels), [10] * len(labels),
    )  # fmt: skip
    return Reproduction(result, single_queries(result, None), "yandex-like:4", horizon // 10, 1.0)


LIKE_PAPER = {
    "CascadeSWUCB": [10.0, 12.0, 14.0, 12.0],
    "CascadeDUCB": [20.0, 21.0, 24.0, 22.0],
    "CascadeKLUCB": [90.0, 80.0, 70.0, 11.0],
    "RankedEXP3": [60.0, 61.0, 62.0, 63.0],
    "BatchRank": [99.0, 98.0, 97.0, 96.0],
}


# -- the protocol ------------------------------------------------------------------------------------------------------


def test_environment_is_that_of_section_5() -> None:
    environment = paper_environment(yandex_like(3))
    assert environment.breakpoints(100_000) == [10_000 * i for i in range(1, 10)]
    base = environment.queries[environment.names[0]]
    top = set(np.argsort(-base)[:3])
    assert (environment.attraction(10_000) == base).all()
    assert (environment.attraction(80_001) == base).all()
    drawn = []
    for epoch in (1, 3, 5, 7, 9):
        attraction = environment.attraction(epoch * 10_000 + 1)
        changed = set(np.flatnonzero(attraction != base))
        assert len(changed) == 3
        assert not changed & top
        assert (attraction[list(changed)] == 0.9).all()
        drawn.append(frozenset(changed))
    assert len(set(drawn)) > 1  # anew in every perturbed epoch


def test_defaults_are_the_papers() -> None:
    assert (reproduction.QUERIES, reproduction.RUNS, reproduction.HORIZON, reproduction.K) == (100, 10, 100_000, 3)
    assert [p.spec for p in paper_policies()] == [
        "CascadeSWUCB",
        "CascadeDUCB",
        "CascadeKLUCB",
        "RankedEXP3",
        "BatchRank",
    ]


def test_all_policies_and_extra_ones() -> None:
    names = [type(p).__name__ for p in paper_policies("all", ["CascadeSWUCB:window=7"])]
    assert {"CascadeUCB1", "CascadeTS", "TopRank", "RankedUCB1", "BubbleRank", "OracleRestart"} < set(names)
    assert names.count("CascadeSWUCB") == 2


@pytest.mark.parametrize("horizon", [100, 101, 111, 999, 1000, 12_345])
def test_ten_epochs_whatever_the_horizon(horizon: int) -> None:
    assert len(paper_environment(yandex_like(1), horizon).breakpoints(horizon)) == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 99}, "horizon=99"),
        ({"policies": "some"}, "policies='some'"),
        ({"policy": ["CascadeSWUCB"]}, "occurs twice"),
        ({"queries": "yandex-like:0"}, "yandex-like:N"),
        ({"runs": 0}, "runs=0"),
    ],
)
def test_wrong_settings_leave_nothing_behind(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        reproduce(tmp_path / "out", **(SMALL | changes))
    assert not (tmp_path / "out").exists()


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_epochs_add_up(small: Reproduction) -> None:
    for label in small.result.labels:
        total = sum(small.epoch(label, epoch)[0] for epoch in range(10))
        assert total == pytest.approx(small.result.regret(label))
        assert total > 0


def test_figure_2_has_bubblerank_instead_of_batchrank(small: Reproduction) -> None:
    assert small.result.labels == list(reproduction.PAPER)
    assert small.single.labels == ["CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB", "RankedEXP3", "BubbleRank"]
    assert (small.single.values[:, :4] == small.result.values[:, :4]).all()
    assert not np.isnan(small.single.values).any()


def test_bubblerank_meets_the_same_users(small: Reproduction) -> None:
    environment = paper_environment(yandex_like(6, seed=3), 1000)
    alone = simulate("BubbleRank", environment, horizon=1000, runs=2, seed=3, progress=False)
    assert (small.single.values[:, 4] == alone.values[:, 0]).all()


def test_single_queries_takes_the_first_ones(small: Reproduction) -> None:
    few = single_queries(small.result, None, panels=2)
    assert few.queries == small.result.queries[:2]
    assert few.values.shape[1:3] == (4, 2)
    assert "BatchRank" not in few.labels


def test_resume_draws_again_without_running(small: Reproduction, folder: Path) -> None:
    again = reproduce(folder, **SMALL, resume=True)
    assert (again.result.values == small.result.values).all()
    assert (again.single.values == small.single.values).all()
    assert again.result.stepped == small.result.stepped


@pytest.mark.parametrize("finished", [0, 3, 30])
def test_stopped_reproduction_leaves_no_figures_of_other_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    """Stopped before any unit, in the first simulation (5 policies on 6 queries), and in the second."""
    (tmp_path / "report.html").write_text("old")
    add, count = Journal.add, 0

    def stopping(self: Journal, *args: Any) -> None:
        nonlocal count
        count += 1
        if count > finished:
            raise KeyboardInterrupt
        add(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", stopping)
        with pytest.raises(Interrupted, match="runs are kept in"):
            reproduce(tmp_path, **SMALL, threads=1)
    assert (tmp_path / "report.html").exists() == (finished == 0)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *FILES, "results.parquet", "summary.json", "run.toml", "bubblerank",
    }  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_figures_are_images(folder: Path, name: str) -> None:
    png = (folder / f"{name}.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(png[i : i + 4]) for i in (16, 20))
    assert 800 <= width <= 3000
    assert 500 <= height <= 3000
    root = ElementTree.parse(folder / f"{name}.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 20


def test_same_numbers_same_figures(small: Reproduction, folder: Path, tmp_path: Path) -> None:
    write_report(small, tmp_path, ["driftrank", "reproduce"])
    for name in FILES[:5]:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_figure_1_shows_every_policy_and_breakpoint(small: Reproduction) -> None:
    from driftrank.experiments.paper.figures import figure1

    (ax,) = figure1(small.result).axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    for label in small.result.labels:
        assert lines[label].get_ydata()[-1] == pytest.approx(small.result.regret(label))
    marked = [line.get_xdata()[0] for line in ax.get_lines() if len(set(line.get_xdata())) == 1]
    assert marked == small.result.breakpoints


def test_figure_2_has_a_panel_for_every_query(small: Reproduction) -> None:
    from driftrank.experiments.paper.figures import figure2

    figure = figure2(small.single)
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title() for ax in panels] == small.single.queries
    assert len({ax.get_ylim() for ax in panels}) == len(panels)  # each its own scale
    drawn = panels[2].get_lines()[1].get_ydata()[-1]
    assert drawn == pytest.approx(small.single.values[0, 1, 2, :, -1].mean())


# -- the table ---------------------------------------------------------------------------------------------------------


class _Cells(HTMLParser):
    """The rows of the first table of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        self._inside = tag in ("td", "th")
        if self._inside:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


@pytest.mark.usefixtures("small")
def test_table_of_the_report_is_table_csv(folder: Path) -> None:
    parser = _Cells()
    parser.feed((folder / "report.html").read_text(encoding="utf-8"))
    with (folder / "table.csv").open(newline="") as file:
        numbers = list(csv.DictReader(file))
    assert len(parser.rows) == 1 + len(numbers) == 6
    for shown, row in zip(parser.rows[1:], numbers, strict=True):
        values = list(row.values())
        assert shown[0] == values[0]
        pairs = zip(values[1:-1:2], values[2:-1:2], strict=True)
        assert shown[1:-1] == [f"{float(mean):,.1f} ± {float(error):,.1f}" for mean, error in pairs]


def test_table_goes_from_best_to_worst(small: Reproduction) -> None:
    totals = [float(row[1]) for row in small.numbers().rows]
    assert totals == sorted(totals)
    assert totals == [small.result.regret(str(row[0])) for row in small.numbers().rows]


def test_papers_numbers_stand_beside_ours_where_they_can_be_compared(small: Reproduction) -> None:
    assert "in the paper" not in str(small.table())  # 1000 steps
    exact = made_up(LIKE_PAPER)
    rows = [row[0] for row in exact.table().rows]
    assert rows.index("CascadeKLUCB, in the paper") == rows.index("CascadeKLUCB") + 1
    assert "111.50 ± 1.12" in str(exact.table())
    assert "447.82 ± 137.16" in str(exact.table())
    assert '"CascadeKLUCB, in the paper",,,111.5,1.12,,,447.82,137.16,' in exact.numbers().to_csv()


# -- the report --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_report_needs_nothing_from_elsewhere(folder: Path) -> None:
    check_page(folder / "report.html", pictures=2)


@pytest.mark.usefixtures("small")
def test_report_says_how_it_came_about(folder: Path) -> None:
    import numba

    import driftrank

    text = (folder / "report.html").read_text(encoding="utf-8")
    for fact in (driftrank.__version__, f"numpy {np.__version__}", f"numba {numba.__version__}", "Python 3."):
        assert fact in text
    assert "<dt>Seed</dt><dd>3</dd>" in text
    assert "<pre>driftrank reproduce --runs 2</pre>" in text
    assert "6, yandex-like:6" in text


def test_outcome_as_in_the_paper() -> None:
    said = findings.outcome(made_up(LIKE_PAPER))
    assert said[0].startswith("CascadeSWUCB below CascadeDUCB: as in the paper. CascadeDUCB loses 9.8 ± 0.2 more, +81%")
    assert said[1].startswith("Both below every baseline of the paper: as in the paper. The best of these, RankedEXP3")


def test_outcome_against_the_paper_is_said_too() -> None:
    other = LIKE_PAPER | {"CascadeSWUCB": [70.0, 69.0, 71.0, 70.0]}
    said = findings.outcome(made_up(other))
    assert "CascadeSWUCB below CascadeDUCB: not so here" in said[0]
    assert "only CascadeDUCB is" in said[1]
    both = LIKE_PAPER | {"CascadeSWUCB": [20.0, 21.0, 24.0, 24.0], "RankedEXP3": [1.0, 1.0, 1.0, 1.0]}
    said = findings.outcome(made_up(both))
    assert "neither is" in said[1]
    unclear = LIKE_PAPER | {"CascadeSWUCB": [10.0, 30.0, 14.0, 32.0]}
    assert "not clearly so here" in findings.outcome(made_up(unclear))[0]


def test_losses_are_counted() -> None:
    said = findings.losses(made_up(LIKE_PAPER))
    assert "CascadeSWUCB has more regret than some baseline in 0 of 10 epochs." in said[0]
    assert "of 4 queries it is beaten by CascadeKLUCB on 1." in said[1]
    worse = LIKE_PAPER | {"RankedEXP3": [1.0, 2.0, 3.0, 4.0]}
    said = findings.losses(made_up(worse))
    assert "in 10 of 10 epochs: 1-10k: 1 (RankedEXP3 0); 10k-20k, perturbed: 1 (RankedEXP3 0)" in said[0]
    assert "by RankedEXP3 on 4, by CascadeKLUCB on 1." in said[1]


def test_differences_depend_on_the_queries() -> None:
    drawn = made_up(LIKE_PAPER)
    assert "not the paper's" in findings.differences(drawn)[0]
    drawn.source = "mine.json"
    assert "those of mine.json" in findings.differences(drawn)[0]
    short = made_up(LIKE_PAPER, horizon=1000)
    assert "1,000 steps in epochs of 100" in findings.differences(short)[1]


# -- golden numbers ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden(yandex40: Queries) -> Reproduction:
    policies = ["CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB"]
    result = simulate(policies, paper_environment(yandex40), horizon=100_000, seed=0, checkpoints=10, progress=False)
    return Reproduction(result, result, "yandex40", 10_000, 0.0)


def test_klucb_loses_what_it_does_in_the_paper(golden: Reproduction) -> None:
    assert 105 <= golden.epoch("CascadeKLUCB", 0)[0] <= 130  # 111.50
    assert 350 <= golden.epoch("CascadeKLUCB", 8)[0] <= 700  # 447.82


def test_order_of_the_papers_policies(golden: Reproduction) -> None:
    assert golden.ranked() == ["CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB"]


@pytest.mark.parametrize(("policy", "total"), [("CascadeSWUCB", 2429), ("CascadeDUCB", 3628), ("CascadeKLUCB", 9840)])
def test_totals(golden: Reproduction, policy: str, total: float) -> None:
    assert golden.result.regret(policy) == pytest.approx(total, rel=0.1)
