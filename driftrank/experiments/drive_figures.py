"""Figures of a driven service: clicks per list, and regret as served."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.experiments.drive_result import OTHERS
from driftrank.experiments.figures import beautify, mark_breakpoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftrank.experiments.drive_result import Driven

#: points of a curve of clicks: each is a mean over a stretch of steps
_POINTS = 40

_OURS: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.8}
_STYLES: dict[str, dict[str, Any]] = {
    "best": {"color": "#009E73", "linestyle": "--"},
    "baseline": {"color": "#E69F00", "linestyle": "-."},
    "random": {"color": "0.5", "linestyle": ":"},
}
_LABELS = {"best": "best list", "baseline": "items as given", "random": "random list"}


def plot_clicks(driven: Driven, ax: Axes) -> Axes:
    """What users clicked, and what the same users would have clicked on other lists."""
    ends = np.unique(np.linspace(0, driven.steps, min(_POINTS, driven.steps) + 1).round().astype(int))
    middle = (ends[:-1] + 1 + ends[1:]) / 2
    for name, clicks in zip(OTHERS, driven.others, strict=True):
        ax.plot(middle, _binned(clicks, ends), label=_LABELS[name], linewidth=1.3, **_STYLES[name])
    ax.plot(middle, _binned(driven.clicks, ends), label=f"served: {driven.policy}", **_OURS)
    mark_breakpoints(ax, driven.breakpoints)
    ax.set_ylabel("clicks per list")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)  # lines are everywhere below
    beautify(ax)
    return ax


def plot_regret(driven: Driven, ax: Axes) -> Axes:
    """Mean regret of a query up to every step."""
    steps = np.arange(driven.steps + 1)
    ax.plot(steps, _from_zero(driven.cumulative()), label=f"served: {driven.policy}", **_OURS)
    if driven.check is not None:
        ax.plot(steps, _from_zero(driven.check.regret), label="simulated", color="#D55E00", linestyle=":", linewidth=3)
    mark_breakpoints(ax, driven.breakpoints)
    ax.set_xlim(0, driven.steps)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("step")
    ax.set_ylabel("regret of a query")
    ax.legend(frameon=False, loc="upper left")
    beautify(ax)
    return ax


def _binned(values: NDArray[np.float64], ends: NDArray[np.int64]) -> list[float]:
    return [_mean(values[:, a:b]) for a, b in pairwise(ends)]


def _from_zero(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over queries; those that did not get so far are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN, as it should be
        return np.concatenate([[0.0], np.nanmean(values, axis=0)])


def _mean(values: NDArray[np.float64]) -> float:
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))
