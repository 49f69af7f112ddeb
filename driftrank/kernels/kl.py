"""Bernoulli Kullback-Leibler divergence and the confidence bounds made of it."""

from __future__ import annotations

import numpy as np

from driftrank.kernels.compile import kernel
from driftrank.kernels.elementary import log


@kernel
def entropy(p):
    """p ln p + (1-p) ln(1-p), with 0 ln 0 = 0: the part of kl(p, q) that does not depend on q."""
    total = 0.0
    if p > 0.0:
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
    """``kl_ucb(p, d)`` where ``entropy(p)`` is at hand."""
    if d <= 0.0:
        return p
    if p >= 1.0 or d == np.inf:
        return 1.0
    # kl(p, .) is convex: Newton from the right descends to the root. Two upper bounds to start from: Pinsker's, and
    # the solution of (q-p)^2 = 2 q d, which is the better one for small p.
    q = min(p + np.sqrt(0.5 * d), p + d + np.sqrt(d * (d + 2.0 * p)))
    if q > 0.999999999999:
        q = 0.999999999999
        if negative_entropy - p * log(q) - (1.0 - p) * log(1.0 - q) < d:
            return 1.0
    for _ in range(20):
        excess = negative_entropy - (1.0 - p) * log(1.0 - q) - d
        if p > 0.0:
            excess -= p * log(q)
        step = excess * q * (1.0 - q) / (q - p)
        q -= step
        if step < 1e-10:
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
