"""CascadeRegimeTS: Thompson sampling that accounts for unobserved changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.distributions import beta
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import REGIME, derive, uniform
from driftrank.kernels.top_k import TIES, insert
from driftrank.policies import alarms
from driftrank.policies.base import Policy
from driftrank.policies.regime.change_events import (
    declare_change,
    exploration_hazard,
    hazard,
    joint_test,
    return_of_a_regime,
)
from driftrank.policies.regime.change_posterior import (
    STORED_REGIME,
    UNSEEN_CHANGE,
    filter_label,
    predictive,
    restart_item,
    select_hypothesis,
    unseen_change,
)
from driftrank.policies.regime.regime_memory import draw_regime, forget_in_regimes, weigh_regimes
from driftrank.validation import check_integer, check_number

#: the place of items that are shown for exploration
ORDER = ("challengers-first", "natural")
_CHALLENGERS_FIRST = 0
#: equal draws have probability 0, so the tie-break does not matter
_BY_SLOT = TIES.index("index")


class CascadeRegimeTS(Policy):
    r"""Thompson sampling on a posterior over change points, with a memory for regimes.

    It needs neither the horizon, nor the number of changes, nor any rate.

    1. For every item it keeps a posterior over when the item last changed: a *root* (not since the last declared
       change) and up to M younger hypotheses, each with its own Beta counts and a weight. To rank, it draws a
       hypothesis, then an attraction, and shows the K largest.
    2. An item that was not observed for d steps has changed meanwhile with probability :math:`1 - e^{-hd}`; with that
       probability, at a hazard scaled by ``vigilance``, it is drawn from the prior. There is no other forced
       exploration: a surprising click raises the probability of a change, and the item is shown again at once.
    3. The hazard h is learnt, :math:`h(t) = (A + C) / (B + L t)` after C changes found: the longer nothing changes, the
       less it explores, about :math:`\sqrt{Lt}` exploratory observations in t steps without change.
    4. Items share change times: a change found on one item raises the probability that the others changed at the same
       time, by the frequency learnt so far; every ``joint_every`` steps the evidence of all items is combined.
    5. When an event ends a regime, the counts of all items are stored; stored regimes compete as a whole with the
       items' own posteriors, and one that predicts clicks better is recalled.

    Parameters
    ----------
    order
        ``"challengers-first"``: items shown for exploration go to the top, where they are observed; in the cascade
        model the order of a list does not change its value. ``"natural"``: best first, for click models in which it
        does.
    feedback
        The positions that count as observed.
    a0, b0
        Prior of an item's attraction, initially and after every change.
    sharpness
        Attractions are drawn from :math:`\mathrm{Beta}(a_0 + cS, b_0 + cF)`; c > 1 is greedier than the posterior;
        vigilance makes up for missed changes.
    vigilance
        v: items not observed for long are explored at the hazard :math:`v (1 + C) / (B + L t)`.
    hazard_changes, hazard_steps
        A and B, the prior of the hazard: A changes in B item-steps.
    hypotheses
        M, the number of hypotheses. Their births are spread geometrically over the past, so 16 reach far.
    declare_below
        A change is declared when the root's weight falls below this.
    co_changes
        Prior number of other items that change at an event.
    joint_every
        Steps between two joint tests; 0: never.
    regimes
        G, the number of stored regimes; 0: none.
    comeback, comeback_events
        Prior probability that an event brings back a stored regime, and the number of events that this prior counts as.

    Notes
    -----
    No guarantee is proved: the filter approximates the posterior of a hierarchical model. Measurements, including
    losses against other policies, are in the documentation ("The default policy").

    State: :math:`5L(M+1) + 3L + 2GL + 3G + 70` floats and :math:`L + 67` integers, independent of the number of steps:
    9.6 kB at L = 10. A step costs O(L + KM), and O(LM) when a change is declared.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeRegimeTS().start(items=["a", "b", "c"], k=1, seed=0)
    >>> for _ in range(50):
    ...     learner.update(["a"], clicks=[0])
    >>> for _ in range(4):  # never clicked, then always
    ...     learner.update(["a"], clicks=[1])
    >>> learner.alarms
    [Alarm(step=54, item='a', everything=False)]
    """

    choices = {**Policy.choices, "order": ORDER}
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt", "drift")

    order: str = "challengers-first"
    feedback: str = "first"  # type: ignore[misc]
    a0: float = 0.5
    b0: float = 0.5
    sharpness: float = 1.5
    vigilance: float = 0.25
    hazard_changes: float = 0.5
    hazard_steps: float = 1000.0
    hypotheses: int = 16
    declare_below: float = 0.02
    co_changes: float = 2.0
    joint_every: int = 32
    regimes: int = 4
    comeback: float = 0.001
    comeback_events: float = 30.0

    alarmed: ClassVar[Any] = staticmethod(alarms.alarmed)
    alarm: ClassVar[Any] = staticmethod(alarms.alarm)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("a0", "b0", "sharpness", "hazard_changes", "hazard_steps", "comeback_events"):
            check_number(name, getattr(self, name), 0, open_low=True)
        for name in ("vigilance", "co_changes"):
            check_number(name, getattr(self, name), 0)
        check_number("declare_below", self.declare_below, 0, 0.5, open_low=True)
        check_number("comeback", self.comeback, 0, 1)
        check_integer("hypotheses", self.hypotheses, 2)
        check_integer("joint_every", self.joint_every, 0)
        check_integer("regimes", self.regimes, 0)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        hypotheses = {name: field("L", p["hypotheses"] + 1) for name in "SFWTQ"}
        per_item = {"held": integers("L"), **{name: field("L") for name in ("last", "pending", "mean")}}
        counts = {name: field(1) for name in ("changes", "events", "co", "event_at", "since")}
        memory = {name: field(p["regimes"], "L") for name in ("kept_S", "kept_F")}
        per_regime = {name: field(p["regimes"]) for name in ("kept_at", "visits")}
        belief = {"belief": field(p["regimes"] + 1), "regime": integers(2)}
        return {**hypotheses, **per_item, **counts, **memory, **per_regime, **belief, **alarms.alarm_fields()}

    def scratch(self, p: Mapping[str, Any]) -> int:
        return int(p["L"])

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            restart_item(p, s, a, 0.0, 0.0, 0.0)
            _note_mean(p, s, a)
        s.event_at[0] = -1.0
        s.belief[0] = 1.0
        s.regime[0] = -1

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        h = exploration_hazard(p, s, e.t, p.L)
        g = draw_regime(s, uniform(derive(e.key, REGIME))) if s.regime[1] > 0 else -1
        filled = 0
        K = r.items.shape[0]
        drawn = r.scratch  # by slot: the hypothesis drawn
        _draw_hypotheses(p, s, h, e, c, g, drawn)
        for j in range(c.items.shape[0]):
            a = c.items[j]
            k = np.int64(drawn[a])
            S = 0.0
            F = 0.0
            if k >= 0:
                S = s.S[k]
                F = s.F[k]
            elif k == STORED_REGIME:
                S = s.kept_S[g * p.L + a]
                F = s.kept_F[g * p.L + a]
            theta = beta(derive(e.key, c.token[a]), p.a0 + p.sharpness * S, p.b0 + p.sharpness * F)
            filled = insert(r, 0, filled, K, theta, a, e, c, _BY_SLOT)
        if p.order == _CHALLENGERS_FIRST:
            front = 0
            for i in range(K):
                a = r.items[i]
                k = np.int64(drawn[a])
                explorer = k == UNSEEN_CHANGE or (k >= 0 and k != np.int64(a) * (p.hypotheses + 1))
                if explorer or _is_challenger(s, c, a, K):
                    u = r.score[i]
                    for n in range(i, front, -1):
                        r.items[n] = r.items[n - 1]
                        r.score[n] = r.score[n - 1]
                    r.items[front] = a
                    r.score[front] = u
                    front += 1

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        t = np.float64(e.t)
        for i in range(observed):
            a = np.int64(r.items[i])
            total = filter_label(p, s, a, clicks[i], t, hazard(p, s, t, p.L), p.a0, p.b0, p.a0, p.b0)
            weigh_regimes(p, s, a, clicks[i], total, p.a0, p.b0)
            if s.W[a * (p.hypotheses + 1)] < p.declare_below:
                declare_change(p, s, e, a, t, p.L)
            _note_mean(p, s, a)
        if p.joint_every > 0 and e.t % p.joint_every == 0:
            joint_test(p, s, t, p.L)
        if return_of_a_regime(p, s, e, t):
            for a in range(p.L):
                _note_mean(p, s, a)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        h = hazard(p, s, e.t, p.L)
        for j in range(c.items.shape[0]):
            a = np.int64(c.items[j])
            first = a * (p.hypotheses + 1)
            mean = 0.0
            for k in range(first, first + s.held[a]):
                mean += s.W[k] * predictive(s.S[k], s.F[k], p.a0, p.b0)
            q = unseen_change(s.pending[a], h, e.t - s.last[a] - 1.0)
            mean = q * p.a0 / (p.a0 + p.b0) + (1.0 - q) * mean
            u = s.belief[0] * mean
            for g in range(s.regime[1]):
                u += s.belief[g + 1] * predictive(s.kept_S[g * p.L + a], s.kept_F[g * p.L + a], p.a0, p.b0)
            out[j] = u

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        first = a * (p.hypotheses + 1)
        mean = 0.0
        samples = 0.0
        for k in range(first, first + s.held[a]):
            mean += s.W[k] * predictive(s.S[k], s.F[k], p.a0, p.b0)
            samples += s.W[k] * (s.S[k] + s.F[k])
        return (mean if samples > 0.0 else np.nan), samples

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        restart_item(p, s, a, 0.0, 0.0, e.t - 1.0)
        _note_mean(p, s, a)
        forget_in_regimes(p, s, a)


@kernel
def _note_mean(p, s, a):
    """Store the mean of the root of item ``a``, by which challengers are found."""
    first = a * (p.hypotheses + 1)
    s.mean[a] = predictive(s.S[first], s.F[first], p.a0, p.b0)


@kernel
def _draw_hypotheses(p, s, h, e, c, g, drawn):
    """Draw, for every item, the place of a hypothesis, the prior (after an unobserved change), or regime ``g``."""
    n = c.items.shape[0]
    j = 0
    while True:
        # Usually it is the root: q is at most the sum below, and the root's share reaches at least up to its weight.
        # Others are handled outside this loop, so that the threads of a GPU do that at the same time.
        u = 0.0
        gap = 0.0
        while j < n:
            a = c.items[j]
            first = np.int64(a) * (p.hypotheses + 1)
            u = uniform(derive(e.key, c.token[a]))
            gap = e.t - s.last[a] - 1.0
            if not (u >= s.pending[a] + h * gap and g < 0 and u < s.W[first]):
                break
            drawn[a] = first
            j += 1
        if j == n:
            break
        a = c.items[j]
        drawn[a] = select_hypothesis(p, s, a, u, unseen_change(s.pending[a], h, gap), g)
        j += 1


@kernel
def _is_challenger(s, c, a, K):
    """True if item ``a`` is not among the K candidates with the largest means."""
    better = 0
    for j in range(c.items.shape[0]):
        better += s.mean[c.items[j]] > s.mean[a]
    return better >= K
