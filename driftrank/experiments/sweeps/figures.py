"""Figures of a sweep: regret against a parameter, heat maps of two, and one policy's parameter against another's."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.experiments.sweeps.axis_scale import Scale, short
from driftrank.experiments.sweeps.family import Family, Point
from driftrank.extras import need
from driftrank.policies.registry import parse_policy
from driftrank.reporting.plot_style import new_figure, styles
from driftrank.validation import check_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftrank.experiments.sweeps.result import Estimates, Sweep

#: panels beside each other
COLUMNS = 3
#: regret is on a logarithmic scale if the largest is this many times the least
_WIDE = 10.0
#: a comparison shows ratios of regret up to this one
_RATIO = 4.0
#: the distance between the marks of two policies at the same text value
_BESIDE = 0.1
#: standard errors that make a difference clear
_CLEAR = 2.0

Draw = Callable[["Axes", str | None], Any]


def figures(sweep: Sweep) -> dict[str, Figure]:
    """All figures, by the names of their files.

    One for every parameter that a policy sweeps alone; heat maps of every pair if it sweeps several; a comparison,
    if two policies sweep one parameter each.
    """
    found: dict[str, Figure] = {}
    swept = [family for family in sweep.families if family.parameters]
    alone = [family for family in swept if len(family.parameters) == 1]
    for name in dict.fromkeys(family.parameters[0] for family in alone):
        draw = partial(_parameter_panel, sweep, name)
        found[f"sweep-{name}"] = _panels(sweep, draw)
    for family in swept:
        name = re.sub(r"[^\w.=-]+", "_", family.label)
        for x, y in itertools.combinations(family.parameters, 2):
            draw = partial(_map_panel, sweep, family.label, x, y)
            found[f"sweep-{name}-{x}-{y}"] = _panels(sweep, draw)
    if len(swept) == len(alone) == 2:
        found["sweep-comparison"] = _panels(sweep, partial(_comparison_panel, sweep))
    around = environment_parameter(sweep)
    if around is not None:
        for family in alone:
            figure = new_figure(7.0, 4.6)
            plot_environments(sweep, family.label, figure.add_subplot())
            name = re.sub(r"[^\w.=-]+", "_", family.label)
            found[f"sweep-{name}-{family.parameters[0]}-by-{around}"] = figure
    return found


def plot_parameter(
    sweep: Sweep, parameter: str, ax: Axes | None = None, *, policy: str | None = None, environment: str | None = None
) -> Axes:
    """Regret against a parameter, with a band of one standard error; best and recommended values are marked.

    A policy that sweeps others as well is drawn only if it is named, at the best values of the others.
    """
    if policy is None:
        chosen = [family for family in sweep.families if family.parameters == (parameter,)]
    else:
        chosen = [sweep.family(policy)]
    known = {name for family in sweep.families if family in chosen or policy is None for name in family.parameters}
    check_known("swept parameter", parameter, known)
    if not chosen:
        raise ValueError(f"parameter={parameter!r}: is not swept alone; name the policy, or give two parameters")
    ax = _axes(ax)
    scale = Scale.of(value for family in chosen for value in _values(family, parameter))
    scale.dress(ax.xaxis, parameter)
    line_styles = styles(sweep.policies)
    marks: set[str] = set()
    drawn = []
    for n, family in enumerate(chosen):
        shifted = dataclasses.replace(scale, shift=_BESIDE * (n - (len(chosen) - 1) / 2))
        drawn.append(
            _draw_settings(sweep, family, parameter, environment, ax, shifted, line_styles[family.label], marks)
        )
    lowest, highest = float(np.nanmin(np.concatenate(drawn))), float(np.nanmax(np.concatenate(drawn)))
    for family in sweep.families:
        if not family.parameters and policy is None:
            found = sweep.regret(family.label, environment)
            ax.axhline(
                found.mean[0], label=family.label, linewidth=1.2, **line_styles[family.label] | {"linestyle": "--"}
            )
    if _is_wide(lowest, highest):
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    _dress_regret(ax, lowest, highest)
    ax.set_ylabel(f"regret after {sweep.horizon:,} steps")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    _legend(ax, marks)
    return ax


def plot_map(
    sweep: Sweep, policy: str, x: str, y: str, ax: Axes | None = None, *, environment: str | None = None
) -> Axes:
    """Regret of a policy for every value of two parameters, at the best values of the others."""
    family = sweep.family(policy)
    for name in (x, y):
        check_known(f"swept parameter of {policy}", name, family.parameters)
    ax = _axes(ax)
    across, up = (Scale.of(_values(family, name)) for name in (x, y))
    points, found = _envelope(sweep, family, (x, y), environment)
    regret = np.full((len(up.values), len(across.values)), np.nan)
    places = [(up.values.index(family.values(p)[y]), across.values.index(family.values(p)[x])) for p in points]
    for place, mean in zip(places, found.mean, strict=True):
        regret[place] = mean
    across.dress(ax.xaxis, x)
    up.dress(ax.yaxis, y)
    mesh = ax.pcolormesh(across.edges(), up.edges(), regret, cmap="viridis", norm=_norm(regret), rasterized=True)
    others = ", the least over all others" if len(family.parameters) > 2 else ""
    bar = _figure(ax).colorbar(mesh, ax=ax, pad=0.02, label=f"regret after {sweep.horizon:,} steps{others}")
    _dress_regret(bar.ax, float(np.nanmin(regret)), float(np.nanmax(regret)))
    marks = {"best"}
    dropped = [place for place, complete in zip(places, found.complete, strict=True) if not complete]
    if dropped:
        marks.add("dropped")
        rows, columns = (list(part) for part in zip(*dropped, strict=True))
        at = (across.at(across.values)[columns], up.at(up.values)[rows])
        ax.scatter(*at, s=4, color="white", alpha=0.8, linewidths=0, gid="dropped")
    best = sweep.best(policy, environment)
    ax.plot(across.at([best.parameters[x]]), up.at([best.parameters[y]]), gid="best", **_BEST | {"color": "white"})
    known = sweep.recommended(policy, environment)
    if all(name in known for name in (x, y)) and across.holds(known[x]) and up.holds(known[y]):
        marks.add(_reason(family, (x, y)))
        ax.plot(across.at([known[x]]), up.at([known[y]]), gid="reference", **_REFERENCE | {"color": "white"})
    _legend(ax, marks)
    return ax


def plot_comparison(sweep: Sweep, ax: Axes | None = None, *, environment: str | None = None) -> Axes:
    """The ratio of regret of two policies, for every pair of values of the parameters they sweep."""
    swept = [family for family in sweep.families if family.parameters]
    if len(swept) != 2 or any(len(family.parameters) > 1 for family in swept):
        raise ValueError("a comparison is of two policies that sweep one parameter each")
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    ax = _axes(ax)
    one, other = swept
    (x,), (y,) = one.parameters, other.parameters
    across, up = Scale.of(_values(one, x)), Scale.of(_values(other, y))
    ratio = np.full((len(up.values), len(across.values)), np.nan)
    unclear = np.zeros(ratio.shape, np.bool_)
    mine, its = sweep.regret(one.label, environment).mean, sweep.regret(other.label, environment).mean
    columns = [across.values.index(p.values[0]) for p in one.points]
    for point, regret in zip(other.points, its, strict=True):
        row = up.values.index(point.values[0])
        ratio[row, columns] = mine / regret
        difference, error = sweep.differences([p.spec for p in one.points], point.spec, environment)
        unclear[row, columns] = np.abs(difference) <= _CLEAR * error
    line_styles = styles(sweep.policies)
    colours = [line_styles[one.label]["color"], "#f7f7f7", line_styles[other.label]["color"]]
    cmap = LinearSegmentedColormap.from_list("comparison", colours)
    across.dress(ax.xaxis, f"{one.label}: {x}")
    up.dress(ax.yaxis, f"{other.label}: {y}")
    norm = LogNorm(1 / _RATIO, _RATIO)
    mesh = ax.pcolormesh(across.edges(), up.edges(), ratio, cmap=cmap, norm=norm, rasterized=True)
    bar = _figure(ax).colorbar(mesh, ax=ax, pad=0.02, extend="both")
    ticks = {1 / 4: "4×", 1 / 2: "2×", 1 / 1.2: "1.2×", 1: "equal", 1.2: "1.2×", 2: "2×", 4: "4×"}
    _fixed_ticks(bar.ax.yaxis, ticks)
    bar.set_label(f"← {one.label} better    regret    {other.label} better →", fontsize=8)
    rows, there = np.nonzero(unclear)
    marks = {"best"}
    if len(rows):
        marks.add("unclear")
        at = (across.at(across.values)[there], up.at(up.values)[rows])
        ax.scatter(*at, s=5, color="0.35", linewidths=0, gid="unclear")
    best = [sweep.best(family.label, environment).parameters for family in swept]
    ax.plot(across.at([best[0][x]]), up.at([best[1][y]]), gid="best", **_BEST)
    known = [sweep.recommended(family.label, environment) for family in swept]
    if x in known[0] and y in known[1] and across.holds(known[0][x]) and up.holds(known[1][y]):
        marks.add(_reason(one, (x,)))
        ax.plot(across.at([known[0][x]]), up.at([known[1][y]]), gid="reference", **_REFERENCE | {"color": "white"})
    _legend(ax, marks)
    return ax


def environment_parameter(sweep: Sweep) -> str | None:
    """The parameter of the environment, if the environments of the sweep differ in nothing else."""
    names = {name for trial in sweep.trials for name in trial.parameters}
    return names.pop() if len(names) == 1 and all(trial.parameters for trial in sweep.trials) else None


def plot_environments(sweep: Sweep, policy: str, ax: Axes | None = None) -> Axes:
    """The best value of a policy's parameter as a function of the environment's parameter.

    Colours show the regret of a value relative to the best one in that environment.
    """
    family, around = sweep.family(policy), environment_parameter(sweep)
    if around is None or len(family.parameters) != 1:
        raise ValueError("the environments, and the policy, must differ in one parameter each")
    from matplotlib.colors import LogNorm

    ax = _axes(ax)
    (x,) = family.parameters
    across = Scale.of(_values(family, x))
    up = Scale.of(trial.parameters[around] for trial in sweep.trials)
    across.dress(ax.xaxis, f"{policy}: {x}")
    up.dress(ax.yaxis, f"{sweep.trials[0].result.environment}: {around}")
    ratio = np.full((len(up.values), len(across.values)), np.nan)
    columns = [across.values.index(value) for value in _values(family, x)]
    marks = {"best"}
    for trial in sweep.trials:
        at = up.at([trial.parameters[around]])
        best = sweep.best(policy, trial.name)
        ratio[up.values.index(trial.parameters[around]), columns] = sweep.regret(policy, trial.name).mean / best.regret
        ax.plot(across.at([best.parameters[x]]), at, gid="best", **_BEST | {"color": "white"})
        if across.holds(best.recommended.get(x)):
            marks.add(_reason(family, (x,)))
            ax.plot(across.at([best.recommended[x]]), at, gid="reference", **_REFERENCE | {"color": "white"})
    top = max(1.1, min(_RATIO, float(np.nanmax(ratio))))
    mesh = ax.pcolormesh(across.edges(), up.edges(), ratio, cmap="viridis", norm=LogNorm(1.0, top), rasterized=True)
    bar = _figure(ax).colorbar(mesh, ax=ax, pad=0.02, extend="max", label="regret, relative to the best in the row")
    ticks = {1: "best", 1.1: "+10%", 1.2: "+20%", 1.5: "+50%", 2: "2×", 3: "3×", 4: "4×"}
    _fixed_ticks(bar.ax.yaxis, {at: text for at, text in ticks.items() if at <= top})
    _legend(ax, marks)
    return ax


# -- inside --------------------------------------------------------------------------------------------------------

_BEST: dict[str, Any] = {
    "marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.6, "color": "black",
    "linestyle": "none", "zorder": 5,
}  # fmt: skip
_REFERENCE: dict[str, Any] = {
    "marker": "*", "markersize": 13, "markeredgecolor": "black", "markeredgewidth": 0.7, "color": "black",
    "linestyle": "none", "zorder": 6, "clip_on": False,
}  # fmt: skip

#: marks in the legend, and what they mean
_SMALL: dict[str, dict[str, Any]] = {
    "best": _BEST | {"markersize": 8, "markeredgewidth": 1.2, "color": "black"},
    "theory": _REFERENCE | {"markersize": 9, "color": "white"},
    "default": _REFERENCE | {"markersize": 9, "color": "white"},
    "dropped": {"marker": "o", "markersize": 4, "color": "0.4", "linestyle": "none", "markerfacecolor": "white"},
    "unclear": {"marker": ".", "markersize": 5, "color": "0.35", "linestyle": "none"},
}
_MEANING = {
    "best": "best setting",
    "theory": "recommended by theory",
    "default": "default",
    "dropped": "dropped early: fewer runs",
    "unclear": "difference not clear",
}


def _parameter_panel(sweep: Sweep, parameter: str, ax: Axes, environment: str | None) -> None:
    plot_parameter(sweep, parameter, ax, environment=environment)


def _map_panel(sweep: Sweep, policy: str, x: str, y: str, ax: Axes, environment: str | None) -> None:
    plot_map(sweep, policy, x, y, ax, environment=environment)


def _comparison_panel(sweep: Sweep, ax: Axes, environment: str | None) -> None:
    plot_comparison(sweep, ax, environment=environment)


def _panels(sweep: Sweep, draw: Draw) -> Figure:
    """A panel for every environment, under one legend."""
    n = len(sweep.trials)
    if n == 1:
        figure = new_figure(7.0, 4.6)
        draw(figure.add_subplot(), sweep.environments[0])
        return figure
    columns = 2 if n == 4 else min(COLUMNS, n)
    figure = new_figure(4.6 * columns, 3.4 * math.ceil(n / columns) + 0.3)
    axes = figure.subplots(math.ceil(n / columns), columns, squeeze=False).ravel()
    legend: dict[str, Any] = {}
    for ax, name in zip(axes, sweep.environments, strict=False):
        draw(ax, name)
        ax.set_title(name, fontsize=9, loc="left")
        own = ax.get_legend()
        legend |= {text.get_text(): handle for text, handle in zip(own.texts, own.legend_handles, strict=True)}
        own.remove()
    for empty in axes[n:]:
        empty.set_axis_off()
    figure.legend(
        legend.values(), legend, loc="outside upper left", ncols=3 * columns, frameon=False, fontsize=9,
        handletextpad=0.4, columnspacing=1.2,
    )  # fmt: skip
    return figure


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    need("plots", "matplotlib")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(7.0, 4.6), layout="constrained").add_subplot()


def _figure(ax: Axes) -> Any:
    return ax.figure


def _values(family: Family, parameter: str) -> list[Any]:
    return [family.values(point)[parameter] for point in family.points]


def _envelope(
    sweep: Sweep, family: Family, names: tuple[str, ...], environment: str | None
) -> tuple[list[Point], Estimates]:
    """The best setting for every choice of some parameters, with its regret."""
    found = sweep.regret(family.label, environment)
    least: dict[tuple[Any, ...], int] = {}
    for i, point in enumerate(family.points):
        key = tuple(family.values(point)[name] for name in names)
        if key not in least or found.mean[i] < found.mean[least[key]]:
            least[key] = i
    chosen = list(least.values())
    return [family.points[i] for i in chosen], found.of(chosen)


def _draw_settings(
    sweep: Sweep,
    family: Family,
    parameter: str,
    environment: str | None,
    ax: Axes,
    scale: Scale,
    line_styles: dict[str, Any],
    marks: set[str],
) -> NDArray[np.float64]:
    """A line of regret, or dots for text values, and marks; returns the regret."""
    points, found = _envelope(sweep, family, (parameter,), environment)
    order = np.argsort([scale.values.index(family.values(p)[parameter]) for p in points])
    at = scale.at([family.values(p)[parameter] for p in points])[order]
    mean, error, complete = found.mean[order], found.error[order], found.complete[order]
    colour = line_styles["color"]
    if scale.words:
        ax.errorbar(at, mean, error, linestyle="none", color=colour, elinewidth=1.6, label=family.label)
    else:
        ax.plot(at, mean, linewidth=1.6, label=family.label, **line_styles)
        ax.fill_between(at, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    dots = {"s": 12, "color": colour, "linewidths": 0.9, "zorder": 3}
    ax.scatter(at[complete], mean[complete], **dots)
    if not complete.all():
        marks.add("dropped")
        ax.scatter(at[~complete], mean[~complete], gid="dropped", **dots | {"color": "white", "edgecolors": colour})
    best = sweep.best(family.label, environment)
    marks.add("best")
    ax.plot(scale.at([best.parameters[parameter]]), best.regret, gid="best", **_BEST)
    reference = sweep.reference(family.label, environment)
    if reference is None:
        return found.mean
    marks.add(_reason(family, (parameter,)))
    value = best.recommended.get(parameter)
    if scale.holds(value):
        place = scale.at([value])
        ax.plot(place, reference.mean, gid="reference", **_REFERENCE | {"color": colour})
        if not scale.words:
            _write_value(ax, place[0], f"{value:,}" if isinstance(value, int) else f"{value:.5g}")
    else:
        ax.axhline(reference.mean[0], color=colour, linewidth=0.8, linestyle=":", gid="reference")
    return found.mean


def _write_value(ax: Axes, at: float, text: str) -> None:
    if text not in {written.get_text() for written in ax.texts}:
        ax.axvline(at, color="0.6", linewidth=0.8, linestyle=":", zorder=1)
        ax.annotate(
            text, (at, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="right", va="bottom", fontsize=8,
            color="0.4",
        )  # fmt: skip


def _reason(family: Family, names: tuple[str, ...]) -> str:
    """The kind of a policy's defaults: from theory, or plain."""
    policy: Any = parse_policy(family.reference or "")
    for name in names:
        value = policy
        for part in name.split("."):
            value = getattr(value, part)
        if value == "auto":
            return "theory"
    return "default"


def _norm(regret: NDArray[np.float64]) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    low, high = float(np.nanmin(regret)), float(np.nanmax(regret))
    return LogNorm(low, high) if _is_wide(low, high) else Normalize(low, high)


def _is_wide(low: float, high: float) -> bool:
    """True if a logarithmic scale is needed."""
    return high > _WIDE * low > 0.0


def _dress_regret(ax: Axes, low: float, high: float) -> None:
    """Short numbers on the axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if _is_wide(low, high):
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,), numticks=20))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(lambda value, _: short(value))


def _fixed_ticks(axis: Any, ticks: dict[float, str]) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_minor_locator(NullLocator())
    axis.set_ticks(list(ticks), list(ticks.values()))


def _legend(ax: Axes, marks: set[str]) -> None:
    """Lines, then marks; above the axes, so that it hides nothing."""
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    for mark, meaning in _MEANING.items():
        if mark in marks:
            handles.append(Line2D([], [], **_SMALL[mark]))
            labels.append(meaning)
    ax.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize=8,
        borderaxespad=0.2, handletextpad=0.4, columnspacing=1.0,
    )  # fmt: skip
