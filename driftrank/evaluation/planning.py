"""Lists that an answer needs, and what exploring would change: variances in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from driftrank.evaluation.special import normal_quantile
from driftrank.validation import check_number


def softmax_propensities(order: Sequence[int], ranking: Sequence[int], temperature: float) -> list[float]:
    """The conditional propensities of a list when an order is shown through a softmax by rank.

    Positions are filled from the top; an item of rank r (from 0) is drawn in proportion to ``exp(-r / temperature)``.

    >>> [round(p, 6) for p in softmax_propensities([0, 1, 2], [0, 1], 1.0)]
    [0.665241, 0.731059]
    """
    check_number("temperature", temperature, 0, open_low=True)
    weight = {item: math.exp(-rank / temperature) for rank, item in enumerate(order)}
    out = []
    for item in ranking:
        own = weight.pop(item, 0.0)
        left = sum(weight.values()) + own  # not by subtraction: the first weight may be all but the whole
        out.append(own / left if left > 0 else 0.0)
    return out


def mixture_propensities(shares: Sequence[float], propensities: Sequence[Sequence[float]]) -> list[float]:
    """The conditional propensities of a list when one of several policies was drawn to show it.

    Policies are drawn with probabilities ``shares``; ``propensities`` are those of the same list under each. Weights
    with the mixture in the denominator vary less than with those of the policy that was drawn (balance heuristic).

    >>> [round(p, 6) for p in mixture_propensities([0.8, 0.2], [[1.0, 1.0], [1 / 3, 1 / 2]])]
    [0.866667, 0.961538]
    """
    if len(shares) != len(propensities) or not shares or abs(sum(shares) - 1) > 1e-9:
        raise ValueError(f"shares={list(shares)!r}: must be one probability per policy, with the sum 1")
    prefixes = np.asarray(shares)[:, None] * np.cumprod(np.asarray(propensities, float), axis=1)
    mixed = np.concatenate([[1.0], prefixes.sum(axis=0)])
    given = np.divide(mixed[1:], mixed[:-1], out=np.zeros(len(mixed) - 1), where=mixed[:-1] > 0)
    return [float(p) for p in given]


def prefix_variance(hazards: Sequence[float], propensities: Sequence[float]) -> float:
    r"""The variance of a list's number in the estimator "prefix", for one list with these chances of a click:
    :math:`\sum_k W_k P(f = k) - V^2`.

    >>> round(prefix_variance([0.5, 0.3], [1 / 3, 1 / 2]), 6)
    1.9775
    """
    h = np.asarray(hazards, float)
    weight = 1 / np.cumprod(propensities)
    reach = np.concatenate([[1.0], np.cumprod(1 - h)])
    return float((weight * reach[:-1] * h).sum() - (1 - reach[-1]) ** 2)


def robust_variance(hazards: Sequence[float], propensities: Sequence[float]) -> float:
    r"""The variance of a list's number in the estimator "dr", with a model that is right:
    :math:`\sum_k W_k P(f \ge k) h_k (1 - h_k) S_{k+1}^2`.

    >>> round(robust_variance([0.5, 0.3], [1 / 3, 1 / 2]), 6)
    0.9975
    """
    h = np.asarray(hazards, float)
    weight = 1 / np.cumprod(propensities)
    reach = np.concatenate([[1.0], np.cumprod(1 - h)])
    rest = reach[-1] / np.maximum(reach[1:], 1e-300)
    return float((weight * reach[:-1] * h * (1 - h) * rest**2).sum())


def lists_for(variance: float, within: float, level: float = 0.95) -> int:
    """The number of lists for an interval of plus or minus ``within``.

    >>> lists_for(1.9775, 0.01)
    75965
    """
    check_number("within", within, 0, 1, open_low=True)
    return math.ceil((normal_quantile(level) / within) ** 2 * variance)
