"""Normal, Gamma and Beta random numbers, each a function of a key."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import GAMMA_FACTOR, NEXT_TRY, derive, uniform

_1, _8, _9, _12, _33 = (np.uint64(n) for n in (1, 8, 9, 12, 33))
_LOW_8 = np.uint64(0xFF)
_LOW_24 = np.uint64(0xFFFFFF)

# The ziggurat of Marsaglia and Tsang (2000): 256 layers of equal area under exp(-x^2/2), the lowest with the tail
# beyond _EDGE. Computed with our own functions, so that the tables are the same on every machine.
_EDGE = 3.6541528853610088
_AREA = 0.00492867323399


def _layers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Width of every layer, the part of it that is entirely under the curve, and the curve's height at its edge."""
    log_, exp_ = pure(log), pure(exp)
    width, height = np.zeros(256), np.zeros(256)
    width[0] = _AREA / exp_(-0.5 * _EDGE * _EDGE)  # as if the tail were part of a rectangle
    width[1] = _EDGE
    for i in range(2, 256):
        x = width[i - 1]
        width[i] = np.sqrt(-2.0 * log_(_AREA / x + exp_(-0.5 * x * x)))
    for i in range(256):
        height[i] = exp_(-0.5 * width[i] * width[i])
    inner = np.append(width[1:], 0.0) / width
    return width, inner, height


_WIDTH, _INNER, _HEIGHT = _layers()


@kernel
def _normal_outside(z, layer):
    """The part of the ziggurat outside the rectangles, one try in a hundred. Returns (x, True if it is accepted)."""
    if layer == 0:
        n = 1
        while True:  # the tail
            x = -log(uniform(derive(z, n)) + 1e-300) / _EDGE
            y = -log(uniform(derive(z, n + 1)) + 1e-300)
            if y + y > x * x:
                return _EDGE + x, True
            n += 2
    x = np.float64(z >> _33) * 4.656612873077393e-10 * _WIDTH[layer]
    low = _HEIGHT[layer]
    high = _HEIGHT[layer + np.uint64(1)] if layer < np.uint64(255) else 1.0
    return x, low + uniform(derive(z, 0)) * (high - low) < exp(-0.5 * x * x)


@kernel
def normal(key):
    """A standard normal number."""
    z = np.uint64(key)
    while True:
        layer = z & _LOW_8
        u = np.float64(z >> _33) * 4.656612873077393e-10  # 31 bits
        x = u * _WIDTH[layer]
        good = u < _INNER[layer]
        if not good:
            x, good = _normal_outside(z, layer)
        if good:
            return -x if (z >> _8) & _1 else x
        z = derive(z, NEXT_TRY)


@kernel
def inner_uniform(key):
    """A uniform number in (0, 1): -ln U is a finite exponential number, and -ln(-ln U) a Gumbel number."""
    return (np.float64(np.uint64(key) >> _12) + 0.5) * 2.220446049250313e-16


@kernel
def _log_boost(key, stream, shape):
    """ln U^(1/shape): Gamma(shape) = U^(1/shape) Gamma(shape + 1)."""
    return log(uniform(derive(key, GAMMA_FACTOR - np.uint64(stream))) + 1e-300) / shape


@kernel
def _gamma_above_one(key, stream, d, c):
    """A Gamma(d + 1/3, 1) number by the method of Marsaglia and Tsang (2000); c = 1/sqrt(9 d)."""
    n = stream
    while True:
        z = derive(key, n)
        n += 2
        x = normal(z)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = (np.float64((z >> _9) & _LOW_24) + 0.5) * 5.960464477539063e-08  # bits that normal() does not use
            square = x * x
            if u < 1.0 - 0.0331 * square * square:
                return d * v
            if log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                return d * v


@kernel
def _gamma_stream(key, stream, shape):
    """A Gamma(shape, 1) number from one of two independent streams of a key."""
    if shape < 1.0:
        d = shape + 2.0 / 3.0
        return exp(_log_boost(key, stream, shape)) * _gamma_above_one(key, stream, d, gamma_scale(d))
    d = shape - 1.0 / 3.0
    return _gamma_above_one(key, stream, d, gamma_scale(d))


@kernel
def gamma_scale(d):
    """The constant c for d = shape - 1/3, for callers that store it."""
    return 1.0 / np.sqrt(9.0 * d)


@kernel
def gamma(key, shape):
    """A Gamma(shape, 1) number, shape > 0."""
    return _gamma_stream(key, 0, shape)


@kernel
def beta(key, a, b):
    """A Beta(a, b) number."""
    x = _gamma_stream(key, 0, a)
    total = x + _gamma_stream(key, 1, b)
    if total > 0.0:
        return x / total
    # both underflow: with such shapes the result is almost 0 or 1
    return 1.0 if _log_boost(key, 0, a) > _log_boost(key, 1, b) else 0.0


@kernel
def beta_above_one(key, a, scale_a, b, scale_b):
    """``beta(key, a, b)`` for a, b >= 1 with precomputed scales, ``gamma_scale(a - 1/3)`` and so on."""
    x = _gamma_above_one(key, 0, a - 1.0 / 3.0, scale_a)
    return x / (x + _gamma_above_one(key, 1, b - 1.0 / 3.0, scale_b))
