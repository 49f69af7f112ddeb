"""Blocks of nested instances and their tests: the schedule of MASTER (Wei and Luo, 2021), without the bandit.

A block of order m lasts 2^m steps. In it, an instance of order m' may begin at every multiple of 2^m' and lasts 2^m'
steps, so that at any step there is at most one of each order, the shorter within the longer. The shortest one is
active: it ranks and learns, while the others rest.

Rewards and values are numbers in [0, 1]; rho(t) = sqrt(L/t) + L/t bounds an instance's loss per step after t steps.
"""

from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import SECOND_SET, derive, uniform

_PER_LN2 = 1.4426950408889634


def nested_fields(orders: int) -> dict[str, Field]:
    """2 ``orders`` + 4 floats and ``orders`` + 3 integers."""
    return {
        "order": integers(1),  # of the block
        "done": integers(1),  # its steps so far
        "active": integers(1),  # the order of the active instance
        "alive": integers(orders),  # by order: 1 if there is an instance
        "acted": field(orders),  # the number of steps in which it was active
        "earned_before": field(orders),  # the reward of the block before it began
        "earned": field(1),  # rewards of the block
        "hoped": field(1),  # optimistic values of the block
        "least": field(1, fill=math.inf),  # the smallest of these
        "slack": field(1),  # the factor of rho in the tests
    }


@kernel
def rho(p, t):
    return np.sqrt(p.L / t) + p.L / t


@kernel
def slack_for(p, n):
    """test_scale * 6 (log2 n + 1) ln(n/delta)."""
    log_n = log(n)
    log_delta = p.log_delta if p.log_delta < 0.0 else -log_n
    return p.test_scale * 6.0 * (log_n * _PER_LN2 + 1.0) * (log_n - log_delta)


@kernel
def open_block(p, s, order):
    """Begin a block without instances."""
    s.order[0] = order
    s.done[0] = 0
    s.earned[0] = 0.0
    s.hoped[0] = 0.0
    s.least[0] = np.inf
    for m in range(p.orders):
        s.alive[m] = 0
    n = p.planned
    if p.doubling:
        n = max(n, np.float64(np.int64(2) << order))  # all steps since the last restart, at the end of this block
    s.slack[0] = slack_for(p, n)


@kernel
def begin_instances(p, s, e):
    """Begin instances at random before a step, and find the active one; returns True if that is a new one."""
    order = s.order[0]
    key = derive(e.key, SECOND_SET)
    full = rho(p, np.float64(np.int64(1) << order))
    for m in range(order + 1):
        length = np.int64(1) << m
        if s.done[0] & (length - 1):
            break  # no multiple of this length, nor of longer ones
        if m == order or uniform(derive(key, m)) * rho(p, np.float64(length)) < full:
            s.alive[m] = 1
            s.acted[m] = 0.0
            s.earned_before[m] = s.earned[0]
    before = s.active[0]
    m = 0
    while not s.alive[m]:
        m += 1
    s.active[0] = m
    return m != before or s.acted[m] == 0.0


@kernel
def end_step(p, s, reward, value, whole):
    """Count a step with this ``reward`` and optimistic ``value``, with ``whole`` for a list of full length.

    Returns True if a test fails: the attractions have changed since the block began.
    """
    s.acted[s.active[0]] += 1.0
    s.done[0] += 1
    s.earned[0] += reward
    s.hoped[0] += value
    if whole:
        s.least[0] = min(s.least[0], value)
    # test 2: the block earned less than its optimistic values
    done = np.float64(s.done[0])
    failed = s.hoped[0] - s.earned[0] >= 3.0 * s.slack[0] * rho(p, done) * done
    # test 1: an instance that ends here earned more than the smallest optimistic value
    for m in range(s.order[0] + 1):
        length = np.int64(1) << m
        if s.done[0] & (length - 1):
            break
        if s.alive[m]:
            mean = (s.earned[0] - s.earned_before[m]) / length
            failed |= mean >= s.least[0] + 9.0 * s.slack[0] * rho(p, np.float64(length))
            s.alive[m] = 0
    return failed


@kernel
def next_block(p, s, failed):
    """Open the next block after a step if this one is over or a test failed."""
    if failed:
        open_block(p, s, 0)
    elif s.done[0] >> s.order[0]:
        open_block(p, s, min(s.order[0] + 1, p.orders - 1))
