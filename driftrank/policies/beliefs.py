"""What a policy believes of an item: how attractive it is, and on how many observations that rests.

The kernel ``believe(p, s, e, a)`` of a policy returns both, NaN for what it does not know. A policy that counts what it
sees of every item, in the fields ``N`` and ``X`` or ``S`` and ``F``, need not write one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Layout


@dataclass(frozen=True, slots=True)
class Belief:
    """What a policy believes of an item; None for what it has no notion of."""

    #: how likely a user who looks at it clicks, as far as the clicks that count say; None without any
    estimate: float | None
    #: what the score adds to the estimate, so that little-known items are tried; None where chance does that
    bonus: float | None
    #: how many observations the estimate rests on: those that count, each as much as it does
    samples: float | None
    score: float | None  #: what the policy says it is worth, as in ``learner.scores()``; None where that is infinite


@kernel
def believe_nothing(p, s, e, a):
    """Of a policy that compares items, or weighs them, but estimates nothing."""
    return np.nan, np.nan


@kernel
def believe_counts(p, s, e, a):
    """X clicks of N looks."""
    return (s.X[a] / s.N[a] if s.N[a] > 0.0 else np.nan), s.N[a]


@kernel
def believe_clicks_and_skips(p, s, e, a):
    """S clicks and F looks without; what was thought before the first look has no say."""
    N = s.S[a] + s.F[a]
    return (s.S[a] / N if N > 0.0 else np.nan), N


def believer(written: Any, layout: Layout) -> Any:
    """The kernel that a policy has written, or else the one that its fields ask for."""
    if written is not believe_nothing:
        return written
    per_item = {name for name, field in layout.fields if field.dims == ("L",) and not field.integer}
    if {"N", "X"} <= per_item:
        return believe_counts
    if {"S", "F"} <= per_item:
        return believe_clicks_and_skips
    return believe_nothing


def belief(estimate: float, samples: float, score: float, optimistic: bool) -> Belief:
    bonus = _known(score - estimate) if optimistic else None
    return Belief(_known(estimate), bonus, _known(samples), _known(score))


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
