"""The report on click models fitted to a log: their comparison, examination, and attraction over time."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.fit import Fit
from driftrank.files import usable_folder, written_text
from driftrank.fitting.fit import FittedModels
from driftrank.logs.changes import QueryDrift
from driftrank.logs.over_time import AttractionOverTime
from driftrank.reporting.page import (
    Block,
    Bullets,
    Code,
    Facts,
    Heading,
    Picture,
    Plain,
    Text,
    html_page,
    origin,
)
from driftrank.reporting.plot_style import beautify, mark_breakpoints, new_figure, save_figure, styles
from driftrank.reporting.seen import from_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: number of lists, the most frequent, that examination is averaged over
SAMPLE = 2000
#: items per panel
LINES = 6


def write_fit_report(
    fitted: FittedModels,
    folder: str | os.PathLike[str],
    source: str,
    command: Sequence[str],
    series: Sequence[AttractionOverTime] = (),
    drifts: Sequence[QueryDrift] = (),
    model: str = "",
) -> list[Path]:
    """Write the figures, ``table.csv`` and ``report.html``; returns the files of the folder.

    Parameters
    ----------
    source, command
        The log, and the command that repeats this.
    series, drifts, model
        Attraction over time, the changes found, and the model of the former.
    """
    path = usable_folder(folder)
    curves = examination_curves(fitted)
    save_figure(figure_examination(curves), path, "examination")
    blocks: list[Block] = [
        Heading("Click models of a log", 1),
        Text(_lead(fitted, source), "lead"),
        Heading("Comparison of models"),
        Plain(fitted.table()),
        Text(_how_compared(fitted), "note"),
    ]
    if fitted.evaluations:
        save_figure(figure_perplexity(fitted), path, "perplexity")
        blocks.append(
            Picture(
                "perplexity",
                "Perplexity by rank: 1 is certainty, 2 a coin. The lower a line, the better.",
                "Line chart of perplexity by rank. Mean over ranks, from best to worst: "
                f"{from_least({name: e.mean_perplexity for name, e in fitted.evaluations.items()}, '.4f')}.",
            )
        )
    blocks += [
        Heading("Examination by rank"),
        Picture(
            "examination",
            "The probability that a rank is read, by model, averaged over the most frequent lists of the log.",
            "Line chart of the probability of examination by rank. At the last rank, from least to most: "
            f"{from_least({name: float(curve[-1]) for name, curve in curves.items()}, '.2f')}.",
        ),
    ]
    if series:
        save_figure(figure_over_time(series, drifts), path, "attraction")
        caption = (
            f"Attraction over time ({model}, fitted in {len(series[0].attraction)} windows), of the most frequent "
            f"queries and their {LINES} most often shown items at most; bands are 95% confidence intervals."
        )
        blocks += [Heading("Attraction over time"), Picture("attraction", caption, _seen_attraction(series), wide=True)]
    if drifts:
        blocks += [Heading("Changes"), Bullets(_changes(drifts))]
    blocks += [
        Heading("Settings"),
        Facts(
            [
                *_settings(fitted, source),
                *origin(fitted.counting + sum(fitted.seconds.values()), os.cpu_count() or 1),
            ]
        ),
        Heading("Repeat it"),
        Code(shlex.join(command)),
    ]
    written_text(path / "table.csv", fitted.table().to_csv())
    written_text(path / "report.html", html_page("driftrank: click models", blocks, path))
    return sorted(p for p in path.iterdir() if p.suffix in (".html", ".csv", ".png", ".svg"))


def _lead(fitted: FittedModels, source: str) -> str:
    pairs = next(iter(fitted.fits.values())).pairs
    lists = f"{fitted.lists:,} lists, " if fitted.lists else ""
    best = f" {fitted.best} predicts clicks best." if fitted.best and len(fitted.fits) > 1 else ""
    return f"`{source}`: {lists}{len(pairs.queries):,} queries, {len(pairs):,} items.{best}"


def _how_compared(fitted: FittedModels) -> str:
    scores = (
        "Log-likelihood is the mean over lists; perplexity is that of a click or none at a rank, marginal or given the "
        "clicks above. No probability is taken to be less than 1e-6: a model may rule out events of a log, such as a "
        "second click in the cascade model. *behind* is the difference to the best model, with the standard error of "
        "the differences of single lists. Estimates by *biased* closed forms assume that nobody reads on after the "
        "last click, and are not compared with others. `table.csv` has all digits."
    )
    if not fitted.evaluations:
        return "The models were not compared: there are no lists to compare them on."
    if not fitted.held_out:
        return f"The models were compared on the lists that they were fitted to. {scores}"
    return (
        f"The models were fitted to the first {fitted.lists - fitted.held_out:,} lists, and compared on the "
        f"{fitted.held_out:,} that came after. {scores}"
    )


def _changes(drifts: Sequence[QueryDrift]) -> list[str]:
    lines = []
    for found in drifts:
        times = ", ".join(_moment(change.time) for change in found.changes)
        count = len(found.changes)
        summary = f"{count} change{'s' * (count != 1)}: {times}" if count else "no change"
        lines.append(f"Query `{found.query}` ({found.lists:,} lists): {summary}.{_confounded(found)}")
    return lines


def _confounded(found: QueryDrift) -> str:
    if not found.confounded:
        return ""
    times = ", ".join(_moment(change.time) for change in found.confounded)
    return f" Clicks also changed with the shown order, which tells nothing of the users: {times}."


def _seen_attraction(series: Sequence[AttractionOverTime]) -> str:
    """The most attractive item of every query, first and last."""
    parts = []
    for one in series:
        shown = one.attraction[:, : min(LINES, len(one.items))]
        first, last = (str(one.items[int(np.nanargmax(row))]) for row in (_known(shown), _known(shown[::-1])))
        parts.append(f"query {one.query}: {first} at first, {last} at the end")
    return f"Line charts of attraction over time. The most attractive item of {'; '.join(parts)}."


def _known(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first window in which an item was shown."""
    known: NDArray[np.float64] = next((row for row in rows if not np.isnan(row).all()), np.zeros(rows.shape[1]))
    return known


def _settings(fitted: FittedModels, source: str) -> list[tuple[str, str]]:
    fit = next(iter(fitted.fits.values()))
    (a, b), (of_others, others) = fit.prior, fit.options.others
    shared = "per query" if fit.options.per_query else "shared by all queries"
    return [
        ("Log", source),
        ("Models", ", ".join(fitted.fits)),
        ("Prior of attraction", f"{a:.3g} clicks in {b:g} views" + ", by the click rate" * (fit.options.prior is None)),
        ("Prior of other parameters", f"{of_others:g} successes in {others:g} trials"),
        ("Parameters of ranks", shared),
    ]


def examination(fit: Fit, fitted: FittedModels) -> NDArray[np.float64]:
    """The probability that each rank is read, averaged over frequent lists."""
    counts = fitted.sample
    assert counts is not None
    known = fit.onto(counts.pairs, counts.k)
    rows = np.argsort(-counts.lists, kind="stable")[:SAMPLE]
    read, weight = np.zeros(counts.k), np.zeros(counts.k)
    starts = counts.pairs.starts
    for row in rows:
        shown = counts.slots[row][counts.slots[row] >= 0]
        query = int(counts.pairs.query[shown[0]])
        alpha, model = known.attraction[starts[query] : starts[query + 1]], known.query(counts.pairs.queries[query])[2]
        slots = shown - starts[query]
        p = np.array(model.click_probabilities(alpha, slots.tolist()))
        read[: len(slots)] += counts.lists[row] * p / np.maximum(alpha[slots], 1e-12)
        weight[: len(slots)] += counts.lists[row]
    return read / np.maximum(weight, 1)


def examination_curves(fitted: FittedModels) -> dict[str, NDArray[np.float64]]:
    """The same by model, for those that it can be computed of."""
    curves = {}
    for name in fitted.ranked():
        fit = fitted.fits[name]
        if fitted.sample is not None:
            curves[name] = examination(fit, fitted)
        elif "examination" in fit.parameters and fit.parameters["examination"].ndim == 2:
            curves[name] = fit.parameters["examination"].mean(axis=0)
    return curves


def figure_examination(curves: dict[str, NDArray[np.float64]]) -> Figure:
    """Plot the probability that each rank is read, by model."""
    figure = new_figure(7.0, 4.2)
    ax = figure.add_subplot()
    for name, style in styles(list(curves)).items():
        curve = curves[name]
        ax.plot(np.arange(1, len(curve) + 1), curve, marker="o", markersize=3, label=name, **style)
    _ranks(ax, "probability of examination")
    ax.set_ylim(0, 1.02)
    return figure


def figure_perplexity(fitted: FittedModels) -> Figure:
    """Plot the perplexity by rank."""
    figure = new_figure(7.0, 4.2)
    ax = figure.add_subplot()
    for name, style in styles(fitted.ranked()).items():
        curve = fitted.evaluations[name].perplexity
        ax.plot(np.arange(1, len(curve) + 1), curve, marker="o", markersize=3, label=name, **style)
    _ranks(ax, "perplexity")
    ax.set_ylim(bottom=1)
    return figure


def _ranks(ax: Any, label: str) -> None:
    beautify(ax)
    ax.set_xlabel("rank")
    ax.set_ylabel(label)
    ax.xaxis.get_major_locator().set_params(integer=True)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)


def figure_over_time(series: Sequence[AttractionOverTime], drifts: Sequence[QueryDrift] = ()) -> Figure:
    """Plot attraction over time, one panel per query."""
    columns = min(2, len(series))
    rows = math.ceil(len(series) / columns)
    figure = new_figure(5.0 * columns + 0.5, 2.6 * rows + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    changes = {str(found.query): found.changes for found in drifts}
    for ax, one in zip(panels, series, strict=False):
        middle = [a + (b - a) / 2 for a, b in zip(one.edges, one.edges[1:], strict=False)]
        for n, style in zip(
            range(min(LINES, len(one.items))), styles([str(i) for i in range(LINES)]).values(), strict=False
        ):
            ax.plot(middle, one.attraction[:, n], label=str(one.items[n]), linewidth=1.3, **style)
            ax.fill_between(middle, one.low[:, n], one.high[:, n], color=style["color"], alpha=0.15, linewidth=0)
        mark_breakpoints(ax, [change.time for change in changes.get(str(one.query), ())])
        ax.set_title(f"query {one.query}", fontsize=9, loc="left")
        ax.set_ylim(bottom=0)
        dates = ax.xaxis.get_major_formatter()
        beautify(ax)
        if isinstance(one.edges[0], datetime):
            ax.xaxis.set_major_formatter(dates)
            ax.tick_params(axis="x", rotation=25)
        ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    for empty in panels[len(series) :]:
        empty.set_axis_off()
    figure.supylabel("attraction", fontsize=9)
    figure.supxlabel("time", fontsize=9)
    return figure


def _moment(value: Any) -> str:
    return value.strftime("%Y-%m-%d %H:%M") if isinstance(value, datetime) else f"{value:,}"
