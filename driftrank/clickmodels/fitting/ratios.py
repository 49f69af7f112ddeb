"""Estimates that are ratios of counts, with Wilson's interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.fitting.counts import PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions, Indices, ratio
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.intervals import wilson


class RatioCounts(NamedTuple):
    """Numerator and denominator of a ratio."""

    successes: Indices
    trials: Indices


def fit_ratios(
    model: type[ClickModel], counts: PositionCounts, ratios: Mapping[str, RatioCounts], options: FitOptions
) -> Fit:
    """Estimate every parameter by (successes + a) / (trials + b). Intervals are those of the counts without the prior,
    widened to include the estimate."""
    views = by_pair(counts, counts.views)
    prior = options.attraction(float(counts.clicks.sum()), float(views.sum()))
    value, low, high = {}, {}, {}
    for name, (successes, trials) in ratios.items():
        value[name] = ratio(successes, trials, prior if name == "attraction" else options.others)
        ends = wilson(successes, trials, options.level)
        low[name], high[name] = np.minimum(ends[0], value[name]), np.maximum(ends[1], value[name])
    return Fit.of(model, counts, views, value, low, high, options, prior)


def by_pair(counts: PositionCounts, values: NDArray[np.int64]) -> Indices:
    """Sum over the rows of every pair."""
    return _sums(counts.pair, values, len(counts.pairs))


def by_rank(counts: PositionCounts, values: NDArray[np.int64], per_query: bool) -> Indices:
    """(groups, ranks): sum over the rows of every rank, of each query by itself or of all of them."""
    groups = len(counts.pairs.queries) if per_query else 1
    group = counts.pairs.query[counts.pair].astype(np.int64) if per_query else 0
    cell = group * counts.k + np.maximum(counts.rank, 1) - 1  # rows without a rank have no clicks
    return _sums(cell, values, groups * counts.k).reshape(groups, counts.k)


def _sums(where: NDArray[np.integer], values: NDArray[np.int64], size: int) -> Indices:
    # exact: integers below 2^53
    return np.bincount(where, values, size).astype(np.int64)
