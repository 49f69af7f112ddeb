"""Figures: regret over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftrank.experiments.results import Result

# colours that people with colour blindness can tell apart (Okabe and Ito), the paper's two policies first
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A00")
_OWN = {"CascadeSWUCB": 0, "CascadeDUCB": 1, "CascadeKLUCB": 2, "RankedEXP3": 3, "BatchRank": 4, "BubbleRank": 5}
_LINES = ("-", "--", "-.", ":")


def new_figure(width: float = 7.0, height: float = 4.2) -> Figure:
    """A figure that belongs to nobody: no window, no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def styles(labels: list[str]) -> dict[str, dict[str, Any]]:
    """Colour and line of every policy; the paper's keep theirs in every figure."""
    taken = [_OWN[label] for label in labels if label in _OWN]
    free = [i for i in range(len(_COLOURS) * len(_LINES)) if i not in taken]
    out = {}
    for label in labels:
        i = _OWN[label] if label in _OWN else free.pop(0)
        out[label] = {"color": _COLOURS[i % len(_COLOURS)], "linestyle": _LINES[i // len(_COLOURS) % len(_LINES)]}
    return out


def plot_regret(result: Result, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Mean regret with a band of one standard error; breakpoints as thin lines."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(figsize=(7.0, 4.2), layout="constrained").add_subplot()
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
        ax.legend(frameon=False, loc="upper left")
    return ax


def mark_breakpoints(ax: Axes, breakpoints: list[int]) -> None:
    for n, step in enumerate(breakpoints):
        ax.axvline(step, color="0.75", linewidth=0.7, zorder=0, label="breakpoint" if n == 0 else None)


def beautify(ax: Axes) -> None:
    """No frame, and short numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.xaxis.set_major_formatter(_thousands)
    ax.yaxis.set_major_formatter(_thousands)


def _thousands(value: float, _: object) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"
