"""The paper's figures 1 and 2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from driftrank.experiments.simulation.figure import add_legend, plot_regret
from driftrank.reporting.plot_style import beautify, mark_breakpoints, new_figure, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftrank.experiments.simulation.result import Result

COLUMNS = 5


def figure1(result: Result) -> Figure:
    """Regret of every policy over time, averaged over all queries and runs."""
    figure = new_figure(8.0, 4.8)
    ax = plot_regret(result, figure.add_subplot(), legend=False)
    beautify(ax)
    _shade(ax, result)
    add_legend(ax, result)
    runs = "one run" if result.runs == 1 else f"{result.runs} runs each"
    ax.set_title(
        f"n-step regret, {_counted(len(result.queries))}, {runs}; bands: ± one standard error", fontsize=10, loc="left"
    )
    return figure


def figure2(result: Result) -> Figure:
    """Regret on single queries, one panel each, averaged over runs."""
    n = len(result.queries)
    columns = min(COLUMNS, n)
    rows = math.ceil(n / columns)
    figure = new_figure(2.3 * columns + 0.4, 1.9 * rows + 0.8)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for place, query in enumerate(result.queries):
        _panel(panels[place], result, place)
        panels[place].set_title(query, fontsize=8, pad=3)
    for empty in panels[n:]:
        empty.set_axis_off()
    # if the last row is not full, the panels above its gap have the tick labels
    for ax in panels[max(0, n - columns) : n]:
        ax.tick_params(labelbottom=True)
    figure.supxlabel("step", fontsize=9)
    figure.supylabel("regret", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=min(len(labels), 8 if columns > 3 else 2),
        frameon=False,
        fontsize=9,
    )
    return figure


def _panel(ax: Axes, result: Result, query: int) -> None:
    steps = np.concatenate([[0], result.checkpoints])
    for policy, style in enumerate(styles(result.labels).values()):
        values = result.values[0, policy, query]  # (run, checkpoint)
        values = np.concatenate([np.zeros((len(values), 1)), values], axis=1)
        mean = values.mean(axis=0)
        ax.plot(steps, mean, label=result.labels[policy], linewidth=1.2, **style)
        if len(values) > 1:
            error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
            ax.fill_between(steps, mean - error, mean + error, color=style["color"], alpha=0.2, linewidth=0)
    mark_breakpoints(ax, result.breakpoints)
    _shade(ax, result)
    ax.set_xlim(0, result.horizon)
    ax.set_ylim(bottom=0)
    ax.tick_params(labelsize=7, length=2, pad=2)
    ax.locator_params(axis="x", nbins=3)
    ax.locator_params(axis="y", nbins=5)
    beautify(ax)


def _shade(ax: Axes, result: Result) -> None:
    """Every second epoch is perturbed."""
    edges = [*result.breakpoints, result.horizon]
    for n, (start, end) in enumerate(zip(edges[::2], edges[1::2], strict=False)):
        ax.axvspan(start, end, color="0.95", zorder=-1, linewidth=0, label="perturbed" if n == 0 else None)


def _counted(n: int) -> str:
    return "one query" if n == 1 else f"{n} queries"
