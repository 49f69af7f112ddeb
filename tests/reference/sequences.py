"""Confidence sequences and the comparison of arms, from the formulas, with the whole history in memory."""

from __future__ import annotations

from typing import Any

import numpy as np


def sequence(x: Any, planned: int, alpha: float = 0.05) -> tuple[Any, Any]:
    """The ends of the asymptotic confidence sequence after each term."""
    x = np.asarray(x, float)
    t = np.arange(1, len(x) + 1)
    mean = np.cumsum(x) / t
    sd = np.sqrt(np.maximum(np.cumsum(x**2) / t - mean**2, 0.0))
    rho = np.sqrt((-2 * np.log(alpha) + np.log(-2 * np.log(alpha)) + 1) / planned)
    half = sd * np.sqrt(2 * (t * rho**2 + 1) / (t**2 * rho**2) * np.log(np.sqrt(t * rho**2 + 1) / alpha))
    return mean - half, mean + half


def terms(reward: Any, arm: Any, shares: Any, one: int, other: int) -> Any:
    """(r_i - g_i) (1{one} / p_one - 1{other} / p_other), with g_i the mean reward of all lists before i."""
    reward, arm, shares = np.asarray(reward, float), np.asarray(arm), np.asarray(shares, float)
    before = np.concatenate([[0.0], np.cumsum(reward)[:-1] / np.arange(1, len(reward))])
    weight = np.where(arm == one, 1 / shares, np.where(arm == other, -1 / shares, 0.0))
    return (reward - before) * weight


def jackknife(psi: Any, bucket: Any, buckets: int = 200) -> float:
    """The standard error of a mean, leaving out one bucket after the other."""
    psi, bucket = np.asarray(psi, float), np.asarray(bucket)
    without = np.array([psi[bucket != b].mean() for b in range(buckets)])
    return float(np.sqrt((buckets - 1) / buckets * ((without - without.mean()) ** 2).sum()))


def below_terms(below: Any, above: Any, differ: Any, arm: Any, shares: Any, one: int, other: int) -> Any:
    """The terms of clicks below the shared prefix; g_i is their mean over the lists of the two arms before i that
    differ, and that have a click above or not, as i.
    """
    below, above, differ = np.asarray(below, float), np.asarray(above) > 0, np.asarray(differ, bool)
    arm, shares = np.asarray(arm), np.asarray(shares, float)
    out = np.zeros(len(below))
    for i in np.flatnonzero(differ & ((arm == one) | (arm == other))):
        like = differ[:i] & ((arm[:i] == one) | (arm[:i] == other)) & (above[:i] == above[i])
        g = below[:i][like].mean() if like.any() else 0.0
        out[i] = (below[i] - g) / shares[i] * (1 if arm[i] == one else -1)
    return out
