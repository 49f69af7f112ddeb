"""Policies beside the caller's own order, in simulations of Traffic."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.traffic.traffic import AGES
from driftrank.validation import check_integer

if TYPE_CHECKING:
    from driftrank.experiments.simulation.result import Result

#: the most windows by default
_WINDOWS = 6


@dataclass(frozen=True)
class Comparison:
    """Some lists of a policy, and the caller's in their place. Clicks are expected ones, without the noise of users."""

    first: int  #: the first list, or the least age or frequency of a query
    last: int | None  #: the last; None: there is no limit
    lists: float  #: in a run
    clicks: float  #: of a list
    caller: float  #: the same in the caller's order
    best: float  #: the same of the best list
    gain: float  #: clicks - caller
    error: float  #: its standard error over runs
    regret: float  #: of all these lists in a run

    @property
    def name(self) -> str:
        """Such as ``1-500``."""
        return f"{self.first:,}-{self.last:,}" if self.last is not None else f"{self.first:,} or more"


def has_caller(result: Result) -> bool:
    """True if the lists of a simulation have an order of the caller's."""
    return "baseline" in result.measures


def windows(result: Result, policy: str, edges: Sequence[int] | None = None) -> list[Comparison]:
    """Comparisons between ``edges``: 0 or checkpoints."""
    edges = window_edges(result) if edges is None else list(edges)
    for step in edges:
        check_integer("edges", step, 0, result.horizon)
    return [
        _comparison(begin + 1, end, np.array(end - begin, float), *_between(result, policy, begin, end, ""))
        for begin, end in itertools.pairwise(edges)
    ]


def groups(result: Result, policy: str, kind: str) -> list[Comparison]:
    """Comparisons by age or frequency of the query; groups without lists are left out."""
    found = []
    for n, least in enumerate(AGES):
        last = AGES[n + 1] - 1 if n + 1 < len(AGES) else None
        lists = result.values_of(policy, f"lists_{kind}_{least}")[..., -1]
        if np.nansum(lists) > 0:
            found.append(
                _comparison(least, last, lists, *_between(result, policy, 0, result.horizon, f"_{kind}_{least}"))
            )
    return found


def window_edges(result: Result) -> list[int]:
    """Checkpoints that part a run into windows, each about twice as long as the one before."""
    steps = result.checkpoints.tolist()
    wanted = [result.horizon / 2**n for n in range(_WINDOWS - 1, -1, -1)]
    return sorted({0, *(min(steps, key=lambda step: abs(step - edge)) for edge in wanted)})


def caller_summary(result: Result, policy: str) -> dict[str, Any]:
    """The comparisons for ``summary.json``; empty without a caller's order."""
    if not has_caller(result):
        return {}
    tables = {
        "against_caller": windows(result, policy), "by_age": groups(result, policy, "age"),
        "by_frequency": groups(result, policy, "frequency"),
    }  # fmt: skip
    return {name: [plain(row) for row in rows] for name, rows in tables.items()}


def _between(result: Result, policy: str, begin: int, end: int, group: str) -> list[NDArray[np.float64]]:
    """Regret, reward and baseline of the lists begin+1 .. end, by run."""
    found = []
    for measure in ("regret", "reward", "baseline"):
        values = result.values_of(policy, measure + group)
        total = values[..., result.place(end)]
        found.append(total - values[..., result.place(begin)] if begin else total)
    return found


def _comparison(
    first: int,
    last: int | None,
    lists: NDArray[np.float64],
    regret: NDArray[np.float64],
    reward: NDArray[np.float64],
    baseline: NDArray[np.float64],
) -> Comparison:
    """Means over runs; runs without such lists, and unfinished ones, do not count."""
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN
        clicks, caller, best = (float(np.nanmean(x / lists)) for x in (reward, baseline, reward + regret))
        gains = ((reward - baseline) / lists).ravel()
        gains = gains[~np.isnan(gains)]
        error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("nan")
        return Comparison(
            first, last, float(np.nanmean(lists)), clicks, caller, best, clicks - caller, error,
            float(np.nanmean(regret)),
        )  # fmt: skip


def plain(row: Comparison) -> dict[str, Any]:
    """As JSON: None for NaN."""
    return {name: None if value != value else value for name, value in dataclasses.asdict(row).items()}
