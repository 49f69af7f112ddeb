"""Drift: attraction that changes gradually."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.reflect import reflected
from driftrank.environments.start import START, first_level
from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.elementary import cosine
from driftrank.kernels.rng import below, derive, uniform
from driftrank.validation import check_choice, check_integer, check_number

#: amplitude and period of every shape
_DEFAULTS = {"sinusoid": (0.13, 20_000), "walk": (0.07, 20_000), "ramp": (0.3, 3000), "budget": (0.15, 1000)}


class Drift(QueryEnvironment):
    r"""Every item becomes gradually more and less attractive.

    The amplitude is A and the period P. Around each item's default attraction, first clipped to [A, 1 - A]:

    - ``"sinusoid"``: :math:`\alpha_t(a) = \alpha(a) + A \cos 2\pi(t/P_a + \phi_a)`, the phase and the period
      :math:`P_a \in [P/2, 3P/2]` are random;
    - ``"ramp"``: straight lines between levels drawn from :math:`\alpha(a) \pm A`, P steps apart.

    From the default attraction:

    - ``"walk"``: Brownian motion, reflected at 0 and 1, whose standard deviation after P steps is A;
    - ``"budget"``: the adversary of the lower bounds (Besbes et al., 2014). The attraction of one random item is raised
      by A for P steps, then that of another. The variation is :math:`V_n = A (\lceil n/P \rceil - 1)`.

    Parameters
    ----------
    shape
        One of the above.
    amplitude, period
        A, at most 0.5, and P in steps. ``"auto"``: 0.13 and 20000 for sinusoids, 0.07 and 20000 for walks, 0.3 and
        3000 for ramps, 0.15 and 1000 for budgets.
    block
        Attraction is constant for this many steps (not used by a budget).
    start
        ``"query"``: the query's default attraction; ``"uniform"``: levels below 1/2 instead, drawn in every run.

    Notes
    -----
    The attraction at step t costs O(L), and O(L log t) for a walk.

    >>> env = Drift([[0.5, 0.4, 0.3, 0.2, 0.1]], k=2, shape="budget", amplitude=0.25, period=1000)
    >>> env.variation(10_000)
    2.25
    """

    kind: ClassVar[str] = "drift"
    choices = {"shape": tuple(_DEFAULTS), "start": START}

    shape: str = "sinusoid"
    amplitude: float | str = "auto"
    period: int | str = "auto"
    block: int = 100
    start: str = "query"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("shape", self.shape, self.choices["shape"])
        amplitude, period = _DEFAULTS[self.shape]
        if self.amplitude == "auto":
            object.__setattr__(self, "amplitude", amplitude)
        if self.period == "auto":
            object.__setattr__(self, "period", period)
        check_number("amplitude", self.amplitude, 0, 0.5)
        check_integer("period", self.period, 1)
        check_choice("start", self.start, START)
        check_integer("block", self.block, 1)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        if p.shape == 3:
            batch = (t - 1) // p.period
            for a in range(base.shape[0]):
                alpha[a] = min(first_level(p, base, key, a), 1.0 - p.amplitude)
            alpha[_chosen(key, batch, base.shape[0])] += p.amplitude
            return (batch + 1) * p.period + 1
        block = (t - 1) // p.block
        time = np.float64(block * p.block) / p.period
        for a in range(base.shape[0]):
            own = derive(key, a)
            level = first_level(p, base, key, a)
            middle = min(max(level, p.amplitude), 1.0 - p.amplitude)
            if p.shape == 0:
                alpha[a] = middle + p.amplitude * _wave(own, time)
            elif p.shape == 2:
                alpha[a] = middle + p.amplitude * _ramp(own, time)
            else:
                a_block = p.amplitude * np.sqrt(np.float64(p.block) / p.period)
                alpha[a] = reflected(level + a_block * walk(own, block))
        return (block + 1) * p.block + 1


@kernel
def _wave(key, time):
    return cosine(time / (0.5 + uniform(derive(key, 0))) + uniform(derive(key, 1)))


@kernel
def _ramp(key, time):
    """A piecewise linear function in [-1, 1]; its corners are at different times for different items."""
    x = time + uniform(derive(key, 0))
    corner = math.floor(x)
    left = 2.0 * uniform(derive(key, corner + 1)) - 1.0
    right = 2.0 * uniform(derive(key, corner + 2)) - 1.0
    return left + (right - left) * (x - corner)


@kernel
def walk(key, n):
    """A Gaussian random walk after n steps of variance 1, in O(log n).

    Levy's construction: the walk at 1, 2, 4, 8, ... is a sum of independent parts; between two of these, the middle is
    normal around the mean of the ends, with a quarter of the distance as variance. Every n has one normal number.
    """
    if n == 0:
        return 0.0
    before = 0
    low = 0.0
    after = 1
    high = normal(derive(key, 1))
    while after < n:
        before = after
        low = high
        after *= 2
        high = low + np.sqrt(np.float64(after - before)) * normal(derive(key, after))
    while after > n:
        middle = (before + after) // 2
        value = 0.5 * (low + high) + np.sqrt(0.25 * (after - before)) * normal(derive(key, middle))
        if middle < n:
            before = middle
            low = value
        else:
            after = middle
            high = value
    return high


@kernel
def _chosen(key, batch, L):
    """The item of a batch: random, and never the same in two consecutive batches."""
    if L < 3:
        return batch % L
    if batch % 2 == 0:
        return below(derive(key, batch), L)
    # neither the item before nor the one after, which are drawn independently of it
    one = below(derive(key, batch - 1), L)
    other = below(derive(key, batch + 1), L)
    chosen = below(derive(key, batch), L - (1 if one == other else 2))
    if chosen >= min(one, other):
        chosen += 1
    if one != other and chosen >= max(one, other):
        chosen += 1
    return chosen
