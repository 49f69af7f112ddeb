"""A posterior over the last change of each item's attraction.

An item's *root* hypothesis (number 0) is that nothing has changed since the last declared change; each of up to M
others (the parameter ``hypotheses``) is that the item changed at a certain step. A hypothesis has the clicks S and
skips F since its birth T, a weight W, and the prior mass Q at its birth. Weights of an item sum to 1; births increase
with the number.

The kernels use these fields of the state: ``S F W T Q`` (L times M+1), and, for every item, ``held`` (the number of
hypotheses), ``last`` (the step of its last observation), ``pending`` (the probability that it changed at an event since
then).

The prior of an attraction is an argument: Beta(A, B) for the root, Beta(C, D) for hypotheses of a change.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp

#: the distribution of an item's draw, if not one of its hypotheses: the prior of a change that was not observed
UNSEEN_CHANGE = -1
#: a stored regime
STORED_REGIME = -2


@kernel
def predictive(S, F, A, B):
    """The probability of a click after S clicks and F skips, with the prior Beta(A, B)."""
    return (S + A) / (S + F + A + B)


@kernel
def unseen_change(pending, h, gap):
    """The probability that an item changed in ``gap`` steps without observation, at hazard ``h``, or at an event."""
    return 1.0 - (1.0 - pending) * exp(-h * gap)


@kernel
def select_hypothesis(p, s, a, u, q, g):
    """The place of the hypothesis of item ``a`` selected by the uniform number ``u``, ``UNSEEN_CHANGE`` or
    ``STORED_REGIME``; ``q`` is the probability of an unobserved change, ``g`` the assumed regime (-1: none)."""
    if u < q:
        return UNSEEN_CHANGE
    if g >= 0:
        return STORED_REGIME
    u = (u - q) / (1.0 - q)
    k = np.int64(a) * (p.hypotheses + 1)
    last = k + s.held[a] - 1
    while k < last and u >= s.W[k]:
        u -= s.W[k]
        k += 1
    return k


@kernel
def restart_item(p, s, a, S, F, t):
    """Restart item ``a`` from given counts, with the root only."""
    first = a * (p.hypotheses + 1)
    s.S[first] = S
    s.F[first] = F
    s.W[first] = 1.0
    s.T[first] = t
    s.Q[first] = 1.0
    s.held[a] = 1
    s.pending[a] = 0.0
    s.last[a] = t


@kernel
def _copy(s, to, source):
    s.S[to] = s.S[source]
    s.F[to] = s.F[source]
    s.T[to] = s.T[source]


@kernel
def _merge_closest(s, first, n):
    """Free a place: merge the two neighbours with the smallest ratio of ages. The root keeps its own counts; of others
    the heavier one survives."""
    closest = first
    older = s.S[first] + s.F[first]
    top, bottom = 1.0, 0.0  # the smallest ratio so far: counts are whole numbers, so products of them are exact
    for k in range(first, first + n - 1):
        # by ages, so that the remaining births are spread geometrically over the past
        younger = s.S[k + 1] + s.F[k + 1]
        if older * bottom < top * younger:
            top, bottom = older, younger
            closest = k
        older = younger
    if closest > first:
        if s.W[closest + 1] > s.W[closest]:
            _copy(s, closest, closest + 1)
        s.Q[closest] += s.Q[closest + 1]
    s.W[closest] += s.W[closest + 1]
    for k in range(closest + 1, first + n - 1):
        _copy(s, k, k + 1)
        s.W[k] = s.W[k + 1]
        s.Q[k] = s.Q[k + 1]


@kernel
def filter_label(p, s, a, y, t, h, A, B, C, D):
    """Learn an observation of item ``a``, clicked (y = 1) or not (y = 0). Returns its probability."""
    q = unseen_change(s.pending[a], h, t - s.last[a])
    s.pending[a] = 0.0
    s.last[a] = t
    first = a * (p.hypotheses + 1)
    n = s.held[a]
    if n > p.hypotheses:
        _merge_closest(s, first, n)
        n -= 1
    born = first + n
    s.S[born] = 0.0
    s.F[born] = 0.0
    s.T[born] = t
    s.Q[born] = q
    total = 0.0
    for k in range(first, born + 1):
        w = q if k == born else s.W[k] * (1.0 - q)
        one = predictive(s.S[k], s.F[k], A, B) if k == first else predictive(s.S[k], s.F[k], C, D)
        w *= one if y else 1.0 - one
        s.W[k] = w
        total += w
        if y:
            s.S[k] += 1.0
        else:
            s.F[k] += 1.0
    for k in range(first, born + 1):
        s.W[k] = max(s.W[k] / total, 1e-100)
    s.held[a] = n + 1
    return total


@kernel
def heaviest(p, s, a):
    """The place of the heaviest hypothesis of a change of item ``a``."""
    first = a * (p.hypotheses + 1)
    best = first + 1
    for k in range(first + 2, first + s.held[a]):
        if s.W[k] > s.W[best]:
            best = k
    return best


@kernel
def declare(p, s, a, k):
    """Declare the change of hypothesis ``k`` of item ``a``: it becomes the root, with the weight of those before it;
    those after it stay."""
    first = a * (p.hypotheses + 1)
    end = first + s.held[a]
    weight = 0.0
    for i in range(first + 1, k + 1):
        weight += s.W[i]
    _copy(s, first, k)
    s.W[first] = weight
    n = 1
    for i in range(k + 1, end):
        _copy(s, first + n, i)
        s.W[first + n] = s.W[i]
        s.Q[first + n] = s.Q[i]
        n += 1
    s.held[a] = n
    _normalise(p, s, a)


@kernel
def _normalise(p, s, a):
    first = a * (p.hypotheses + 1)
    total = 0.0
    for k in range(first, first + s.held[a]):
        total += s.W[k]
    for k in range(first, first + s.held[a]):
        s.W[k] /= total


@kernel
def nearest_birth(p, s, a, tau):
    """The place of the hypothesis of item ``a``, the root excepted, born nearest to step ``tau``; -1 if there is
    none."""
    best = -1
    distance = 1e300
    first = a * (p.hypotheses + 1)
    for k in range(first + 1, first + s.held[a]):
        d = abs(s.T[k] - tau)
        if d < distance:
            distance = d
            best = k
    return best


@kernel
def suspect(p, s, a, tau, rho):
    """Account for an event at step ``tau``: item ``a`` changed then with prior probability ``rho``. Idempotent."""
    if s.last[a] < tau:
        s.pending[a] = max(s.pending[a], rho)
    elif s.T[a * (p.hypotheses + 1)] < tau:
        k = nearest_birth(p, s, a, tau)
        if k >= 0 and s.Q[k] < rho:
            s.W[k] *= rho / s.Q[k]
            s.Q[k] = rho
            _normalise(p, s, a)
