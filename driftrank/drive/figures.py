"""Figures of a drive: clicks per list, and regret as served."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.drive.result import REFERENCES
from driftrank.reporting.plot_style import beautify, mark_breakpoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftrank.drive.result import DriveResult

#: points of a curve of clicks; each is a mean over a segment of steps
_POINTS = 40

_OURS: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.8}
_STYLES: dict[str, dict[str, Any]] = {
    "best": {"color": "#009E73", "linestyle": "--"},
    "baseline": {"color": "#E69F00", "linestyle": "-."},
    "random": {"color": "0.5", "linestyle": ":"},
}
_LABELS = {"best": "best list", "baseline": "items as given", "random": "random list"}


def plot_clicks(result: DriveResult, ax: Axes) -> Axes:
    """Plot the clicks of the users, and of the same users on the reference lists."""
    ends = np.unique(np.linspace(0, result.steps, min(_POINTS, result.steps) + 1).round().astype(int))
    middle = (ends[:-1] + 1 + ends[1:]) / 2
    for name, clicks in zip(REFERENCES, result.reference_clicks, strict=True):
        ax.plot(middle, _binned(clicks, ends), label=_LABELS[name], linewidth=1.3, **_STYLES[name])
    ax.plot(middle, _binned(result.clicks, ends), label=f"served: {result.policy}", **_OURS)
    mark_breakpoints(ax, result.breakpoints)
    ax.set_ylabel("clicks per list")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)  # the lines fill the axes
    beautify(ax)
    return ax


def plot_regret(result: DriveResult, ax: Axes) -> Axes:
    """Plot the cumulative regret, mean over queries."""
    steps = np.arange(result.steps + 1)
    ax.plot(steps, _from_zero(result.cumulative()), label=f"served: {result.policy}", **_OURS)
    if result.check is not None:
        ax.plot(steps, _from_zero(result.check.regret), label="simulated", color="#D55E00", linestyle=":", linewidth=3)
    mark_breakpoints(ax, result.breakpoints)
    ax.set_xlim(0, result.steps)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("step")
    ax.set_ylabel("regret of a query")
    ax.legend(frameon=False, loc="upper left")
    beautify(ax)
    return ax


def _binned(values: NDArray[np.float64], ends: NDArray[np.int64]) -> list[float]:
    return [_mean(values[:, a:b]) for a, b in pairwise(ends)]


def _from_zero(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over queries, without those that did not get so far, from 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an empty mean is NaN
        return np.concatenate([[0.0], np.nanmean(values, axis=0)])


def _mean(values: NDArray[np.float64]) -> float:
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))
