"""The empirical Bernstein mixture: a confidence sequence for rows that are not negative, which holds at every size.

For weighted rewards (Howard et al., 2021; off-policy: Karampatziakis et al., 2021). It is about the running mean of the
rows' conditional means given the rows before, which may change with time. It assumes that a row's mean does not depend
on earlier rows of the same user: otherwise the rows must be sums over users, as in
:meth:`driftrank.evaluation.sums.Scope.bernstein`.
"""

from __future__ import annotations

import math

from driftrank.evaluation.special import log_lower_gamma

_BISECTIONS = 60


def log_wealth(s: float, v: float) -> float:
    """The logarithm of the gamma-exponential mixture: evidence that a sum exceeds that of its means by ``s``.

    ``v`` is the sum of squared distances of the rows from their guesses.

    >>> round(log_wealth(4.0, 3.3), 9)
    0.79250654
    """
    a = s + v + 1.0
    if a <= 0:
        return -math.inf
    return s + v - (v + 1.0) * math.log(a) + log_lower_gamma(v + 1.0, a) - log_lower_gamma(1.0, 1.0)


def empirical_bernstein_low(total: float, v: float, lists: float, alpha: float) -> float:
    """The lower end of a one-sided sequence for the running mean of rows that are not negative.

    Parameters
    ----------
    total, lists
        Sum and number of the rows.
    v
        Sum of squared distances from guesses, each at most 1 and made from earlier rows only.
    """
    level = math.log(1 / alpha)
    if lists <= 0 or log_wealth(total, v) <= level:
        return 0.0
    low, high = 0.0, total / lists
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if log_wealth(total - lists * middle, v) > level:
            low = middle
        else:
            high = middle
    return low
