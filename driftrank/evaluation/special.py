"""Functions of statistics that the standard library lacks: quantiles of Student's t, incomplete gamma functions."""

from __future__ import annotations

import math
from statistics import NormalDist

#: from this shape on, the incomplete gamma function is taken from its uniform expansion: error below 1e-7
_LARGE = 1000.0


def normal_quantile(level: float) -> float:
    """The half-width of a two-sided normal interval, in standard errors.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + level / 2)


def t_quantile(level: float, freedom: int) -> float:
    """The half-width of a two-sided interval by Student's t, in standard errors.

    The expansion of Cornish and Fisher around the normal quantile (Abramowitz and Stegun, 26.7.5): at 95%, its error is
    below 1e-6 from 20 degrees of freedom on.

    >>> round(t_quantile(0.95, 199), 6)
    1.971957
    """
    z, n = normal_quantile(level), freedom
    square = z * z
    first = (square + 1) / 4
    second = ((5 * square + 16) * square + 3) / 96
    third = (((3 * square + 19) * square + 17) * square - 15) / 384
    fourth = ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160
    return z * (1 + (first + (second + (third + fourth / n) / n) / n) / n)


def log_lower_gamma(a: float, x: float) -> float:
    r"""The logarithm of :math:`\gamma(a, x) = \int_0^x t^{a-1} e^{-t} dt`, for positive a and x.

    >>> round(math.exp(log_lower_gamma(1.0, 2.0)), 6)  # 1 - exp(-2)
    0.864665
    """
    lower, _ = _log_shares(a, x)
    return lower + math.lgamma(a)


def chi_square_p(statistic: float, freedom: int) -> float:
    """The probability that a chi-square number of this many degrees of freedom is at least as large; NaN for none.

    >>> round(chi_square_p(3.841459, 1), 6), chi_square_p(1.0, 0)
    (0.05, nan)
    """
    if freedom < 1:
        return math.nan
    return 1.0 if statistic <= 0 else math.exp(_log_shares(freedom / 2, statistic / 2)[1])


def _log_shares(a: float, x: float) -> tuple[float, float]:
    """Logarithms of the regularised lower and upper incomplete gamma functions."""
    if a >= _LARGE:
        lower, upper = _uniform(a, x)
        return math.log(max(lower, 1e-300)), math.log(max(upper, 1e-300))
    front = a * math.log(x) - x - math.lgamma(a)
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-17:
            n += 1
            term *= x / n
            total += term
        lower = front + math.log(total)
        return lower, math.log(max(-math.expm1(lower), 1e-300)) if lower < 0 else -math.inf
    upper = front + math.log(_fraction(a, x))
    return math.log1p(-math.exp(upper)) if upper < 0 else -math.inf, upper


def _fraction(a: float, x: float) -> float:
    """The continued fraction of the upper function (Lentz)."""
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def _uniform(a: float, x: float) -> tuple[float, float]:
    """Temme's uniform expansion, with its first term."""
    ratio = x / a
    eta = math.copysign(math.sqrt(max(2 * (ratio - 1 - math.log(ratio)), 0.0)), ratio - 1)
    first = 1 / (ratio - 1) - 1 / eta if abs(eta) > 1e-4 else -1 / 3 + eta / 12
    more = math.exp(-a * eta * eta / 2) / math.sqrt(2 * math.pi * a) * first
    root = eta * math.sqrt(a / 2)
    return 0.5 * math.erfc(-root) - more, 0.5 * math.erfc(root) + more
