"""The automatic choice of an estimator (SLOPE: Su, Srinath and Krishnamurthy, 2020), for comparisons of estimators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftrank.evaluation.base import Estimator
from driftrank.evaluation.estimators.cascade_dr import CascadeDR
from driftrank.evaluation.estimators.direct import DirectMethod

#: in commands and results
AUTO = "auto"

#: from the least bias to the least variance: the model stands in for more and more, and at last for all
CANDIDATES: tuple[Estimator, ...] = (*(CascadeDR(clip) for clip in (math.inf, 100, 30, 10, 3)), DirectMethod())


def slope(candidates: Sequence[tuple[float, float]]) -> int:
    """The last of several values that agrees with all before it; each has a standard error.

    They go from the least bias to the least variance. The choice has about the smallest error of all, but no interval:
    a bias that the errors of the first ones hide goes unnoticed.

    >>> slope([(0.5, 0.1), (0.6, 0.02), (0.9, 0.01)])
    1
    """
    best = 0
    for i, (value, error) in enumerate(candidates[1:], 1):
        if any(abs(value - v) > 2 * (error + (math.sqrt(6) - 1) * e) for v, e in candidates[:i]):
            break
        best = i
    return best
