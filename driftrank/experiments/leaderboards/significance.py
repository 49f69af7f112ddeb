"""Paired comparisons: the significance of a mean difference, and of many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: the most signs whose choices are all tried
MOST_SIGNS = 28


def paired_p(differences: ArrayLike) -> float:
    """Student's t test, two-sided: the p-value of a mean of 0. NaN for fewer than two differences.

    >>> round(paired_p([1.0, 2.0, 3.0]), 5)
    0.07418
    """
    values = np.asarray(differences, float)
    n = len(values)
    if n < 2:
        return math.nan
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return student_p(mean / error, n - 1)


def permutation_p(differences: ArrayLike) -> float:
    """The permutation test of paired differences, two-sided and exact: the share of all choices of their signs whose
    sum is as far from 0. It assumes nothing but that either sign was equally likely. NaN for fewer than two.

    More than 28 differences are averaged in 28 groups, so that all signs can be tried.

    >>> permutation_p([1.0, 2.0, 3.0, -0.5])
    0.25
    """
    values = np.asarray(differences, float)
    if len(values) < 2:
        return math.nan
    if len(values) > MOST_SIGNS:
        values = np.array([group.mean() for group in np.array_split(values, MOST_SIGNS)])
    # the sums of the first half for all signs, beside those of the second
    first, second = (np.sort(_signed_sums(half)) for half in np.array_split(values, 2))
    least = abs(float(values.sum())) * (1.0 - 1e-12)  # of equal sums one may be rounded down
    above = len(second) - np.searchsorted(second, least - first, "left")
    below = np.searchsorted(second, -least - first, "right")
    return min(1.0, float((above + below).sum()) / (len(first) * len(second)))


def _signed_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums for all choices of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def student_p(t: float, freedom: int) -> float:
    """The probability of a t-distributed number as far from 0 as t: I_x(freedom / 2, 1 / 2) at x = f / (f + t^2)."""
    square = t * t
    return _beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for multiple tests (Holm, 1979): if those up to 0.05 are called significant, all calls are
    right with a probability of 95%. NaN (not tested) stays NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tested = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[i] = largest
    return adjusted


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function I_x(a, b); ``rest`` is 1 - x, without loss of digits."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges fast on the other side
        return 1.0 - _beta(b, a, rest, x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(log) / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 + factor * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + factor / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value
