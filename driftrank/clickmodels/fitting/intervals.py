r"""Confidence intervals of probabilities.

If an estimate is a ratio of counts, the interval is Wilson's. The estimates of EM have a variance on the logit scale,
from the inverse of the information: an attraction is then treated as a ratio out of as many trials as would give that
variance, :math:`n = 1 / (\sigma^2 p (1-p))`. For parameters of unobserved events (examination, satisfaction,
continuation), whose likelihood has no singularity at 0 and 1, the log-likelihood is approximated by a parabola on the
scale of the probability, with its slope if the estimate lies on the edge.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.validation import check_number

Numbers = NDArray[np.float64]
Ends = tuple[Numbers, Numbers]

#: the distance that estimates of EM keep from 0 and 1
EDGE = 1e-6


def quantile(level: float) -> float:
    """The number of standard deviations to either side that covers ``level`` of a normal distribution.

    >>> round(quantile(0.95), 3)
    1.96
    """
    check_number("level", level, 0, 1, open_low=True, open_high=True)
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(successes: Any, trials: Any, level: float = 0.95) -> Ends:
    """Wilson's score interval of a probability; [0, 1] if there are no trials.

    >>> low, high = wilson(4, 10)
    >>> round(float(low), 3), round(float(high), 3)
    (0.168, 0.687)
    """
    n = np.asarray(trials, np.float64)
    z2 = quantile(level) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.clip(np.where(n > 0, np.asarray(successes, np.float64) / n, 0.5), 0, 1)
        middle = (n * p + z2 / 2) / (n + z2)
        half = np.sqrt(z2 * (n * p * (1 - p) + z2 / 4)) / (n + z2)
    low = np.where(p == 0, 0.0, np.maximum(middle - half, 0))
    high = np.where(p == 1, 1.0, np.minimum(middle + half, 1))
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def pseudo_count_interval(p: Numbers, variance: Numbers, prior: tuple[float, float], level: float) -> Ends:
    """The interval of a probability whose logit has this variance: Wilson's for the ratio of counts with the same
    variance, less the ``prior``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        trials = np.where(variance < np.inf, 1.0 / (variance * p * (1 - p)), 0.0)
    seen = np.maximum(trials - prior[1], 0.0)
    low, high = wilson(np.clip(_to_the_edge(p) * trials - prior[0], 0.0, seen), seen, level)
    return np.minimum(low, p), np.maximum(high, p)


def parabola_interval(p: Numbers, variance: Numbers, score: Numbers, level: float) -> Ends:
    """The interval in which a log-likelihood of this variance and slope (``score``), both of the logit, falls by no
    more than half the square of the normal quantile."""
    z2 = quantile(level) ** 2
    scale = p * (1 - p)
    end = _to_the_edge(p)
    edge = (end == 0) | (end == 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(edge, np.abs(score) / scale, 0.0)
        bend = 1.0 / variance + np.where(edge, score * (1 - 2 * p), 0.0)
        bend = np.maximum(np.where(variance < np.inf, bend, 0.0), 0.0) / scale**2
        by = np.where(bend > 0, z2 / (slope + np.sqrt(slope**2 + bend * z2)), z2 / (2 * slope))
    by = np.where(np.isfinite(by), by, 1.0)
    low = np.maximum(p - by, 0)
    high = np.minimum(p + by, 1)
    return np.where(end == 0, 0.0, low), np.where(end == 1, 1.0, high)


def _to_the_edge(p: Numbers) -> Numbers:
    """Replace the smallest and largest possible estimates by 0 and 1."""
    return np.where(p <= EDGE * 1.001, 0.0, np.where(p >= 1 - EDGE * 1.001, 1.0, p))
