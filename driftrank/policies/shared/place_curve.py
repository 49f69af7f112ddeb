r"""A curve over the place in the caller's order: logits at the places 1, 2, 4, ..., 4096, linear in :math:`\log_2`.

Knots learn from each other: their covariance is kept in full, as the lower triangle of a matrix. It returns slowly to
the first one, so that the curve can move. Fields of the shared model, for each of its models: ``curve`` (the means),
``spread`` (the covariance); ``gain`` is a buffer.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log

KNOTS = 13
#: numbers of the covariance
SPREAD = KNOTS * (KNOTS + 1) // 2
_PER_LN2 = 1.4426950408889634
#: the covariance returns to the first one by this much at every label
_RETURN = 2e-4


def _first_curve() -> tuple[np.ndarray, np.ndarray]:
    """The means and the covariance before the first label."""
    spread = np.zeros(SPREAD)
    for i in range(KNOTS):
        for j in range(i + 1):
            spread[i * (i + 1) // 2 + j] = 1.0 + 0.05 * i * j + 0.1 * min(i, j)
    return -1.5 - 0.45 * np.arange(KNOTS), spread


FIRST_CURVE, FIRST_SPREAD = _first_curve()


@kernel
def knot_below(place):
    """The knot at or before a place, and the part of the way from it to the next one."""
    x = log(place) * _PER_LN2
    k = min(np.int64(x), KNOTS - 2)
    return k, min(x - k, 1.0)


@kernel
def _covariance(h, j, a, b):
    """The covariance of two knots of model ``j``."""
    low = min(a, b)
    high = max(a, b)
    return h.spread[j * SPREAD + high * (high + 1) // 2 + low]


@kernel
def curve_at(h, j, k, f):
    """Mean and variance of the logit of model ``j``, the part ``f`` of the way after knot ``k``."""
    i = j * KNOTS + k
    eta = (1.0 - f) * h.curve[i] + f * h.curve[i + 1]
    v = (1.0 - f) * (1.0 - f) * _covariance(h, j, k, k) + 2.0 * f * (1.0 - f) * _covariance(h, j, k + 1, k)
    return eta, v + f * f * _covariance(h, j, k + 1, k + 1)


@kernel
def move_curve(h, j, k, f, step, shrink):
    """Learn a label there: a Kalman step, ``step`` = g (y-p)/R and ``shrink`` = g^2/R."""
    for a in range(KNOTS):
        h.gain[a] = (1.0 - f) * _covariance(h, j, a, k) + f * _covariance(h, j, a, k + 1)
    i = j * SPREAD
    for a in range(KNOTS):
        h.curve[j * KNOTS + a] += h.gain[a] * step
        less = h.gain[a] * shrink
        for b in range(a + 1):
            c = h.spread[i] - less * h.gain[b]
            h.spread[i] = c + _RETURN * (FIRST_SPREAD[i - j * SPREAD] - c)
            i += 1
