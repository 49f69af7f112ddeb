"""Counter-based randomness: every draw is a function of its purpose, never of earlier draws.

A key is 64 bits. ``derive(key, n)`` returns the n-th key below it, so keys form a tree: seed, query, run, step,
purpose, item. Draws for one item are independent of, and cost nothing for, the others.
The function is the finaliser of SplitMix64 over a Weyl sequence, which passes the usual batteries of tests.

Branches with a fixed meaning are defined here and nowhere else: two uses of one branch would be silently correlated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import kernel
from driftrank.validation import check_integer

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_64_BITS = 2**64 - 1
_11, _27, _30, _31 = (np.uint64(n) for n in (11, 27, 30, 31))

#: the run of learners that are evaluated on a log: their lists must not depend on the draws that made the log
EVALUATION_RUN = 2**64 - 1

# Branches below the key of a step; WORLD is below branch 0 of a run, which no step uses (steps count from 1).
USERS = 1
POLICY = 2
WORLD = 3

# Branches below a policy's key at a step. Those below 2^63 belong to items (a token is below 2^63) or positions.
#: a second set of numbers, independent of those of the items
SECOND_SET = np.uint64(2**63)
#: the places of an order that is shown through a softmax: see place_uniform
OF_PLACES = np.uint64(2**64 - 6)
#: the numbers of a list as a whole: see list_uniform
OF_LIST = np.uint64(2**64 - 5)
#: the place where a list without a click was left
LEFT_AT = np.uint64(2**64 - 4)
#: the item shown for exploration
EXPLORED_ITEM = np.uint64(2**64 - 3)
#: the decision to explore
EXPLORATION_COIN = np.uint64(2**64 - 2)
#: the regime that a step assumes
REGIME = np.uint64(2**64 - 1)

#: branch below the world's key: the first attraction of every item. Steps, items and epochs have smaller numbers.
FIRST_LEVELS = 2**62

# Branches below the world's key of Traffic, where each has branches by query, item, day or list.
TRAFFIC = (
    QUERY_STREAM, QUERY_EFFECT, QUERY_TOPIC, QUERY_SHIFT, CANDIDATES, CALLER_ORDER, CALL_ORDER, TOPIC_ITEMS,
    ITEM_EFFECT, ITEM_FEATURES, FEATURE_WEIGHTS, CROSS_EFFECT, OWN_EFFECT, OWN_SHIFT, NEW_ITEM, ITEM_SHIFT, SHOCK,
    SHOCKED_ITEM, SHUFFLE,
) = tuple(range(19))  # fmt: skip

# Branches below the key of a single random number, which uses small ones for its tries.
#: the next try of a normal number
NEXT_TRY = np.uint64(2**64 - 1)
#: the factor of a Gamma number whose shape is below 1: this branch for the first of two streams, the one before it for
#: the second. The same number as NEXT_TRY, but never below the same key: that one is below a try's key.
GAMMA_FACTOR = np.uint64(2**64 - 1)

#: reserved branches by the key that they are below: distinct in each, which a test checks
RESERVED = {
    "query": (EVALUATION_RUN,),
    "step": (USERS, POLICY),
    "run's branch 0": (WORLD,),
    "policy": (SECOND_SET, OF_PLACES, OF_LIST, LEFT_AT, EXPLORED_ITEM, EXPLORATION_COIN, REGIME),
    "world": (FIRST_LEVELS,),
    "world of Traffic": TRAFFIC,
    "normal number": (NEXT_TRY,),
    "Gamma number": (GAMMA_FACTOR, GAMMA_FACTOR - np.uint64(1)),
}

#: the largest key: an upper bound when the smallest is searched, not a branch
LARGEST_KEY = np.uint64(2**64 - 1)


@kernel
def derive(key, n):
    """The n-th key below ``key``."""
    z = np.uint64(key) + (np.uint64(n) + np.uint64(1)) * _WEYL
    z = (z ^ (z >> _30)) * _MULTIPLY_1
    z = (z ^ (z >> _27)) * _MULTIPLY_2
    return z ^ (z >> _31)


@kernel
def uniform(key):
    """The uniform number in [0, 1) of a key."""
    return np.float64(key >> _11) * 1.1102230246251565e-16


@kernel
def list_uniform(key, n):
    """The n-th uniform number of a list as a whole, given a policy's key at a step; independent of those of items."""
    return uniform(derive(derive(key, OF_LIST), n))


@kernel
def below(key, n):
    """An integer in 0 .. n-1."""
    return np.int64(uniform(key) * n)


def _branch(key: int, *path: int) -> int:
    """``derive`` along a path, with Python integers: ten times as fast as NumPy for one key."""
    for n in path:
        z = (key + (n + 1) * 0x9E3779B97F4A7C15) & _64_BITS
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64_BITS
        key = z ^ (z >> 31)
    return key


def place_uniform(key: int, place: int) -> float:
    """The uniform number with which a place is filled when an order is shown through a softmax, given a policy's key at
    a step; independent of what made the order.
    """
    return (_branch(key, int(OF_PLACES), place) >> 11) * 2.0**-53


def run_key(seed: int, query: str, run: int) -> int:
    """The key of one run: everything random in it derives from this."""
    check_integer("seed", seed, 0, _64_BITS)
    check_integer("run", run, 0, _64_BITS)
    return _branch(0, seed, key_of(query), run)


def run_keys(seed: int, query: str, runs: Sequence[int]) -> NDArray[np.uint64]:
    """The keys of several runs."""
    check_integer("seed", seed, 0, 2**64 - 1)
    for run in (*runs[:1], min(runs, default=0), max(runs, default=0)):
        check_integer("run", run, 0, 2**64 - 1)
    keys: NDArray[np.uint64] = derive(np.uint64(_branch(0, seed, key_of(query))), np.array(runs, np.uint64))
    return keys


def policy_key(run: int, t: int) -> int:
    """The key of a policy's randomness at step t of a run."""
    return _branch(run, t, POLICY)


def users_key(run: int, t: int) -> int:
    """The key of the users' randomness at step t of a run."""
    return _branch(run, t, USERS)


def world_keys(runs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The keys of the world's randomness, given those of runs."""
    keys: NDArray[np.uint64] = derive(derive(runs, 0), WORLD)
    return keys


def key_of(text: str) -> int:
    """A 64-bit digest of a name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
