"""The page about a simulation, in one file, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftrank.experiments.simulation.caller import has_caller
from driftrank.experiments.simulation.caller_figure import caller_figure
from driftrank.experiments.simulation.figure import regret_figure
from driftrank.experiments.simulation.result import Result
from driftrank.files import written, written_text
from driftrank.reporting.page import Block, Code, Facts, Heading, Picture, Plain, Text, html_page, origin
from driftrank.reporting.seen import from_least

#: the files of the report, by what they show
REGRET, CALLER, REPORT = "regret.png", "caller.png", "report.html"


def write_report(result: Result, folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Write the figures and ``report.html`` beside the numbers; returns the names of the files."""
    figures = {REGRET: regret_figure} | ({CALLER: caller_figure} if has_caller(result) else {})
    for name, drawn in figures.items():
        with written(folder / name) as path:
            drawn(result).savefig(path, dpi=150)
    written_text(folder / REPORT, html_page("driftrank: simulation", content(result, settings), folder))
    return [*figures, REPORT]


def content(result: Result, settings: Mapping[str, Any]) -> list[Block]:
    """The blocks of the page."""
    r = result
    queries = f"{len(r.queries)} queries" if len(r.queries) > 1 else "1 query"
    runs = f"{r.runs} runs" if r.runs > 1 else "1 run"
    final = {label: r.regret(label) for label in r.labels}
    blocks: list[Block] = [
        Heading(f"Simulation: {r.environment}", 1),
        Text(f"{len(r.labels)} policies, {queries}, {runs} of {r.horizon:,} steps each. Least regret first.", "lead"),
        Plain(r.table()),
        Heading("Regret"),
        Picture(
            "regret",
            "Mean regret over queries and runs, with bands of one standard error; lower is better. "
            "Vertical lines are breakpoints, if there are any.",
            f"Line chart of regret by step, up to step {r.horizon:,}. At the end, from least to most: "
            f"{from_least(final)}.",
        ),
    ]
    if has_caller(r):
        gains = {label: r.between(label, measure="clicks")[0] / r.horizon for label in r.labels}
        blocks += [
            Heading("Against the caller's order"),
            Picture(
                "caller",
                "Clicks a list, less those of the caller's order: over time, and by how often the query came before. "
                "Grey: the best list.",
                f"Two charts of clicks a list against the caller's order. Clicks a list, from least to most: "
                f"{from_least(gains, '.4f')}.",
                wide=True,
            ),
        ]
    return [
        *blocks,
        Heading("Settings"),
        Facts([*described(settings), *origin(r.seconds, r.cores)]),
        *repeat("simulate", "every policy, query and run at every checkpoint"),
    ]


def described(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings as facts, without those that are not set."""
    given = ((name, "; ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in settings.items())
    return [(name, text) for name, text in given if text not in ("", "None")]


def repeat(command: str, rows: str) -> list[Block]:
    """The section on how to repeat what is in a folder."""
    return [
        Heading("Repeat it"),
        Code(f"driftrank {command} --config run.toml --out out/again"),
        Text(
            "The seed determines every number on this page except times; they do not depend on the number of cores or "
            f"on the machine. `run.toml` has the settings, `results.parquet` the regret, reward and clicks of {rows}, "
            "and `summary.json` what is shown here with all digits."
        ),
    ]
