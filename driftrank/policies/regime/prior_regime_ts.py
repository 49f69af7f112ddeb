"""PriorRegimeTS: the caller's order and all other queries as a prior, for users who may stop reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels import kernel
from driftrank.kernels.distributions import beta
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import REGIME, derive, uniform
from driftrank.kernels.structures import Described
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
from driftrank.policies.regime.list_with_explorers import TIES, keep_best, put_explorers
from driftrank.policies.regime.regime_memory import draw_regime, forget_in_regimes, weigh_regimes
from driftrank.policies.shared import model
from driftrank.policies.shared.memo import MEMO, going_on_in, memo_lost, write_memo
from driftrank.policies.shared.reading import READING, after_click_of, count_reading, going_on_of, observed_until_left
from driftrank.validation import check_integer, check_number

#: stages of an item: never observed; observed; observed, and a change was declared
_NEW, _OBSERVED, _CHANGED = 0, 1, 2
#: exploration of items not observed for long, relative to that with a shared model: nothing else says what to explore
_WITHOUT_PRIOR = 2.0
#: a root with more weight is taken for the whole posterior
_CERTAIN = 0.9999


class PriorRegimeTS(Policy):
    r"""CascadeRegimeTS with a moving prior, lists ordered by their means, and users who stop.

    A *shared model*, one for all queries of a ranker, gives every candidate a prior Beta(A, B), from its place in the
    caller's order, the item, the query, and features (:mod:`driftrank.policies.shared.model`). Counts of clicks are
    kept apart from it, so the prior of an old query moves as well. A new query is served in about the caller's order,
    and tail queries need no rule of their own.

    1. Changes are found as in :class:`CascadeRegimeTS`. A root without a declared change has the prior Beta(A, B);
       hypotheses of a change, and roots after one, have Beta(c, 1 - c), where c is the prior's mean times
       the probability that users go on, but at least ``change_mean``: an item far down in the caller's order may have
       risen. Where users stop early, skips say less, and so do changes.
    2. The list has the K items with the largest posterior means, and at most ``explore_max`` others: those that
       Thompson sampling would show. Such an *explorer* stands where a look at it costs the fewest clicks, given how
       users read; without a shared model before the first item whose mean is below its draw. Equal means keep the
       caller's order.
    3. Draws of a root are from :math:`\mathrm{Beta}(c(A + S), c(B + F))`, c = ``sharpness`` + ``early_sharpness`` / t:
       a young query is served rather than explored.
    4. A list was perhaps not read to its end, and users may go on after a click: see
       :mod:`driftrank.policies.shared.reading`.

    Without a shared model (``start`` without ``shared``, simulations of one query) the prior is Beta(1/2, 1/2), and the
    probability that users go on is learnt by the query alone.

    A learner that was started with ``slots`` keeps a state only for items that were observed: candidates may be any
    items.

    Parameters
    ----------
    feedback
        The positions that count as observed in a list with a click: up to the first one, or up to the last one and as
        far as the user may have gone on after it.
    stops
        True: users may stop reading. False: lists without a click were read to their end.
    explore_max
        The most explorers in a list; 0: none.
    explore_from
        The highest position of an explorer; 2: never on top.
    guard
        True: show an explorer only if the list with it is estimated to be no worse than the caller's.
    ties
        ``"order"``: equal means keep the order of the candidates; ``"random"``.
    change_mean
        The least prior mean of an attraction after a change.
    sharpness, early_sharpness
        See 3; hypotheses of a change are drawn with ``sharpness`` alone.
    vigilance, hazard_changes, hazard_steps, hypotheses, declare_below, co_changes, joint_every, regimes
        As in :class:`CascadeRegimeTS`; L is the number of candidates for vigilance, of observed items elsewhere.
        Without a shared model vigilance counts twice.
    comeback, comeback_events
        As in :class:`CascadeRegimeTS`.
    most_items
        A learner that was started with ``slots`` keeps a state of at most so many items (and at least of K); beyond, it
        forgets those that were observed least.
    hash_bits
        b: queries, items with their named features, and crosses have :math:`2^b` weights each in the shared model, of
        :math:`12 \cdot 2^b` floats: 3.1 MB at b = 15; 24 kB more are the scales of named numbers.
    dense
        The most features of an item that are given as a vector.
    shrink_strength
        True: a prior is also weaker if the shared model is uncertain of its mean.

    Notes
    -----
    No guarantee is proved.

    State: :math:`5L(M+1) + 2L + 2GL + 3G + 76` floats and :math:`2L + 68` integers for L items with a state,
    independent of the number of steps. A step costs O(n + KM) for n candidates, and O(LM) when a change is declared.

    Examples
    --------
    >>> import driftrank as dr
    >>> model = dr.SharedModel(dr.PriorRegimeTS())
    >>> learner = model.policy.start(items=(), k=2, slots=2, query="shoes", shared=model, seed=0)
    >>> learner.rank(["x", "y", "z"])  # at first the caller's order
    ['x', 'y']
    >>> for _ in range(9):
    ...     ranking = learner.rank(["x", "y", "z"])
    ...     learner.update(ranking, clicks="y" if "y" in ranking else None)
    >>> learner.rank(["x", "y", "z"])[0]
    'y'
    """

    choices = {**Policy.choices, "ties": TIES}
    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt", "drift")
    memo: ClassVar[int] = MEMO
    version: ClassVar[int] = 2  # 1 did not count how often users go on after a click

    feedback: str = "last"  # type: ignore[misc]
    stops: bool = True
    explore_max: int = 1
    explore_from: int = 1
    guard: bool = False
    ties: str = "order"
    change_mean: float = 0.1
    sharpness: float = 1.5
    early_sharpness: float = 64.0
    vigilance: float = 0.25
    hazard_changes: float = 0.5
    hazard_steps: float = 1000.0
    hypotheses: int = 8
    declare_below: float = 0.02
    co_changes: float = 2.0
    joint_every: int = 32
    regimes: int = 4
    comeback: float = 0.001
    comeback_events: float = 30.0
    most_items: int = 80  # type: ignore[misc]
    hash_bits: int = 15
    dense: int = 16
    shrink_strength: bool = False

    alarmed: ClassVar[Any] = staticmethod(alarms.alarmed)
    alarm: ClassVar[Any] = staticmethod(alarms.alarm)
    observed: ClassVar[Any] = staticmethod(observed_until_left)
    shared_init: ClassVar[Any] = staticmethod(model.shared_init)
    shared_prior: ClassVar[Any] = staticmethod(model.shared_prior)
    shared_learn: ClassVar[Any] = staticmethod(model.shared_learn)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sharpness", "hazard_changes", "hazard_steps", "comeback_events"):
            check_number(name, getattr(self, name), 0, open_low=True)
        for name in ("early_sharpness", "vigilance", "co_changes"):
            check_number(name, getattr(self, name), 0)
        check_number("change_mean", self.change_mean, 0, 1, open_low=True, open_high=True)
        check_number("declare_below", self.declare_below, 0, 0.5, open_low=True)
        check_number("comeback", self.comeback, 0, 1)
        check_integer("explore_max", self.explore_max, 0)
        check_integer("explore_from", self.explore_from, 1)
        check_integer("hypotheses", self.hypotheses, 2)
        check_integer("joint_every", self.joint_every, 0)
        check_integer("regimes", self.regimes, 0)
        check_integer("most_items", self.most_items, 1)
        check_integer("hash_bits", self.hash_bits, 1, 24)
        check_integer("dense", self.dense, 0, 1000)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        hypotheses = {name: field("L", p["hypotheses"] + 1) for name in "SFWTQ"}
        per_item = {**{name: integers("L") for name in ("held", "stage")}, "last": field("L"), "pending": field("L")}
        counts = {name: field(1) for name in ("changes", "events", "co", "event_at", "since")}
        memory = {name: field(p["regimes"], "L") for name in ("kept_S", "kept_F")}
        per_regime = {name: field(p["regimes"]) for name in ("kept_at", "visits")}
        belief = {"belief": field(p["regimes"] + 1), "regime": integers(2)}
        # of items that were never observed: the step since when, the probability of a change; then the number of others
        others = {"unseen": field(2), "known": integers(1), "reading": field(4, fill=READING)}
        return {**hypotheses, **per_item, **counts, **memory, **per_regime, **belief, **others, **alarms.alarm_fields()}

    def shared_fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return model.shared_fields(p)

    def shared_contributions(
        self, p: Mapping[str, Any], h: Mapping[str, NDArray[Any]], x: Described
    ) -> list[dict[str, float]]:
        return model.contributions(p, h, x)

    def shared_summary(self, p: Mapping[str, Any], h: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        return model.summary(p, h)

    def scratch(self, p: Mapping[str, Any]) -> int:
        return int(2 * p["L"] + 2 * p["K"] + p["explore_max"])

    def explored(self, scores: NDArray[np.float64], memo: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """An explorer is ranked by its draw, the others by their means."""
        return np.not_equal(scores, memo[4::MEMO])

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            _make_new(p, s, a)
        s.event_at[0] = -1.0
        s.belief[0] = 1.0
        s.regime[0] = -1

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        n = c.items.shape[0]
        K = r.items.shape[0]
        slots = c.token.shape[0]
        theta = r.scratch[:slots]
        mean = r.scratch[slots : 2 * slots]
        h = exploration_hazard(p, s, e.t, n)
        if c.going_on == 0.0:
            h *= _WITHOUT_PRIOR
        g = draw_regime(s, uniform(derive(e.key, REGIME))) if s.regime[1] > 0 else -1
        sharpness = p.sharpness + p.early_sharpness / e.t
        going_on = _going_on(p, s, c)
        after_click = _after_click(p, s, c)
        filled = 0
        for j in range(n):
            a = np.int64(c.items[j])
            theta[a] = _draw(p, s, e, c, a, h, g, sharpness, going_on)
            mean[a] = _mean(p, s, c, a, going_on)
            filled = keep_best(r, filled, mean[a], a, e, c, p.ties)
        put_explorers(p, c, r, going_on)
        for i in range(K):
            a = np.int64(r.items[i])
            S = 0.0
            looks = 0.0
            if a < p.L:
                root = a * (p.hypotheses + 1)
                S = s.S[root]
                looks = S + s.F[root] if s.stage[a] != _CHANGED else -1.0
            write_memo(r, i, c.prior[2 * a], c.prior[2 * a + 1], S, looks, mean[a], going_on, after_click)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        t = np.float64(e.t)
        lost = memo_lost(r)
        for i in range(observed):
            a = np.int64(r.items[i])
            if s.stage[a] == _NEW:
                s.stage[a] = _OBSERVED
                s.known[0] += 1
            n = s.known[0]
            A = 0.5 if lost else r.memo[MEMO * i]
            B = 0.5 if lost else r.memo[MEMO * i + 1]
            changed = s.stage[a] == _CHANGED
            after = _mean_after_change(p, A, B, 1.0 if lost else going_on_in(r))
            root_A = after if changed else A
            root_B = 1.0 - after if changed else B
            h = hazard(p, s, t, n)
            total = filter_label(p, s, a, clicks[i], t, h, root_A, root_B, after, 1.0 - after)
            weigh_regimes(p, s, a, clicks[i], total, A, B)
            if s.W[a * (p.hypotheses + 1)] < p.declare_below:
                s.stage[a] = _CHANGED
                s.unseen[1] = max(s.unseen[1], declare_change(p, s, e, a, t, n))
        if p.joint_every > 0 and e.t % p.joint_every == 0:
            s.unseen[1] = max(s.unseen[1], joint_test(p, s, t, s.known[0]))
        if return_of_a_regime(p, s, e, t):
            s.unseen[0] = t
            s.unseen[1] = 0.0
        count_reading(p, r, clicks, s.reading)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        h = hazard(p, s, e.t, s.known[0])
        going_on = _going_on(p, s, c)
        for j in range(c.items.shape[0]):
            a = np.int64(c.items[j])
            last, pending = _last_observed(p, s, a)
            q = unseen_change(pending, h, e.t - last - 1.0)
            changed = _mean_after_change(p, c.prior[2 * a], c.prior[2 * a + 1], going_on)
            u = s.belief[0] * (q * changed + (1.0 - q) * _mean(p, s, c, a, going_on))
            for g in range(s.regime[1]):
                S, F = _kept(p, s, g, a)
                u += s.belief[g + 1] * predictive(S, F, c.prior[2 * a], c.prior[2 * a + 1])
            out[j] = u

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        samples = 0.0
        if a < p.L:
            first = a * (p.hypotheses + 1)
            for k in range(first, first + s.held[a]):
                samples += s.W[k] * (s.S[k] + s.F[k])
        known = samples > 0.0 or c.going_on > 0.0  # without a shared model, a new item has no estimate
        return (_mean(p, s, c, a, _going_on(p, s, c)) if known else np.nan), samples

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        if s.stage[a] != _NEW:
            s.known[0] -= 1
        _make_new(p, s, a)
        forget_in_regimes(p, s, a)


@kernel
def _make_new(p, s, a):
    """Make item ``a`` one that was never observed: its state is that of an item without one."""
    restart_item(p, s, a, 0.0, 0.0, s.unseen[0])
    s.pending[a] = s.unseen[1]
    s.stage[a] = _NEW


@kernel
def _last_observed(p, s, a):
    """The step of the last observation of item ``a``, and the probability that it changed at an event since then."""
    if a < p.L:
        return s.last[a], s.pending[a]
    return s.unseen[0], s.unseen[1]


@kernel
def _kept(p, s, g, a):
    """The counts of item ``a`` in stored regime ``g``."""
    if a < p.L:
        return s.kept_S[g * p.L + a], s.kept_F[g * p.L + a]
    return 0.0, 0.0


@kernel
def _going_on(p, s, c):
    """The probability that users go on: of the shared model, or of the query alone."""
    if not p.stops:
        return 1.0
    return c.going_on if c.going_on > 0.0 else going_on_of(s.reading)


@kernel
def _after_click(p, s, c):
    """The probability that users go on after a click: of the shared model, or of the query alone."""
    if not p.stops:
        return 0.0
    return c.after_click if c.going_on > 0.0 else after_click_of(s.reading)


@kernel
def _mean_after_change(p, A, B, going_on):
    """The prior mean of an attraction after a change, given the prior before it."""
    return max(p.change_mean, going_on * A / (A + B))


@kernel
def _mean(p, s, c, a, going_on):
    """The posterior mean of the attraction of item ``a``."""
    A = c.prior[2 * a]
    B = c.prior[2 * a + 1]
    if a >= p.L:
        return A / (A + B)
    first = a * (p.hypotheses + 1)
    after = _mean_after_change(p, A, B, going_on)
    if s.stage[a] == _CHANGED:
        A = after
        B = 1.0 - after
    mean = s.W[first] * predictive(s.S[first], s.F[first], A, B)
    if s.W[first] < _CERTAIN:
        for k in range(first + 1, first + s.held[a]):
            mean += s.W[k] * predictive(s.S[k], s.F[k], after, 1.0 - after)
    return mean


@kernel
def _draw(p, s, e, c, a, h, g, sharpness, going_on):
    """Draw the attraction of item ``a``: its hypothesis, or regime ``g``, then a number from its distribution."""
    key = derive(e.key, c.token[a])
    u = uniform(key)
    last, pending = _last_observed(p, s, a)
    gap = e.t - last - 1.0
    stateless = a >= p.L
    first = a * (p.hypotheses + 1)
    k = first
    if not (u >= pending + h * gap and g < 0 and (stateless or u < s.W[first])):
        q = unseen_change(pending, h, gap)
        if not stateless:
            k = select_hypothesis(p, s, a, u, q, g)
        elif u < q:
            k = UNSEEN_CHANGE
        elif g >= 0:
            k = STORED_REGIME
    A = _mean_after_change(p, c.prior[2 * a], c.prior[2 * a + 1], going_on)
    B = 1.0 - A
    if k == first and (stateless or s.stage[a] != _CHANGED):
        A = sharpness * c.prior[2 * a]
        B = sharpness * c.prior[2 * a + 1]
        if not stateless:
            A = sharpness * (c.prior[2 * a] + s.S[k])
            B = sharpness * (c.prior[2 * a + 1] + s.F[k])
    elif k == STORED_REGIME:
        S, F = _kept(p, s, g, a)
        A = sharpness * c.prior[2 * a] + p.sharpness * S
        B = sharpness * c.prior[2 * a + 1] + p.sharpness * F
    elif k != UNSEEN_CHANGE:
        A += p.sharpness * s.S[k]
        B += p.sharpness * s.F[k]
    return beta(key, A, B)
