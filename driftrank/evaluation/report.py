"""The report on an evaluation: values by target and over time, assumptions, checks, what to do next."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from driftrank.evaluation.base import ASSUMED, ASSUMPTIONS, Floats
from driftrank.evaluation.estimate import Estimate
from driftrank.evaluation.result import Evaluation, TargetResult
from driftrank.files import usable_folder, written_text
from driftrank.reporting.page import Block, Bullets, Code, Facts, Heading, Picture, Plain, Text, html_page
from driftrank.reporting.plot_style import beautify, new_figure, save_figure, styles
from driftrank.reporting.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_VALUES = {
    "lists": "the value of fixed lists",
    "frozen": "the value of the lists that it prefers after the log",
    "shadow": "the value of its lists beside the log, without the price of its own exploration",
    "online": "its value when it runs by itself, with the price of its exploration",
}


def write_evaluation_report(found: Evaluation, folder: str | os.PathLike[str], command: Sequence[str]) -> list[Path]:
    """Write figures, ``evaluation.json`` and ``report.html``; returns the files of the folder."""
    path = usable_folder(folder)
    targets = list(found.targets.values())
    save_figure(figure_values(found), path, "values")
    blocks: list[Block] = [
        Heading("What would it have earned?", 1),
        *(Text(verdict(found, target), "lead") for target in targets),
        Picture("values", "Clicks per list with 95% intervals, of the whole log and since the last change; the line is "
                          "what the logged lists earned. Refused values are not drawn.", wide=True),
    ]  # fmt: skip
    if any(len(_series(target, found.lists)) for target in targets):
        save_figure(figure_over_time(found), path, "over-time")
        caption = (
            "Clicks per list by window of time, each with an interval for that window alone; if windows have too few "
            "lists, the value so far with its confidence sequence."
        )
        blocks.append(Picture("over-time", caption, wide=True))
    reasons = [f"{name}: *{code}*. {text}" for name, code, text in _refusals(targets)]
    blocks += [Heading("Refused"), Bullets(reasons)] if reasons else []
    steps = _next_steps(targets)
    blocks += [Heading("To know more"), Bullets(steps)] if steps else []
    for target in targets:
        if target.ladder:
            blocks += [
                Heading(f"{target.name} by assumption about users"), Plain(_ladder(target)),
                Text(f"Shown is {_VALUES[target.value_of]}.", "note"),
            ]  # fmt: skip
    blocks += [
        Heading("Checks"),
        Plain(_checks(found), prose=True),
        Heading("Settings"),
        Facts(
            [
                ("Log", found.source),
                ("Lists", f"{found.lists:,} of {found.queries:,} queries, {found.k} positions"),
                ("Changes", found.changes_text),
                ("Reward", "a click or none" if found.objective == "any" else "the number of clicks"),
            ]
        ),
        Heading("Repeat it"),
        Code(shlex.join(command)),
    ]
    written_text(path / "evaluation.json", json.dumps(found.to_dict(), indent=1) + "\n")
    written_text(path / "report.html", html_page("driftrank: evaluation", blocks, path))
    return sorted(p for p in path.iterdir() if p.suffix in (".html", ".json", ".png", ".svg"))


def verdict(found: Evaluation, target: TargetResult) -> str:
    """The answer for a target in a sentence."""
    now = target.now if found.changes else target.whole
    when = " since the last change of users" if found.changes else ""
    if now.value is None:
        codes = ", ".join(refusal.code for refusal in now.refused)
        return f"*{target.name}*: no value can be given{when} ({codes})."
    ends = (
        "no interval, as weights are clipped" if now.low is None else f"{now.low:.4f} to {now.high:.4f}{now.condition}"
    )
    text = f"*{target.name}* would earn {now.value:.4f} clicks per list{when} ({ends})"
    difference = target.difference_now if found.changes else target.difference
    if found.searched < found.queries and found.changes:
        text += f", {found.changes_text},"
    if difference is not None:
        side = "more" if difference.low > 0 else "fewer" if difference.high < 0 else None
        what = "the logged lists" if difference.against == "logged" else difference.against
        text += (
            f": {abs(difference.value):.4f} {side} than {what}" if side else f": no certain difference to {what}"
        ) + f" ({difference.low:+.4f} to {difference.high:+.4f})"
    return f"{text}. Grade {now.grade or 'none'}, assuming {ASSUMPTIONS[now.assumes]}."


def figure_values(found: Evaluation) -> Figure:
    """The values of all targets, beside what the logged lists earned."""
    targets = list(found.targets.values())
    figure = new_figure(7.0, 1.2 + 0.45 * len(targets))
    ax = figure.subplots()
    parts = [("whole log", "0.55", 0.12)] + ([("since the last change", "#0072B2", -0.12)] if found.changes else [])
    for name, colour, shift in parts:
        for row, target in enumerate(targets):
            estimate = target.now if name != "whole log" else target.whole
            _mark(ax, estimate, row + (shift if found.changes else 0.0), colour, name if row == 0 else None)
        logged = found.logged_now if name != "whole log" else found.logged
        ax.axvline(logged, color=colour, linewidth=0.9, linestyle="--", label=f"logged, {name}")
    ax.set_yticks(range(len(targets)), [f"{t.name} ({t.whole.grade or 'refused'})" for t in targets])
    ax.set_ylim(len(targets) - 0.5, -0.5)
    ax.set_xlabel("clicks per list")
    ax.legend(fontsize=7, loc="best")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def _mark(ax: Axes, estimate: Estimate, row: float, colour: str, label: str | None) -> None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return
    ends = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
    ax.errorbar([estimate.value], [row], xerr=ends, fmt="o", color=colour, capsize=3, markersize=4, label=label)


def figure_over_time(found: Evaluation) -> Figure:
    """The values of targets by window of time, or so far if windows have too few lists."""
    figure = new_figure(7.0, 3.6)
    ax = figure.subplots()
    series = {name: _series(target, found.lists) for name, target in found.targets.items()}
    given = {name: rows for name, rows in series.items() if len(rows)}
    for name, style in styles(list(given)).items():
        at, value, low, high = given[name].T
        ax.plot(at, value, label=name, marker=".", **{**style, "markersize": 4})
        ax.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
    ax.axhline(found.logged, color="0.55", linewidth=0.9, linestyle="--", label="logged lists, whole log")
    ax.set_xlim(0, 100)
    ax.set_xlabel("time: % of the log")
    ax.set_ylabel("clicks per list")
    ax.legend(fontsize=7)
    beautify(ax)
    return figure


def _series(target: TargetResult, lists: int) -> Floats:
    """(n, 4) time in percent, value and ends: of windows, or of the running value."""
    if target.windows is not None and np.isfinite(target.windows[:, 0]).sum() > 1:
        at = 100 * (np.arange(len(target.windows)) + 0.5) / len(target.windows)
        return np.column_stack([at, target.windows])
    if target.running is None:
        return np.zeros((0, 4))
    return np.column_stack([100 * target.running[:, 0] / lists, target.running[:, 1:]])


def _ladder(target: TargetResult) -> Table:
    rows = [
        (
            ASSUMED[each.assumes], key, "refused" if each.value is None else each.value,
            "–" if each.low is None else f"{each.low:.4f} to {each.high:.4f}{each.condition}", each.grade or "–",
            ", ".join(refusal.code for refusal in each.refused),
        )
        for key, each in sorted(target.ladder.items(), key=lambda entry: (entry[1].assumes, entry[0]))
    ]  # fmt: skip
    columns = ("assumes", "estimator", "clicks per list", "interval", "grade", "refused")
    return Table(columns, rows, (None, None, ".4f", None, None, None))


def _checks(found: Evaluation) -> Table:
    said = {True: "passed", False: "failed", None: "not tested"}
    rows = [(check.code, said[check.passed], check.text) for check in found.checks.checks]
    return Table(("check", "result", "evidence"), rows, (None, None, None))


def _refusals(targets: Sequence[TargetResult]) -> list[tuple[str, str, str]]:
    found = [(t.name, refusal.code, refusal.text) for t in targets for refusal in (*t.whole.refused, *t.now.refused)]
    return list(dict.fromkeys(found))


def _next_steps(targets: Sequence[TargetResult]) -> list[str]:
    steps = []
    for target in targets:
        if target.exploring is not None:
            way = target.exploring
            steps.append(
                f"{target.name}: serve {way.order} with `explore = {way.temperature:g}`; about {way.lists:,} lists then"
                f" tell ±{way.within:g}."
            )
        steps += [f"{target.name}: {note}" for note in target.notes]
    if any(target.value is not None for target in targets):
        steps.append("An experiment with users (`holdout`, `driftrank compare`) is of grade A, and assumes nothing.")
    return steps
