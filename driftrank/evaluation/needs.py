"""The number of lists that a log would need to answer a question."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from driftrank.evaluation.base import Floats
from driftrank.evaluation.matching import FixedTarget
from driftrank.evaluation.planning import lists_for, robust_variance, softmax_propensities
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.targets import Rankings
from driftrank.logs.log import Log, open_log

#: of the softmax by rank, from mild to almost uniform
TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: half-width of the interval that is proposed
WITHIN = 0.02


def needed(
    log: Log | str | os.PathLike[str], target: Rankings, *, within: float = WITHIN, explore: float = TEMPERATURES[0]
) -> int | None:
    """The number of lists for an interval of plus or minus ``within`` on the value of these lists, by query, if the
    present order of each query is shown through a softmax by rank of temperature ``explore``.

    None if it has items that were never shown. See :func:`lists_if_explored`.
    """
    opened = log if isinstance(log, Log) else open_log(log)
    k = max(len(ranking) for ranking in target.values())
    with LogRows(opened, k) as rows:
        return lists_if_explored(rows, rows.fixed_target([target]), within, explore)


class Exploration(NamedTuple):
    """A way to get an answer: show the present order through a softmax by rank, and record the propensities."""

    temperature: float
    lists: int  #: after which the interval has this half-width
    within: float


def best_exploration(rows: LogRows, target: FixedTarget, within: float = WITHIN) -> Exploration | None:
    """The temperature that needs the fewest lists."""
    found = [(lists_if_explored(rows, target, within, T), T) for T in TEMPERATURES]
    known = [Exploration(T, lists, within) for lists, T in found if lists is not None]
    return min(known, key=lambda way: way.lists, default=None)


def lists_if_explored(rows: LogRows, target: FixedTarget, within: float, temperature: float) -> int | None:
    """The number of lists after which the doubly robust estimate has this half-width, if from now on the present order
    of each query is shown through a softmax by rank; None if the target has items that were never shown.

    The present order is that of how often and how high items stood since the last change.
    """
    labels = rows.labels
    depth = 1 / np.arange(1, rows.k + 1)
    values, variances, shares = [], [], []
    for code in range(len(rows.queries)):
        ranking = target.items[0, code]
        ranking = ranking[ranking != -2]
        if not len(ranking):
            continue
        if (ranking < 0).any():
            return None
        segment = rows.begin[code + 1] - 1
        own = slice(labels.start[segment], labels.start[segment + 1])
        order = np.argsort(-(labels.shown[own] @ depth), kind="stable")
        hazards = _hazards(labels.looks[:, own], labels.clicks[:, own])[ranking]
        chances = softmax_propensities(order.tolist(), ranking.tolist(), temperature)
        variances.append(robust_variance(hazards.tolist(), chances))
        values.append(1 - np.prod(1 - hazards))
        shares.append(rows.lists_of[code])
    return lists_for(_total_variance(values, variances, shares), within) if values else None


def _hazards(looks: Floats, clicks: Floats) -> Floats:
    """Attraction of the items of a query, drawn towards the mean as by two looks."""
    n, c = looks.sum(axis=(0, 2)), clicks.sum(axis=(0, 2))
    mean = (c.sum() + 0.5) / (n.sum() + 2)
    rate: Floats = (c + 2 * mean) / (n + 2)
    return rate


def _total_variance(values: Sequence[Any], variances: Sequence[Any], shares: Sequence[Any]) -> float:
    """Of a row: within queries, and between them."""
    weight = np.asarray(shares, float) / np.sum(shares)
    value = np.asarray(values, float)
    return float(weight @ np.asarray(variances) + weight @ (value - weight @ value) ** 2)
