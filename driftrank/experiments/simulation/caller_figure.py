"""The figure of a simulation of Traffic: clicks a list against the caller's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftrank.experiments.simulation.caller import Comparison, groups, windows
from driftrank.experiments.simulation.figure import MOST_INSIDE
from driftrank.reporting.plot_style import beautify, mark_breakpoints, new_figure, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftrank.experiments.simulation.result import Result

#: points of a line: more would show the noise of the stream of queries
_POINTS = 20


def caller_figure(result: Result) -> Figure:
    """Clicks a list against the caller's order: over time, and by how often the query came before."""
    steps = result.checkpoints.tolist()
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(_POINTS, len(steps))).round().astype(int))
    edges = sorted({0, *(steps[i] for i in chosen), *result.breakpoints})
    over_time = {label: windows(result, label, edges) for label in result.labels}
    return comparison_figure(
        over_time, {label: groups(result, label, "age") for label in result.labels}, result.breakpoints
    )


def comparison_figure(
    windows: Mapping[str, Sequence[Comparison]], groups: Mapping[str, Sequence[Comparison]], breakpoints: list[int]
) -> Figure:
    """Gains over the caller's order by label: in windows, which all labels share, and in groups by age."""
    figure = new_figure(10.0, 4.2)
    over_time, by_age = figure.subplots(1, 2, sharey=True)
    _plot_over_time(windows, breakpoints, over_time)
    _plot_by_age(groups, by_age)
    for ax in (over_time, by_age):
        ax.axhline(0.0, color="0.4", linewidth=1.0, zorder=0)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    handles, labels = over_time.get_legend_handles_labels()
    columns = 4 if len(labels) > 3 else len(labels)
    size = 9 if len(labels) <= MOST_INSIDE else 7
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=columns, fontsize=size)
    return figure


def _plot_over_time(found: Mapping[str, Sequence[Comparison]], breakpoints: list[int], ax: Axes) -> None:
    rows = next(iter(found.values()))
    ends = [row.last or row.first for row in rows]
    middles = [(row.first - 1 + end) / 2 for row, end in zip(rows, ends, strict=True)]
    for label, style in styles(list(found)).items():
        gain, error = np.array([row.gain for row in found[label]]), np.array([row.error for row in found[label]])
        ax.plot(middles, gain, label=label, linewidth=1.6, **style)
        ax.fill_between(middles, gain - error, gain + error, color=style["color"], alpha=0.2, linewidth=0)
    ax.plot(middles, [row.best - row.caller for row in rows], color="0.6", linewidth=1.2, label="best list")
    mark_breakpoints(ax, breakpoints)
    ax.set_xlim(0, max(ends))
    ax.set_xlabel("list")
    ax.set_ylabel("clicks a list, less those of the caller's order")
    beautify(ax)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")


def _plot_by_age(found: Mapping[str, Sequence[Comparison]], ax: Axes) -> None:
    names = [row.name for row in next(iter(found.values()))]
    for n, (label, style) in enumerate(styles(list(found)).items()):
        at = np.arange(len(names)) + 0.4 * ((n + 0.5) / len(found) - 0.5)
        rows = found[label]
        ax.errorbar(
            at, [row.gain for row in rows], [row.error for row in rows], fmt="o", markersize=5, color=style["color"]
        )
    ax.plot(np.arange(len(names)), [row.best - row.caller for row in rows], "_", color="0.6", markersize=40)
    ax.set_xticks(np.arange(len(names)), names)
    ax.set_xlabel("lists of the query before")
