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
#: a list with a smaller probability is not shown in anybody's lifetime
_RAREST = 1e-9


def needed(
    log: Log | str | os.PathLike[str], target: Rankings, *, within: float = WITHIN, explore: float = TEMPERATURES[0]
) -> int | None:
    """The number of lists for an interval of plus or minus ``within`` on the value of these lists, by query, if the
    present order of each query is shown through a softmax by rank of temperature ``explore``.

    None if it has items that were never shown, or that stand so far down that they would hardly ever be shown. See
    :func:`lists_if_explored`.
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
    unseen: bool = False  #: True if the target has items that were never shown: they come last in the order

    @property
    def order(self) -> str:
        """The order to show, for sentences."""
        return "the present order" + ", and below it the items that were never shown," * self.unseen


def best_exploration(rows: LogRows, target: FixedTarget, within: float = WITHIN) -> Exploration | None:
    """The temperature that needs the fewest lists.

    Items that were never shown are taken for as attractive as the others of their query.
    """
    found = [(lists_if_explored(rows, target, within, T, guess=True), T) for T in TEMPERATURES]
    unseen = bool((target.items[0] == -1).any())
    known = [Exploration(T, lists, within, unseen) for lists, T in found if lists is not None]
    return min(known, key=lambda way: way.lists, default=None)


def lists_if_explored(
    rows: LogRows, target: FixedTarget, within: float, temperature: float, guess: bool = False
) -> int | None:
    """The number of lists after which the doubly robust estimate has this half-width, if from now on the present order
    of each query is shown through a softmax by rank; None if the target has items that were never shown, or if its list
    of a query would hardly ever be shown.

    The present order is that of how often and how high items stood since the last change. With ``guess``, items that
    were never shown come last, and attract as the mean of their query.
    """
    labels = rows.labels
    depth = 1 / np.arange(1, rows.k + 1)
    values, variances, shares = [], [], []
    for code in range(len(rows.queries)):
        ranking = target.items[0, code]
        ranking = ranking[ranking != -2]
        if not len(ranking):
            continue
        unseen = ranking < 0
        if unseen.any() and not guess:
            return None
        segment = rows.begin[code + 1] - 1
        own = slice(labels.start[segment], labels.start[segment + 1])
        order = np.argsort(-(labels.shown[own] @ depth), kind="stable")
        ranking = np.where(unseen, len(order) + np.arange(len(ranking)), ranking)
        places = [*order.tolist(), *ranking[unseen].tolist()]
        hazards = _hazards(labels.looks[:, own], labels.clicks[:, own], int(ranking.max()) + 1)[ranking]
        chances = softmax_propensities(places, ranking.tolist(), temperature)
        if np.prod(chances) < _RAREST:
            return None
        variances.append(robust_variance(hazards.tolist(), chances))
        values.append(1 - np.prod(1 - hazards))
        shares.append(rows.lists_of[code])
    return lists_for(_total_variance(values, variances, shares), within) if values else None


def _hazards(looks: Floats, clicks: Floats, count: int) -> Floats:
    """Attraction of the items of a query, drawn towards the mean as by two looks; up to ``count``, that of items which
    were never shown.
    """
    n, c = (np.pad(x.sum(axis=(0, 2)), (0, max(0, count - x.shape[1]))) for x in (looks, clicks))
    mean = (c.sum() + 0.5) / (n.sum() + 2)
    rate: Floats = (c + 2 * mean) / (n + 2)
    return rate


def _total_variance(values: Sequence[Any], variances: Sequence[Any], shares: Sequence[Any]) -> float:
    """Of a row: within queries, and between them."""
    weight = np.asarray(shares, float) / np.sum(shares)
    value = np.asarray(values, float)
    return float(weight @ np.asarray(variances) + weight @ (value - weight @ value) ** 2)
