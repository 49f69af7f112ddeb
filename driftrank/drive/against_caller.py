"""The lists of a drive beside the caller's own order: over time, and by how often the query came before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.traffic.traffic import AGES
from driftrank.experiments.simulation.caller import Comparison, plain
from driftrank.experiments.simulation.caller_figure import comparison_figure
from driftrank.reporting.table import Table
from driftrank.validation import check_choice, check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from driftrank.drive.result import DriveResult

#: clicks that are expected of a list, or those of its user
CLICKS = ("expected", "realised")
#: windows of a drive
_WINDOWS = 10
#: the normal quantile of an interval of 95%
_QUANTILE = 1.96


def windows(result: DriveResult, size: int | None = None, clicks: str = "expected") -> list[Comparison]:
    """Comparisons in windows of ``size`` lists; by default a tenth of all. Windows without lists are left out."""
    size = max(1, math.ceil(result.steps / _WINDOWS)) if size is None else size
    check_integer("size", size, 1)
    found = []
    for first in range(0, result.steps, size):
        last = min(first + size, result.steps)
        inside = np.zeros(result.steps, bool)
        inside[first:last] = True
        found.append(_compared(result, first + 1, last, inside, clicks))
    return [row for row in found if row.lists]


def groups(result: DriveResult, clicks: str = "expected") -> list[Comparison]:
    """Comparisons by the number of earlier lists of the query."""
    found = []
    for least, more in zip(AGES, (*AGES[1:], None), strict=True):
        inside = (result.age >= least) & (result.age < (math.inf if more is None else more))
        found.append(_compared(result, least, None if more is None else more - 1, inside, clicks))
    return [row for row in found if row.lists]


def summary(result: DriveResult) -> dict[str, Any]:
    """The comparisons for ``summary.json``, with intervals of 95%."""
    tables = {clicks: (windows(result, clicks=clicks), groups(result, clicks)) for clicks in CLICKS}
    return {
        name: {clicks: [_with_interval(row) for row in rows[n]] for clicks, rows in tables.items()}
        for n, name in enumerate(("against_caller", "by_age"))
    }


def table(result: DriveResult, size: int | None = None) -> Table:
    """The comparisons for people: windows, all lists, and by age."""
    everything = _compared(result, 1, result.steps, np.ones(result.steps, bool), "expected")
    realised = _compared(result, 1, result.steps, np.ones(result.steps, bool), "realised")
    pairs = [
        *((f"lists {a.name}", a, b) for a, b in _both(windows, result, size)),
        ("all lists", everything, realised),
        *((f"query came {a.name} times before", a, b) for a, b in _both(groups, result)),
    ]
    rows = [
        (name, int(a.lists), a.clicks, a.caller, f"{a.gain:+.4f} ± {_QUANTILE * a.error:.4f}",
         f"{b.gain:+.4f} ± {_QUANTILE * b.error:.4f}")
        for name, a, b in pairs
    ]  # fmt: skip
    names = ("", "lists", "clicks a list", "caller's order", "gain, 95% interval", "gain in clicks of users")
    return Table(names, rows, (None, ",d", ".4f", ".4f", "", ""))


def figure(result: DriveResult) -> Figure:
    """Expected clicks a list against the caller's order, as simulations draw it."""
    label = f"served: {result.policy}"
    return comparison_figure({label: windows(result)}, {label: groups(result)}, result.breakpoints)


def _both(rows: Any, result: DriveResult, *options: Any) -> list[tuple[Comparison, Comparison]]:
    return list(zip(*(rows(result, *options, clicks=clicks) for clicks in CLICKS), strict=True))


def _compared(result: DriveResult, first: int, last: int | None, inside: NDArray[np.bool_], clicks: str) -> Comparison:
    """The live lists among those ``inside``. The standard error takes lists as independent."""
    check_choice("clicks", clicks, CLICKS)
    served, (best, caller, _) = result.reward[0], result.reference_reward[:, 0]
    if clicks == "realised":
        served, (best, caller, _) = result.clicks[0], result.reference_clicks[:, 0]
    chosen = inside & ~np.isnan(result.regret[0]) & ~result.held[0]
    n = int(chosen.sum())
    if not n:
        return Comparison(first, last, 0, *[math.nan] * 6)
    served, caller, best = served[chosen], caller[chosen], best[chosen]
    gain = served - caller
    error = float(gain.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Comparison(
        first, last, n, float(served.mean()), float(caller.mean()), float(best.mean()), float(gain.mean()), error,
        float((best - served).sum()),
    )  # fmt: skip


def _with_interval(row: Comparison) -> dict[str, Any]:
    """As JSON, with the ends of the interval of the gain."""
    reach = None if math.isnan(row.error) else _QUANTILE * row.error
    ends = (None, None) if reach is None else (row.gain - reach, row.gain + reach)
    return plain(row) | dict(zip(("low", "high"), ends, strict=True))
