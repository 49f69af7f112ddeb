"""Events: changes that items share, their rates, and their declaration.

An *event* is a step at which items change. A change found on one item raises the probability that the others changed at
the same time. The kernels use the state of :mod:`~driftrank.policies.regime.change_posterior` and of
:mod:`~driftrank.policies.regime.regime_memory`, and the counts ``changes``, ``events``, ``co`` (changes of items at an
event that was known) and ``event_at`` (the step of the last event). ``n`` is the number of items that may change.
"""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.policies import alarms
from driftrank.policies.regime.change_posterior import declare, heaviest, nearest_birth, suspect
from driftrank.policies.regime.regime_memory import keep_regime, likeliest_regime, recall_regime

#: the largest hazard
_MOST_HAZARD = 0.01
#: the largest probability that another item changes, too
_MOST_TOGETHER = 0.5
#: odds against an event below which the joint test declares it
_JOINT_ODDS = 0.1
#: a stored regime is recalled above this probability
_RECALL_ABOVE = 0.95


@kernel
def hazard(p, s, t, n):
    """The probability that an item changes in a step: the mean of a Gamma posterior."""
    return min(_MOST_HAZARD, (p.hazard_changes + s.changes[0]) / (p.hazard_steps + n * t))


@kernel
def exploration_hazard(p, s, t, n):
    """The hazard for exploring items not observed for long. It expects the first change a little sooner, since none may
    ever come, and later ones less often than they occur, since exploration costs more than a late detection."""
    return min(_MOST_HAZARD, p.vigilance * (1.0 + s.changes[0]) / (p.hazard_steps + n * t))


@kernel
def event_rate(p, s, t):
    """The probability that items change at a step."""
    return (p.hazard_changes + s.events[0]) / (p.hazard_steps + t)


@kernel
def co_change(p, s, n):
    """The probability that an item changes when another one does."""
    return min(_MOST_TOGETHER, (p.co_changes + s.co[0]) / (max(1, n - 1) * (1.0 + s.events[0])))


@kernel
def declare_change(p, s, e, a, t, n):
    """Declare a change of item ``a``. Returns the probability that another one changed at the same time."""
    k = heaviest(p, s, a)
    tau = s.T[k]
    rho = co_change(p, s, n)
    if tau <= s.event_at[0]:
        s.co[0] += 1.0
    else:
        _event(p, s, tau, t)
    s.changes[0] += 1.0
    declare(p, s, a, k)
    alarms.raise_alarm(s, e, a, 0)
    for b in range(p.L):
        if b != a:
            suspect(p, s, b, tau, rho)
    return rho


@kernel
def _event(p, s, tau, t):
    s.events[0] += 1.0
    s.event_at[0] = t
    keep_regime(p, s, tau)


@kernel
def joint_test(p, s, t, n):
    """Declare an event if the evidence of all items together suffices. Returns the probability that an item changed at
    it; 0 if there is no event."""
    worst = 0
    for a in range(1, p.L):
        if s.W[a * (p.hypotheses + 1)] < s.W[worst * (p.hypotheses + 1)]:
            worst = a
    first = worst * (p.hypotheses + 1)
    rho = co_change(p, s, n)
    rate = event_rate(p, s, t)
    best = -1e300
    best_tau = 0.0
    for k in range(first + 1, first + s.held[worst]):
        tau = s.T[k]
        if tau <= s.event_at[0]:
            continue
        evidence = log(rate * max(1.0, tau - s.T[k - 1] if k > first + 1 else 1.0))
        for b in range(p.L):
            root = b * (p.hypotheses + 1)
            if s.last[b] >= tau and s.T[root] < tau:
                i = nearest_birth(p, s, b, tau)
                if i >= 0:
                    evidence += log(1.0 - rho + rho * s.W[i] / (s.Q[i] * s.W[root]))
        if evidence > best:
            best = evidence
            best_tau = tau
    if best > -log(_JOINT_ODDS):
        _event(p, s, best_tau, t)
        for b in range(p.L):
            suspect(p, s, b, best_tau, rho)
        return rho
    return 0.0


@kernel
def return_of_a_regime(p, s, e, t):
    """Recall the stored regime that is probable enough. Returns 1 if there is one, else 0."""
    if s.regime[1] > 0:
        g = likeliest_regime(p, s, min(_MOST_HAZARD, event_rate(p, s, t)))
        if g >= 0 and s.belief[g + 1] > _RECALL_ABOVE:
            recall_regime(p, s, g, t)
            if t - s.event_at[0] > 1.0:
                s.events[0] += 1.0
            s.event_at[0] = t
            s.changes[0] += 1.0
            alarms.raise_alarm(s, e, -1, 1)
            return 1
    return 0
