"""Counter-based randomness: every draw is a function of what it is for, never of what was drawn before.

A key is 64 bits. ``derive(key, n)`` makes the n-th key below it, so keys form a tree: seed, query, run, step,
purpose, item. Drawing for one item says nothing about, and costs nothing for, the others.
The function is the finaliser of SplitMix64 over a Weyl sequence, which passes the usual batteries of tests.
"""

from __future__ import annotations

import hashlib

import numpy as np

from driftrank.kernels.compile import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.validation import check_integer

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_11, _12, _24, _27, _30, _31 = (np.uint64(n) for n in (11, 12, 24, 27, 30, 31))
_LOW_24 = np.uint64(0xFFFFFF)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)

#: purposes, the last branch of the tree but one
USERS = 1
POLICY = 2
WORLD = 3


@kernel
def derive(key, n):
    """The n-th key below ``key``."""
    z = np.uint64(key) + (np.uint64(n) + np.uint64(1)) * _WEYL
    z = (z ^ (z >> _30)) * _MULTIPLY_1
    z = (z ^ (z >> _27)) * _MULTIPLY_2
    return z ^ (z >> _31)


@kernel
def uniform(key):
    """The number in [0, 1) that belongs to a key."""
    return np.float64(key >> _11) * 1.1102230246251565e-16


@kernel
def below(key, n):
    """An integer in 0 .. n-1."""
    return np.int64(uniform(key) * n)


@kernel
def _normal_from(u):
    """The u-quantile of the standard normal distribution, u in (0, 1), with an error below 1e-8.

    The tails are left to 4% of the draws, since a branch that is hard to foresee costs more than a longer polynomial.
    """
    q = u - 0.5
    if abs(q) <= 0.48:
        r = q * q
        top = 2.506628282858152 + r * (
            -31.28046819265793
            + r * (144.49878521382607 + r * (-296.67316073308365 + r * (246.93543903132687 - r * 47.37795877836809)))
        )
        bottom = 1.0 + r * (
            -13.526297674202214
            + r * (69.5083939015207 + r * (-166.24302415507466 + r * (178.2836112325487 - r * 62.97370008189207)))
        )
        return q * top / bottom
    v = np.sqrt(-2.0 * log(u if q < 0.0 else 1.0 - u)) - 2.797149622536537
    top = 2.053748912318308 + v * (
        2.4111907109115056 + v * (0.8954701936131321 + v * (0.12592666164986097 + v * 0.005466163163330664))
    )
    bottom = 1.0 + v * (0.6114558421295893 + v * (0.11078542365318828 + v * 0.005464743521176661))
    return -top / bottom if q < 0.0 else top / bottom


@kernel
def normal(key):
    """A standard normal number."""
    # 52 bits: with 53 the largest would round to 1, which has no quantile
    return _normal_from((np.float64(key >> _12) + 0.5) * 2.220446049250313e-16)


@kernel
def _log_boost(key, stream, shape):
    """ln U^(1/shape): Gamma(shape) = U^(1/shape) Gamma(shape + 1)."""
    return log(uniform(derive(key, _LAST - np.uint64(stream))) + 1e-300) / shape


@kernel
def _gamma_stream(key, stream, shape):
    """A Gamma(shape, 1) number from one of two independent streams of a key."""
    boost = 1.0
    if shape < 1.0:
        boost = exp(_log_boost(key, stream, shape))
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    n = stream
    while True:
        z = derive(key, n)
        n += 2
        # one hash feeds both: 40 bits for the normal number, 24 for the rejection test
        x = _normal_from((np.float64(z >> _24) + 0.5) * 9.094947017729282e-13)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = (np.float64(z & _LOW_24) + 0.5) * 5.960464477539063e-08
            square = x * x
            if u < 1.0 - 0.0331 * square * square:
                return boost * d * v
            if log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                return boost * d * v


@kernel
def gamma(key, shape):
    """A Gamma(shape, 1) number, shape > 0, by the method of Marsaglia and Tsang (2000)."""
    return _gamma_stream(key, 0, shape)


@kernel
def beta(key, a, b):
    """A Beta(a, b) number."""
    x = _gamma_stream(key, 0, a)
    total = x + _gamma_stream(key, 1, b)
    if total > 0.0:
        return x / total
    # both are too small for a number: with shapes like that the result is next to 0 or 1
    return 1.0 if _log_boost(key, 0, a) > _log_boost(key, 1, b) else 0.0


def _branch(key: int, *path: int) -> int:
    """``derive`` along a path, without waiting for the compiler."""
    with np.errstate(over="ignore"):
        for n in path:
            key = int(pure(derive)(np.uint64(key), np.uint64(n)))
    return key


def run_key(seed: int, query: str, run: int) -> int:
    """The key of one run: everything random in it derives from this."""
    check_integer("seed", seed, 0, 2**64 - 1)
    check_integer("run", run, 0, 2**64 - 1)
    return _branch(0, seed, key_of(query), run)


def policy_key(run: int, t: int) -> int:
    """The key of a policy's randomness at step t of a run."""
    return _branch(run, t, POLICY)


def users_key(run: int, t: int) -> int:
    """The key of the users' randomness at step t of a run."""
    return _branch(run, t, USERS)


def world_key(run: int) -> int:
    """The key of the world's randomness in a run. Steps count from 1, so branch 0 is free for it."""
    return _branch(run, 0, WORLD)


def key_of(text: str) -> int:
    """64 bits that stand for a name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
