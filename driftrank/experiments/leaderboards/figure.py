"""The figure of a leaderboard: a panel for every environment, and the alarms below it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.experiments.leaderboards.arena import Arena
from driftrank.experiments.leaderboards.result import Leaderboard
from driftrank.reporting.plot_style import beautify, mark_breakpoints, new_figure, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
#: policies that are always drawn, besides the default one and the best of each group
ALWAYS = ("CascadeTS", "CascadeSWUCB", "CascadeDUCB", "OracleRestart")
#: at least so many lines, if there are so many policies
FEWEST = 4
#: the font size of policies beside their alarms
_SMALL = 5.5
#: inches for the numbers and the name of the axis, at the left
_NUMBERS = 0.65


def shown_policies(board: Leaderboard) -> list[str]:
    """The policies to draw: the default one, the best passive and active ones, and some well-known ones."""
    best = [next((p for p in board.ranked(group) if p != board.default), None) for group in ("passive", "active")]
    named = [label for name in ALWAYS for label, spec in board.specs.items() if spec == name]
    wanted = dict.fromkeys([board.default, *(p for p in best if p), *named])
    for label in board.ranked():
        if len(wanted) < FEWEST:
            wanted[label] = None
    return list(wanted)


def board_figure(board: Leaderboard) -> Figure:
    """Regret over time in every environment, and a strip with the alarms of every policy that raised any."""
    n = len(board.arenas)
    columns = min(COLUMNS, n)
    rows = math.ceil(n / columns)
    alarmed = list(dict.fromkeys(d.policy for d in board.found_changes))
    line_styles = styles(shown_policies(board))
    lines = math.ceil((len(line_styles) + 1) / _legend_columns(columns))
    strip = 0.11 * len(alarmed)
    # inches, from the left and from the top: so many panels are too much for an automatic layout
    left, right, above, below = _margin(alarmed), 0.15, 0.2 + 0.2 * lines, 0.65 if alarmed else 0.1
    width, height, beside, between = 3.6, 1.9, 0.45, 0.62
    gap = 0.06 if alarmed else 0.0
    cell = height + gap + strip + between
    total = (left + columns * (width + beside) - beside + right, above + rows * cell + below)
    figure = new_figure(*total)
    figure.set_layout_engine("none")

    def axes(x: float, y: float, w: float, h: float, **kwargs: Any) -> Axes:
        return figure.add_axes((x / total[0], 1 - (y + h) / total[1], w / total[0], h / total[1]), **kwargs)

    loudest = _loudest(board, alarmed)
    mesh: Any = None
    for place, arena in enumerate(board.arenas):
        x, y = left + place % columns * (width + beside), above + 0.3 + place // columns * cell
        ax = axes(x, y, width, height)
        _curves(ax, arena, line_styles, board.default)
        ax.set_title(arena.name, fontsize=10, pad=4, loc="left", fontweight="bold")
        if place % columns == 0:
            ax.set_ylabel("regret", fontsize=8)
        if alarmed:
            ax.tick_params(labelbottom=False)
            below_it = axes(x, y + height + gap, width, strip, sharex=ax)
            mesh = _strip(below_it, arena, alarmed, loudest, named=place % columns == 0)
    _legend(figure, line_styles, _legend_columns(columns), 1 - 0.08 / total[1])
    if mesh is not None:
        wide = min(4.0, total[0] - left - right)
        bar = figure.colorbar(
            mesh, cax=axes((total[0] - wide) / 2, total[1] - 0.6, wide, 0.1), orientation="horizontal"
        )
        bar.set_label("alarms per run and hundredth of the horizon", fontsize=8)
        bar.ax.tick_params(labelsize=7)
    return figure


def _margin(alarmed: list[str]) -> float:
    """Inches at the left, wide enough for the names beside the alarms."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=_SMALL)
    widths = [TextPath((0, 0), name, prop=font).get_extents().width / 72 for name in alarmed]
    return max(_NUMBERS, *(1.08 * width + 0.1 for width in widths)) if widths else _NUMBERS  # hinting widens letters


def alarm_rates(arena: Arena, policy: str) -> NDArray[np.float64]:
    """Alarms per run between checkpoints, in hundredths of the horizon."""
    mean = arena.result.curve(policy, "alarms")[0]
    steps = arena.result.checkpoints
    rates: NDArray[np.float64] = np.diff(mean, prepend=0.0) / np.diff(steps, prepend=0) * arena.result.horizon / 100
    return rates


def _curves(ax: Axes, arena: Arena, line_styles: dict[str, dict[str, Any]], default: str) -> None:
    result = arena.result
    steps = np.concatenate([[0], result.checkpoints])
    for label, style in line_styles.items():
        if label not in result.labels:
            continue
        mean, error = (np.concatenate([[0.0], values]) for values in result.curve(label))
        ax.plot(steps, mean, label=label, linewidth=2.2 if label == default else 1.2, **style)
        ax.fill_between(steps, mean - error, mean + error, color=style["color"], alpha=0.15, linewidth=0)
    mark_breakpoints(ax, arena.marks)
    ax.set_xlim(0, result.horizon)
    ax.set_ylim(bottom=0)
    ax.tick_params(labelsize=7, length=2, pad=2)
    ax.locator_params(axis="both", nbins=5)
    beautify(ax)


def _strip(ax: Axes, arena: Arena, alarmed: list[str], loudest: float, *, named: bool) -> Any:
    from matplotlib.colors import PowerNorm

    nothing = np.full(len(arena.result.checkpoints), np.nan)
    rates = np.array([alarm_rates(arena, p) if p in arena.result.labels else nothing for p in alarmed])
    edges = np.concatenate([[0], arena.result.checkpoints])
    norm = PowerNorm(0.5, vmin=0.0, vmax=loudest)
    mesh = ax.pcolormesh(edges, np.arange(len(alarmed) + 1), rates, cmap="Greys", norm=norm, rasterized=True)
    ax.set_ylim(len(alarmed), 0)
    ax.set_yticks(np.arange(len(alarmed)) + 0.5, alarmed if named else [""] * len(alarmed), fontsize=_SMALL)
    ax.tick_params(axis="x", labelsize=7, length=2, pad=2)
    ax.tick_params(axis="y", length=0, pad=2)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return mesh


def _loudest(board: Leaderboard, alarmed: list[str]) -> float:
    """The top of the scale: the 99% quantile, so that a few peaks do not hide the rest."""
    rates = [alarm_rates(a, p) for a in board.arenas for p in alarmed if p in a.result.labels]
    return max(float(np.quantile(np.concatenate(rates), 0.99)), 0.01) if rates else 1.0


def _legend_columns(panels: int) -> int:
    return (2, 3, 5)[panels - 1]


def _legend(figure: Figure, line_styles: dict[str, dict[str, Any]], columns: int, top: float) -> None:
    """A legend of all lines, also those that are missing in some panels."""
    found: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    order = [label for label in (*line_styles, "breakpoint") if label in found]
    figure.legend(
        [found[label] for label in order], order, loc="upper center", bbox_to_anchor=(0.5, top), borderaxespad=0.0,
        ncols=columns, frameon=False, fontsize=9,
    )  # fmt: skip
