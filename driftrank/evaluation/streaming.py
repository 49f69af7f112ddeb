"""Confidence sequences of a stream of numbers: intervals that hold at all times at once.

Both kinds are about the running mean of the rows' conditional means, which may change with time. The *normal mixture*
is for rows of any range whose variance can be estimated, the *empirical Bernstein* mixture for rows that are not
negative. Intervals by betting against one constant mean are not offered: they reject the true average when the mean
changes.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from driftrank.evaluation.empirical_bernstein import empirical_bernstein_low
from driftrank.evaluation.sequences import PLANNED, mixture_width
from driftrank.validation import check_choice, check_integer, check_number

#: kinds of sequences
KINDS = ("normal-mixture", "empirical-bernstein")

#: effective rows from which on the normal mixture has an interval
_ENOUGH = 100


class Sequence:
    r"""A confidence sequence for the running mean of a stream of numbers.

    Parameters
    ----------
    kind
        ``"normal-mixture"``: rows of any range; before the 100th effective row, :math:`(\sum |x|)^2 / \sum x^2`, its
        ends are infinite.
        ``"empirical-bernstein"``: rows that are not negative, such as weighted rewards; only their lower end, unless
        the second argument of :meth:`add` has the weighted losses, whose mean is 1 minus that of the rewards.
    planned
        The number of rows at which the normal mixture is to be narrowest, chosen before the first look.

    Examples
    --------
    >>> sequence = Sequence(planned=200)
    >>> low, high = sequence.add([0, 1, 1, 0, 2] * 40).interval()
    >>> round(low, 9), round(high, 9)
    (0.639379274, 0.960620726)
    """

    def __init__(self, alpha: float = 0.05, kind: str = "normal-mixture", planned: int = PLANNED) -> None:
        check_number("alpha", alpha, 0, 1, open_low=True, open_high=True)
        check_choice("kind", kind, KINDS)
        check_integer("planned", planned, 1)
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
        """The interval now; infinite as long as there are too few rows."""
        rows, t = self._rows, self.lists
        if not t:
            return -math.inf, math.inf
        if self.kind == "empirical-bernstein":
            low = empirical_bernstein_low(rows.total, rows.v, t, self.alpha / 2)
            if self._losses.lists < t:
                return low, math.inf
            return low, 1 - empirical_bernstein_low(self._losses.total, self._losses.v, t, self.alpha / 2)
        if rows.absolute**2 < _ENOUGH * rows.squares or not rows.squares:
            return -math.inf, math.inf
        mean = rows.total / t
        half = math.sqrt(max(rows.squares / t - mean**2, 0.0)) * mixture_width(t, self.planned, self.alpha)
        return mean - half, mean + half


class _Guessed:
    """Sums of rows, and their squared distances from the mean of the rows before them (of 1/2 and these)."""

    def __init__(self) -> None:
        self.lists, self.total, self.absolute, self.squares, self.v = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        number = self.lists + np.arange(1, len(rows) + 1)
        before = self.total + np.cumsum(rows) - rows
        guess = np.minimum((0.5 + before) / number, 1.0)  # at most 1, which the proof needs
        self.v += float(((rows - guess) ** 2).sum())
        self.lists += len(rows)
        self.total += float(rows.sum())
        self.absolute += float(np.abs(rows).sum())
        self.squares += float((rows**2).sum())
