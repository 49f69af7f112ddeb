"""The regret curves of a simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from driftrank.extras import need
from driftrank.reporting.plot_style import mark_breakpoints, new_figure, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftrank.experiments.simulation.result import Result

#: more policies have a legend beside the axes, so that it hides no line
MOST_INSIDE = 8
#: lines of a legend beside the axes
LINES = 25


def regret_figure(result: Result) -> Figure:
    """The regret curves in a figure of their own."""
    figure = new_figure(*_size(result))
    plot_regret(result, figure.add_subplot())
    return figure


def plot_regret(result: Result, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Mean regret with a band of one standard error; breakpoints as thin lines."""
    if ax is None:
        need("plots", "matplotlib")
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=_size(result), layout="constrained").add_subplot()
    steps = np.concatenate([[0], result.checkpoints])
    for label, style in styles(result.labels).items():
        mean, error = (np.concatenate([[0.0], values]) for values in result.curve(label))
        ax.plot(steps, mean, label=label, linewidth=1.6, **style)
        ax.fill_between(steps, mean - error, mean + error, color=style["color"], alpha=0.2, linewidth=0)
    mark_breakpoints(ax, result.breakpoints)
    ax.set_xlim(0, result.horizon)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("step")
    ax.set_ylabel("regret")
    ax.ticklabel_format(axis="x", style="plain")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    if legend:
        add_legend(ax, result)
    return ax


def add_legend(ax: Axes, result: Result) -> None:
    """The legend: policies from the worst to the best, as the lines lie at the right end; then everything else."""
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    regrets = {label: result.regret(label) for label in result.labels}
    order = sorted(regrets, key=lambda label: (math.isnan(regrets[label]), -regrets[label]))
    order += [label for label in handles if label not in regrets]
    columns = _columns(result)
    beside = {"bbox_to_anchor": (1.0, 1.0), "fontsize": 7, "ncols": columns} if columns else {}
    ax.legend([handles[label] for label in order], order, frameon=False, loc="upper left", **beside)


def _columns(result: Result) -> int:
    """The columns of a legend beside the axes; 0 if it is inside."""
    n = len(result.labels)
    return 0 if n <= MOST_INSIDE else math.ceil((n + 1) / LINES)


def _size(result: Result) -> tuple[float, float]:
    return 7.0 + 2.0 * _columns(result), 4.2
