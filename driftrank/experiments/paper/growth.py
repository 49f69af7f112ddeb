"""Figure 3: how regret grows with the horizon.

The theorems promise regret of the order of sqrt(n) ln n (CascadeDUCB), sqrt(n ln n) (CascadeSWUCB) and at least sqrt(n)
(any policy) when the horizon n grows while the number of breakpoints stays the same. So every horizon has runs of its
own, with the parameters recommended for it, in an environment whose period grows with it. (Along one long run with a
fixed period the number of breakpoints would grow too, and regret with it, linearly.)

How soon growth settles depends on the gaps. The instance of theorem 3 that ``driftrank bounds`` takes by default was
chosen because it settles early, among five that were tried with 16 runs each; fitted exponents over 10^3..10^6 of
CascadeDUCB and CascadeSWUCB: L=10, p=0.2, delta=0.1: 0.92, 0.80. L=10, p=0.3, delta=0.3: 0.84, 0.67. L=4, p=0.5,
delta=0.4: 0.74, 0.57. L=4, p=0.6, delta=0.5 (chosen): 0.73, 0.54. L=2, p=0.9, delta=0.8: 0.64, 0.50.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments import Environment
from driftrank.experiments.paper.bounds import lower_bound, theorem_policies, with_period
from driftrank.experiments.simulation.simulate import Simulation
from driftrank.progress import chosen_progress
from driftrank.reporting.plot_style import new_figure, styles
from driftrank.reporting.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: 10^3, 10^3.5, ... 10^6
HORIZONS = tuple(round(10 ** (3 + i / 2)) for i in range(7))
QUICK_HORIZONS = HORIZONS[:4]

#: the orders of growth: name, function, and label with the theorem
ORDERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sqrt(n)": (np.sqrt, r"$\sqrt{n}$ (theorem 3)"),
    "sqrt(n ln n)": (lambda n: np.sqrt(n * np.log(n)), r"$\sqrt{n\,\ln n}$ (theorem 2)"),
    "sqrt(n) ln n": (lambda n: np.sqrt(n) * np.log(n), r"$\sqrt{n}\,\ln n$ (theorem 1)"),
}


@dataclass(frozen=True)
class Growth:
    """Regret of runs with different horizons."""

    env: str
    n_breakpoints: int
    horizons: NDArray[np.int64]
    labels: list[str]
    mean: NDArray[np.float64]  #: (policy, horizon)
    error: NDArray[np.float64]
    lower: NDArray[np.float64] | None  #: theorem 3

    def slope(self, policy: str, decades: float | None = None) -> float:
        """Exponent b of regret ~ n^b, by least squares of the logarithms, over the last decades (default: all)."""
        regret = self.mean[self.labels.index(policy)]
        kept = regret > 0
        if decades is not None:
            kept &= self.horizons >= self.horizons[-1] / 10**decades * 0.999
        if kept.sum() < 2:
            return math.nan
        return float(np.polyfit(np.log(self.horizons[kept]), np.log(regret[kept]), 1)[0])

    def table(self) -> Table:
        """Fitted exponents, beside those of the theorems' orders over the same horizons."""
        rows = [(policy, self.slope(policy), self.slope(policy, 1)) for policy in self.labels]
        rows += [(name, self._order(f), self._order(f, 1)) for name, (f, _) in ORDERS.items()]
        return Table(("growth of regret", "exponent", "last decade"), rows, (None, ".2f", ".2f"))

    def to_json(self) -> dict[str, Any]:
        return {
            "horizons": self.horizons.tolist(),
            "regret": {policy: self.mean[i].tolist() for i, policy in enumerate(self.labels)},
            "se": {
                policy: [x if x == x else None for x in self.error[i].tolist()] for i, policy in enumerate(self.labels)
            },
            "exponents": {
                policy: {"all": self.slope(policy), "last_decade": self.slope(policy, 1)} for policy in self.labels
            },
            "lower_bound": None if self.lower is None else self.lower.tolist(),
        }

    def _order(self, f: Callable[[Any], Any], decades: float | None = None) -> float:
        kept = self.horizons >= (0 if decades is None else self.horizons[-1] / 10**decades * 0.999)
        n = self.horizons[kept].astype(float)
        return float(np.polyfit(np.log(n), np.log(f(n)), 1)[0])


def measure_growth(
    env: str,
    environment: Environment,
    *,
    at: int,
    horizons: Sequence[int] = HORIZONS,
    epsilon: float = 0.6,
    runs: int = 10,
    seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Growth:
    """Run both policies for every horizon; ``at`` is the horizon that the environment's period belongs to."""
    means, errors, labels = [], [], ["CascadeSWUCB", "CascadeDUCB"]
    worlds = [_scaled(environment, n / at) for n in horizons]
    steps = {label: sum(horizons) * runs * len(environment.queries) for label in labels}
    n_breakpoints = 0
    with chosen_progress(progress, steps) as bars:
        for n, world in zip(horizons, worlds, strict=True):
            n_breakpoints = len(world.breakpoints(n, seed=seed))
            policies = theorem_policies(epsilon, n_breakpoints)
            simulation = Simulation.prepare(policies, world, n, runs, seed, checkpoints=1, threads=threads)
            simulation.run("cpu", bars)
            pairs = [simulation.result.between(label) for label in labels]
            means.append([mean for mean, _ in pairs])
            errors.append([error for _, error in pairs])
    lower = [lower_bound(world, n) for n, world in zip(horizons, worlds, strict=True)]
    return Growth(
        env=env,
        n_breakpoints=n_breakpoints,
        horizons=np.array(horizons, np.int64),
        labels=labels,
        mean=np.array(means).T,
        error=np.array(errors).T,
        lower=None if lower[0] is None else np.array(lower, np.float64),
    )


def figure3(growths: Sequence[Growth]) -> Figure:
    """Regret against the horizon, both logarithmic, a panel for every environment."""
    figure = new_figure(5.4 * len(growths) + 0.4, 5.0)
    for ax, growth in zip(figure.subplots(1, len(growths), squeeze=False)[0], growths, strict=True):
        _panel(ax, growth)
    return figure


def _scaled(environment: Environment, factor: float) -> Environment:
    """The same number of breakpoints in a run that is ``factor`` times as long."""
    period = getattr(environment, "period", None)
    return environment if period is None else with_period(environment, max(1, math.ceil(period * factor)))


def _panel(ax: Axes, growth: Growth) -> None:
    n = growth.horizons.astype(float)
    dashes = ((1, 1.5), (4, 2), (6, 2, 1, 2))
    handles: list[Any] = []
    for i, (policy, style) in enumerate(styles(growth.labels).items()):
        mean, error = growth.mean[i], np.nan_to_num(growth.error[i])
        label = rf"{policy}: $n^{{{growth.slope(policy):.2f}}}$"
        bars: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.6, "capsize": 2}
        handles.insert(i, ax.errorbar(n, mean, yerr=error, label=label, **bars, **style))
        for (f, name), dash in zip(ORDERS.values(), dashes, strict=True):
            line = f(n) * mean[-1] / f(n[-1])
            (thin,) = ax.plot(n, line, color="0.45", linewidth=0.8, dashes=dash, zorder=1, label=name)
            handles += [thin] * (i == 0)
    if growth.lower is not None:
        handles += ax.plot(
            n, growth.lower, color="black", linewidth=1.2, linestyle=":", label="lower bound of theorem 3"
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("horizon n")
    ax.set_ylabel("regret after n steps")
    ax.set_title(f"{growth.env}, {growth.n_breakpoints} breakpoints", fontsize=10, loc="left")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(which="major", color="0.93", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.legend(handles=handles, frameon=False, fontsize=8, loc="upper left")
