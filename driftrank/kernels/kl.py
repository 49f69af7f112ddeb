"""Bernoulli Kullback-Leibler divergence and its confidence bounds."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel
from driftrank.kernels.elementary import exp, log


@kernel
def entropy(p):
    """p ln p + (1-p) ln(1-p), with 0 ln 0 = 0: the part of kl(p, q) that does not depend on q."""
    total = 0.0
    if p > 1e-300:  # below, log may be -inf
        total += p * log(p)
    if p < 1.0:
        total += (1.0 - p) * log(1.0 - p)
    return total


@kernel
def kl(p, q):
    """kl(p, q) = p ln(p/q) + (1-p) ln((1-p)/(1-q)), with 0 ln 0 = 0."""
    total = entropy(p)
    if p > 0.0:
        total -= p * log(q)
    if p < 1.0:
        total -= (1.0 - p) * log(1.0 - q)
    return total


@kernel
def kl_ucb_given(p, d, negative_entropy):
    """``kl_ucb(p, d)`` with a precomputed ``entropy(p)``."""
    if d < 1e-12:
        # kl(p, q) - d would be all rounding error; one standard deviation is as close as possible
        return p if d <= 0.0 else min(1.0, p + d + np.sqrt(d * (d + 2.0 * p * (1.0 - p))))
    if p >= 1.0 or d == np.inf:
        return 1.0
    if p <= 0.0:
        return 1.0 - exp(-d)
    # two upper bounds: Pinsker's, and the solution of (q-p)^2 = 2 q d, which is tighter for small p
    high = min(p + np.sqrt(0.5 * d), p + d + np.sqrt(d * (d + 2.0 * p)))
    if high > 0.95:
        # steps shrink with 1-q, so Newton would stop far from the root; near 1 the term -p ln q is negligible, and
        # the bound without it almost exact
        high = min(high, 1.0 - exp((negative_entropy - d) / (1.0 - p)))
        if high >= 1.0:
            return 1.0
    # Start from the first three terms of the root's expansion in sqrt(d), usually close enough for one step of Halley's
    # method, which is of third order: a last step of a thousandth of the distance to p, and to 1, leaves an error of
    # 1e-9 of that. Far from the root Newton's method is safer: kl(p, .) is convex, so after one step it is right of the
    # root, and then descends to it.
    q = high
    variance = p * (1.0 - p)
    if d < variance:
        slope = 1.0 - 2.0 * p
        x = np.sqrt(2.0 * d * variance)
        q = min(high, p + x + d * (0.6666666666666666 * slope + x * (slope * slope / (18.0 * variance) - 0.5)))
        if not q > p:
            q = high
    for _ in range(30):
        rest = 1.0 - q
        way = q - p
        excess = negative_entropy - (1.0 - p) * log(rest) - p * log(q) - d
        bend = excess * (p * rest * rest + (1.0 - p) * q * q)
        square = way * way
        near = abs(bend) < square
        step = 2.0 * excess * q * rest * way / (2.0 * square - bend if near else 2.0 * square)
        q = min(q - step, high)
        if near and abs(step) < 1e-3 * min(q - p, 1.0 - q):
            break
    return q


@kernel
def kl_ucb(p, d):
    """max {q in [p, 1]: kl(p, q) <= d}."""
    return kl_ucb_given(p, d, entropy(p))


@kernel
def kl_lcb(p, d):
    """min {q in [0, p]: kl(p, q) <= d}."""
    return 1.0 - kl_ucb(1.0 - p, d)


@kernel
def exploration_level(t, c):
    """f_c(t) = ln t + c ln(max(1, ln t))."""
    level = log(np.float64(t))
    if level > 1.0:
        level += c * log(level)
    return level
