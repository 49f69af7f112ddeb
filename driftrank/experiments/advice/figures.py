"""The figures of an advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftrank.experiments.advice.advice import USE, Advice, Series
from driftrank.experiments.advice.candidates import KEEP
from driftrank.policies.registry import default_policy
from driftrank.reporting.plot_style import beautify, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: inches; narrow, so that letters stay large on a phone
_WIDTH = 6.0
_ADVISED, _LOGGED, _OTHER = "#0072B2", "#D55E00", "0.45"


def figure_over_time(series: Series, policy: str) -> Figure:
    """Values in windows of the log: what was clicked, the policy, and the best lists."""
    figure = new_figure(_WIDTH, 3.4)
    ax = figure.subplots()
    share = (np.arange(len(series.logged)) + 0.5) / len(series.logged) * 100
    width = 100 / len(series.logged)
    changed = ax.twinx()
    changed.bar(share, series.changes * 100, width * 0.9, color="0.88", zorder=0)
    changed.set_ylim(0, 100)
    changed.set_ylabel("queries that changed, %", color="0.45")
    ax.set_zorder(changed.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.plot(share, series.best, ":", color=_OTHER, label="best possible")
    ax.plot(share, series.advised, "-", color=_ADVISED, linewidth=2, label=policy)
    ax.plot(share, series.logged, "-", color=_LOGGED, linewidth=2, label="what was shown")
    ax.set_xlabel("lists of the log, %")
    ax.set_ylabel("lists with a click")
    ax.set_ylim(0, None)
    beautify(ax)
    changed.spines["top"].set_visible(False)
    ax.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)
    return figure


def figure_candidates(advice: Advice) -> Figure:
    """The gain of every candidate over what was shown, with its interval."""
    found = sorted(advice.candidates, key=lambda each: each.gain.value)
    figure = new_figure(_WIDTH, 0.6 + 0.38 * len(found))
    ax = figure.subplots()
    for n, each in enumerate(found):
        chosen = each.name == advice.policy or (advice.verdict != USE and each.name == KEEP)
        _interval(ax, n, each.gain.value, each.gain.low, each.gain.high, _ADVISED if chosen else _OTHER, bold=chosen)
    names = {KEEP: "keep what you have", default_policy().spec: f"{default_policy().spec} (default)"}
    _gains(ax, [names.get(each.name, each.name) for each in found])
    return figure


def figure_ladder(advice: Advice) -> Figure:
    """The gain of the policy by every plausible model, and by propensities."""
    rows = [(f"model {each.check.model}", each.gain, _OTHER) for each in advice.models if each.gain is not None]
    figure = new_figure(_WIDTH, 0.9 + 0.42 * (len(rows) + (advice.cross_check is not None)))
    ax = figure.subplots()
    labels = [name for name, *_ in rows]
    for n, (_, gain, colour) in enumerate(rows):
        _interval(ax, n, gain.value, gain.low, gain.high, colour)
    if advice.cross_check is not None:
        shadow = advice.cross_check.difference
        _interval(ax, len(rows), shadow.value, shadow.low, shadow.high, _LOGGED)
        labels.append("by propensities, in the shadow")
    _gains(ax, labels)
    return figure


def _interval(ax: Axes, y: int, value: float, low: float, high: float, colour: str, bold: bool = False) -> None:
    ax.plot([low, high], [y, y], "-", color=colour, linewidth=3.5 if bold else 2, solid_capstyle="butt")
    ax.plot([value], [y], "o", color=colour, markersize=8 if bold else 5)


def _gains(ax: Axes, labels: Sequence[str]) -> None:
    ax.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("clicks per list above what was shown")
    ax.margins(y=0.15)
    beautify(ax)
    ax.set_yticks(range(len(labels)), labels)
