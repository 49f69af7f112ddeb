"""Confidence sequences: intervals that hold at all times together, so that they may be looked at whenever one likes."""

from __future__ import annotations

import math

#: groups of users whose sums are kept apart, so that the lists of one user need not be independent
BUCKETS = 200


def mixture_width(t: int, planned: int, alpha: float = 0.05) -> float:
    """Half-width of the asymptotic confidence sequence after ``t`` terms of standard deviation 1.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024): with rho^2 = (-2 ln alpha + ln(-2 ln alpha) + 1) / planned,

        sqrt(2 (t rho^2 + 1) / (t^2 rho^2) ln(sqrt(t rho^2 + 1) / alpha))

    It is narrowest, compared with one look, at ``planned`` terms, which must be chosen beforehand. It covers the mean
    of the terms so far, which may change over time.

    >>> round(mixture_width(20_000, 20_000) * 20_000**0.5 / 1.96, 2)
    1.55
    """
    spread = -2.0 * math.log(alpha)
    rho2 = (spread + math.log(spread) + 1.0) / planned
    grown = t * rho2 + 1.0
    return math.sqrt(2.0 * grown / (t * t * rho2) * math.log(math.sqrt(grown) / alpha))
