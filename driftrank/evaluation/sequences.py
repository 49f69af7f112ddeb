"""Confidence sequences: intervals that hold at all times at once, so that one may look whenever one likes.

Both are about the running mean of the rows' conditional means, which may change with time.

- The *normal mixture* (Waudby-Smith et al., 2024, asymptotic): for rows of any range whose variance can be estimated.
- The *empirical Bernstein* mixture (Howard et al., 2021; off-policy: Karampatziakis et al., 2021), for weighted rewards
  that are not negative: holds at every size, and is 2 to 4 times wider.

Intervals by betting against one constant mean are not offered: they reject the true average when the mean changes.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from driftrank.evaluation.special import log_lower_gamma
from driftrank.validation import check_choice, check_number

#: groups of users whose sums are kept apart, so that the lists of one user need not be independent
BUCKETS = 200

#: kinds of sequences
KINDS = ("normal-mixture", "empirical-bernstein")

_BISECTIONS = 60


def mixture_width(t: float, planned: float, alpha: float = 0.05) -> float:
    r"""The half-width of the normal mixture after ``t`` rows, for rows of standard deviation 1.

    .. math:: \sqrt{\frac{2(t\rho^2+1)}{t^2\rho^2} \ln\frac{\sqrt{t\rho^2+1}}{\alpha}}, \quad
        \rho^2 = \frac{-2\ln\alpha + \ln(-2\ln\alpha) + 1}{t^*}

    Parameters
    ----------
    planned
        The number of rows at which it is to be narrowest, :math:`t^*`; must be fixed before the first look.

    >>> round(mixture_width(200, 200), 6)
    0.214638
    """
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / planned
    more = t * rho2 + 1
    return math.sqrt(2 * more / (t * t * rho2) * math.log(math.sqrt(more) / alpha))


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


class Sequence:
    """A confidence sequence for the running mean of a stream of numbers.

    Parameters
    ----------
    kind
        ``"normal-mixture"``: rows of any range; looks count from the 100th effective row on.
        ``"empirical-bernstein"``: rows that are not negative, such as weighted rewards; only their lower end, unless
        the second argument of :meth:`add` has the weighted losses, whose mean is 1 minus that of the rewards.
    planned
        The number of rows at which the normal mixture is to be narrowest; by default that at the first look.

    Examples
    --------
    >>> sequence = Sequence(planned=200)
    >>> low, high = sequence.add([0, 1, 1, 0, 2] * 40).interval()
    >>> round(low, 9), round(high, 9)
    (0.639379274, 0.960620726)
    """

    def __init__(self, alpha: float = 0.05, kind: str = "normal-mixture", planned: float | None = None) -> None:
        check_number("alpha", alpha, 0, 1, open_low=True, open_high=True)
        check_choice("kind", kind, KINDS)
        if planned is not None:
            check_number("planned", planned, 1)
        self.alpha, self.kind, self.planned = alpha, kind, planned
        self.lists = 0
        self._rows, self._losses = _Guessed(), _Guessed()

    def add(self, rows: ArrayLike, losses: ArrayLike | None = None) -> Self:
        """Add rows in the order of time."""
        values = np.asarray(rows, float)
        if self.kind == "empirical-bernstein" and (values < 0).any():
            raise ValueError(f"rows={values.min():g}: must not be negative")
        self._rows.add(values)
        if losses is not None:
            self._losses.add(np.asarray(losses, float))
        self.lists += len(values)
        return self

    def interval(self) -> tuple[float, float]:
        """The interval now; infinite before the first row."""
        rows, t = self._rows, self.lists
        if not t:
            return -math.inf, math.inf
        if self.kind == "empirical-bernstein":
            low = empirical_bernstein_low(rows.total, rows.v, t, self.alpha / 2)
            if self._losses.lists < t:
                return low, math.inf
            return low, 1 - empirical_bernstein_low(self._losses.total, self._losses.v, t, self.alpha / 2)
        if self.planned is None:
            self.planned = t
        mean = rows.total / t
        half = math.sqrt(max(rows.squares / t - mean**2, 0.0)) * mixture_width(t, self.planned, self.alpha)
        return mean - half, mean + half


class _Guessed:
    """Sums of rows, and their squared distances from the mean of the rows before them (of 1/2 and these)."""

    def __init__(self) -> None:
        self.lists, self.total, self.squares, self.v = 0, 0.0, 0.0, 0.0

    def add(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        number = self.lists + np.arange(1, len(rows) + 1)
        before = self.total + np.cumsum(rows) - rows
        guess = np.minimum((0.5 + before) / number, 1.0)  # at most 1, which the proof needs
        self.v += float(((rows - guess) ** 2).sum())
        self.lists += len(rows)
        self.total += float(rows.sum())
        self.squares += float((rows**2).sum())
