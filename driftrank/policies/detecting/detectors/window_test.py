"""WindowTest: a comparison of the two halves of the latest labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, integers
from driftrank.policies.detecting.detectors.base import SHORTEST, Detector, DetectorPlan
from driftrank.validation import check_integer, check_number

_BITS = 16  #: labels per number of the ring


@kernel
def _threshold(window, L, n):
    """b = sqrt((w/2) ln(2 L n^2))."""
    return np.sqrt(0.5 * window * log(2.0 * L * n * n))


@kernel
def _label(s, row, place):
    return (s.ring[row + (place >> 4)] >> (place & 15)) & 1


@dataclass(frozen=True, kw_only=True)
class WindowTest(Detector):
    r"""The test of M-UCB (Cao, Wen, Kveton and Xie, 2019).

    It fires when the sums of the first and of the second half of the last w labels differ by more than b.

    Parameters
    ----------
    window
        w, an even number; 800 in the paper's experiments.
    b
        The threshold; ``"auto"``: :math:`\sqrt{\frac w2 \ln(2 L n^2)}` if the horizon n is known, with L the number
        of items, else ``"anytime"``: the same with the step t for n, from 100 on.

    Notes
    -----
    Guarantee, with ``b="auto"`` and a known horizon: no false alarm in n steps with probability at least 1 - 1/n. A
    change by less than :math:`2b/w` (0.26 at w = 800, n = 100,000, L = 10) is never detected, nor any before an item
    has been observed w times.

    State: L (w/16 + 4) integers, w/16 rounded up; O(1) a label.

    Examples
    --------
    >>> WindowTest(window=4, b=1.5).run([0, 0, 1, 1]), WindowTest(window=4, b=1.5).run([0, 1, 0, 1])
    ([4], [])
    """

    window: int = 800
    b: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("window", self.window, 2, 2**30)
        if self.window % 2:
            raise ValueError(f"window={self.window!r}: must be even")
        if self.b not in ("auto", "anytime"):
            check_number('b ("auto", "anytime" or a number)', self.b, 0, open_low=True)

    def numbers(self, plan: DetectorPlan) -> dict[str, float]:
        anytime = self.b == "anytime" or (self.b == "auto" and plan.horizon is None)
        return {
            "ring_window": self.window,
            "ring_words": self._words,
            "ring_anytime": int(anytime),
            "ring_b": self._b(plan) if not anytime else 0.0,
        }

    @property
    def _words(self) -> int:
        return -(-self.window // _BITS)

    def _b(self, plan: DetectorPlan) -> float:
        if not isinstance(self.b, str):
            return float(self.b)
        return float(pure(_threshold)(self.window, plan.L, plan.horizon or SHORTEST))

    def fields(self) -> dict[str, Field]:
        return {
            "ring": integers("L", self._words),
            "ring_place": integers("L"),  # the place of the next label
            "ring_full": integers("L"),
            "ring_old": integers("L"),  # the sum of the w/2 labels before the last w/2
            "ring_new": integers("L"),  # the sum of the last w/2 labels
        }

    def exploration(self, plan: DetectorPlan, n_breakpoints: int) -> float:
        """p = sqrt(Upsilon L (2 b + 3 sqrt w) / (2 n)), as in the paper's experiments."""
        n = max(plan.horizon or 1, 2)
        span = 2.0 * self._b(plan) + 3.0 * math.sqrt(self.window)
        return min(1.0, math.sqrt(n_breakpoints * plan.L * span / (2.0 * n)))

    @staticmethod
    @kernel
    def observe(p, s, e, a, y):
        row = np.int64(a) * p.ring_words
        place = np.int64(s.ring_place[a])
        half = p.ring_window >> 1
        middle = place - half if place >= half else place + half
        label = 1 if y else 0
        there = _label(s, row, place)
        full = s.ring_full[a]
        oldest = there if full else 0  # before the ring is full, its labels are from before it was cleared
        passing = _label(s, row, middle) if full or place >= half else 0
        s.ring_new[a] += label - passing
        s.ring_old[a] += passing - oldest
        s.ring[row + (place >> 4)] ^= (there ^ label) << (place & 15)
        place += 1
        if place == p.ring_window:
            place = 0
            s.ring_full[a] = 1
        s.ring_place[a] = place
        if not s.ring_full[a]:
            return False
        b = _threshold(p.ring_window, p.L, np.float64(max(e.t, SHORTEST))) if p.ring_anytime else p.ring_b
        return abs(s.ring_new[a] - s.ring_old[a]) > b

    @staticmethod
    @kernel
    def clear(p, s, a):
        s.ring_place[a] = 0
        s.ring_full[a] = 0
        s.ring_old[a] = 0
        s.ring_new[a] = 0
