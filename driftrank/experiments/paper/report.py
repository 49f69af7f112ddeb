"""The page about a reproduction, in one file: figures, table, findings and settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from driftrank.experiments.paper.figures import figure1, figure2
from driftrank.experiments.paper.findings import differences, losses, outcome, reported
from driftrank.experiments.paper.reproduction import DRAWN, Reproduction, short
from driftrank.experiments.simulation.result import Result
from driftrank.files import written_text
from driftrank.reporting.page import (
    Block,
    Bullets,
    Code,
    Facts,
    Heading,
    Picture,
    Plain,
    Text,
    duration,
    html_page,
    origin,
)
from driftrank.reporting.plot_style import save_figure
from driftrank.reporting.seen import counted, from_least


def write_report(reproduction: Reproduction, folder: str | os.PathLike[str], command: Sequence[str]) -> list[Path]:
    """Write the figures, ``table.csv`` and ``report.html`` beside the numbers; returns their paths.

    ``command`` repeats the reproduction.
    """
    path = Path(folder)
    save_figure(figure1(reproduction.result), path, "figure1")
    save_figure(figure2(reproduction.single), path, "figure2")
    written_text(path / "table.csv", reproduction.numbers().to_csv())
    written_text(path / "report.html", page(reproduction, path, command))
    return [path / name for name in DRAWN]


def page(reproduction: Reproduction, folder: Path, command: Sequence[str]) -> str:
    """The report as HTML; the figures are read from the folder."""
    r = reproduction.result
    runs = "1 run" if r.runs == 1 else f"{r.runs} runs"
    averaged = (
        f"Figure 1. Regret after up to {r.horizon:,} steps; lower is better. Mean over {len(r.queries)} queries with "
        f"{runs} each; the bands are one standard error of the mean over queries. Vertical lines are breakpoints; "
        "in the shaded epochs three items are perturbed."
    )
    panels = len(reproduction.single.queries)
    single = f"Figure 2. Single queries ({panels} of them), {runs} each. Every panel has its own scale."
    blocks: list[Block] = [
        Heading("Cascading Non-Stationary Bandits, reproduced", 1),
        Text(_lead(reproduction), "lead"),
        Picture(
            "figure1",
            averaged,
            f"Line chart of mean regret by step. After {r.horizon:,} steps, from least to most: "
            f"{from_least({label: r.regret(label) for label in r.labels})}.",
        ),
        Heading("Table"),
        Plain(reproduction.table()),
        Text(
            "Mean regret ± one standard error over queries: of the whole run, and of three epochs of it. "
            "Speed is that of all cores together, on this machine. `table.csv` has all digits.",
            "note",
        ),
        Heading("Reported in the paper"),
        *(Text(text) for text in reported()),
        Heading("Results"),
        Bullets(outcome(reproduction)),
        Heading("Where the paper's two policies lose"),
        Bullets(losses(reproduction)),
        Heading("Differences from the paper"),
        Bullets(differences(reproduction)),
        Heading("Single queries"),
        Picture("figure2", single, _seen_by_query(reproduction.single), wide=True),
        Heading("Settings"),
        Facts(settings(reproduction)),
        Heading("Repeat it"),
        Code(shlex.join(command)),
        Text(
            "The seed determines every number on this page except times; they do not depend on the number of cores or "
            "on the machine. `run.toml` holds the settings, `results.parquet` the regret, reward and clicks of every "
            "policy, query and run at every checkpoint."
        ),
    ]
    return html_page("driftrank: the paper reproduced", blocks, folder)


def _lead(x: Reproduction) -> str:
    r = x.result
    each = f"{r.runs} run{'s' * (r.runs > 1)} of {r.horizon:,} steps each"
    return (
        f"{len(r.queries)} queries, {each}, {len(r.labels)} policies: simulated in {duration(x.seconds)}. "
        "The experiment is that of section 5 of Li and de Rijke, *Cascading Non-Stationary Bandits: Online Learning "
        "to Rank in the Non-Stationary Cascade Model*, IJCAI 2019."
    )


def _seen_by_query(single: Result) -> str:
    final = {label: single.values_of(label)[:, :, -1].mean(axis=1) for label in single.labels}
    least = [min(final, key=lambda label: final[label][query]) for query in range(len(single.queries))]
    return (
        f"{len(single.queries)} small line charts of regret by step, one for each query. "
        f"Least regret at the end: {counted(least)} of them."
    )


def settings(x: Reproduction) -> list[tuple[str, str]]:
    r = x.result
    return [
        ("Queries", f"{len(r.queries)}, {x.source}"),
        ("Policies", "; ".join(dict.fromkeys([*r.specs, *x.single.specs]))),
        ("Environment", f"{r.environment}, k=3, epochs of {x.period:,} steps, 3 items at 0.9 in every second one"),
        ("Horizon", f"{r.horizon:,}"),
        ("Breakpoints", ", ".join(short(step) for step in r.breakpoints)),
        ("Runs of each query", str(r.runs)),
        ("Seed", str(r.seed)),
        *origin(x.seconds, r.cores),
    ]
