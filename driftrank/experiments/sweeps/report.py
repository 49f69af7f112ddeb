"""The page about a sweep, in one file, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftrank.experiments.simulation.report import REPORT, described, repeat
from driftrank.experiments.sweeps.result import Best, Sweep, written_values
from driftrank.files import written, written_text
from driftrank.reporting.page import Block, Facts, Heading, Picture, Plain, Text, html_page, origin

#: the names of figures in a folder
FIGURES = "sweep-*.png"


def write_report(sweep: Sweep, folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Write the figures and ``report.html`` beside the numbers; returns the names of the files."""
    figures = sweep.figures()
    for name, figure in figures.items():
        with written(folder / f"{name}.png") as path:
            figure.savefig(path, dpi=150)
    written_text(folder / REPORT, html_page("driftrank: sweep", content(sweep, list(figures), settings), folder, 72))
    return [*(f"{name}.png" for name in figures), REPORT]


def content(sweep: Sweep, figures: list[str], settings: Mapping[str, Any]) -> list[Block]:
    """The blocks of the page."""
    made, wanted = sweep.runs
    halved = f" {made:,} of {wanted:,} runs were made; the others belong to settings that were clearly worse."
    count = len(sweep.settings().rows) // len(sweep.trials)
    result = sweep.trials[0].result
    best = "; ".join(map(_said, (sweep.best(label) for label in sweep.policies)))
    return [
        Heading("Sweep", 1),
        Text(
            f"{count} settings of {len(sweep.policies)} policies in {len(sweep.environments)} environments, "
            f"{sweep.horizon:,} steps, {result.runs} runs of each query.{halved * (made < wanted)}",
            "lead",
        ),
        Heading("Best settings"),
        Plain(sweep.table()),
        Text(
            "*as good*: other settings within one standard error of the paired difference. *by itself*: the policy "
            "with the defaults of these parameters, as theory recommends. `settings.csv` has every setting.",
            "note",
        ),
        *(
            block
            for name in figures
            for block in (
                Heading(name.removeprefix("sweep-").replace("-", " "), 3),
                Picture(name, _caption(name), f"{_caption(name)} Over all environments, the best: {best}.", wide=True),
            )
        ),
        Heading("Settings"),
        Facts([*described(settings), *origin(sweep.seconds, result.cores)]),
        *repeat("sweep", "every setting, query and run at every checkpoint"),
    ]


def _said(best: Best) -> str:
    values = f" with {written_values(best.parameters)}" * bool(best.parameters)
    return f"{best.policy}{values}, regret {best.regret:,.1f}"


def _caption(name: str) -> str:
    if name == "sweep-comparison":
        return "The ratio of regret of two policies for every pair of their parameters; colours say which is better."
    if "-by-" in name:
        return "Regret by parameter and environment, relative to the best value in each; the best are circled."
    parts = name.split("-")
    if len(parts) == 2:
        return f"Regret against {parts[1]}, with bands of one standard error; best and recommended values are marked."
    return f"Heat map of regret by {parts[-2]} and {parts[-1]}: the darker, the less; the best is circled."
