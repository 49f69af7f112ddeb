"""Beliefs of a policy about an item: its estimated attraction, and the number of observations behind the estimate.

They are what the kernel ``believe(p, s, e, c, a)`` of a policy returns. A policy that counts its observations of every
item states one of the kernels below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftrank.kernels import kernel


@dataclass(frozen=True, slots=True)
class Belief:
    """A policy's belief about an item; None for what the policy does not estimate."""

    #: the estimated probability of a click by a user who observes the item; None without observations
    estimate: float | None
    #: the difference of score and estimate, which makes uncertain items be tried; None if chance does that
    bonus: float | None
    #: the number of observations behind the estimate, each with its weight
    samples: float | None
    score: float | None  #: the item's worth, as in ``learner.scores()``; None if infinite
    prior: float | None = None  #: the estimate before any observation in this query, from the shared model
    strength: float | None = None  #: the number of observations that this prior is worth
    because: dict[str, float] | None = None  #: what place, score, query, item, features, crosses add to its logit


@kernel
def believe_counts(p, s, e, c, a):
    """X clicks in N observations."""
    return (s.X[a] / s.N[a] if s.N[a] > 0.0 else np.nan), s.N[a]


@kernel
def believe_clicks_and_skips(p, s, e, c, a):
    """S clicks and F observations without a click; the prior does not count."""
    N = s.S[a] + s.F[a]
    return (s.S[a] / N if N > 0.0 else np.nan), N


def belief(
    estimate: float,
    samples: float,
    score: float,
    prior: float | None,
    strength: float | None,
    because: dict[str, float] | None,
    optimistic: bool,
) -> Belief:
    """A belief in plain numbers; what is not finite is None, and so is the bonus of a policy without one."""
    bonus = _finite(score - estimate) if optimistic else None
    return Belief(_finite(estimate), bonus, _finite(samples), _finite(score), prior, strength, because)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
